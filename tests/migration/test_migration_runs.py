"""Whole commands that meet brokers, each other, full disks, closed directories and ledgers that cannot be written.

Each command runs in a process of its own; what it says and its exit code are looked at.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats.cli import main
from tests.builders.locks import broker
from tests.crash.commands import kafkats, small_disk, start, wait
from tests.crash.migration import contents, good, log_dir
from tests.crash.real import become
from tests.golden import Unpacked

pytestmark = pytest.mark.forks


@pytest.fixture(scope="module", autouse=True)
def _loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have every module here already: the commands are copies of this process, some of a user who may not read ours."""
    folder = tmp_path_factory.mktemp("loaded")
    root, plan, book = (
        log_dir(folder / "data", {"t-0": [(0, good(0))]}),
        folder / "plan",
        folder / "ledger",
    )
    for words in (
        ("plan", "migrate", root, "--to-magic", 2, "-o", plan), ("apply", plan, "--digest", "any"),
        ("certify", root, "--min-magic", 2, "-o", folder / "certificate"), ("undo", f"{plan}.run"),
        ("ledger", "begin", book, "--from-magic", 1, "--to-magic", 2, "--broker", "1"), ("ledger", "show", book),
    ):  # fmt: skip
        with (
            pytest.raises(SystemExit) as end,
            redirect_stdout(StringIO()),
            redirect_stderr(StringIO()),
        ):
            main([*map(str, words)])
        assert end.value.code == 0, words


def planned(root: Path, to: Path, *more: object) -> Path:
    ended = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", to, *more)
    assert ended.code == 0, ended.said
    return to


@pytest.fixture
def root(tmp_path: Path) -> Path:
    segments = [(base, good(base)) for base in (0, 22, 44)]
    return log_dir(tmp_path / "data", {"t-0": segments, "u-0": segments})


# Brokers


@pytest.mark.slow(11)
def test_a_running_broker(root: Path, tmp_path: Path) -> None:
    """A plan can be made beside it, apart from the active segments, which it writes to; nothing can be done."""
    plan, before = planned(root, tmp_path / "before"), contents(root)
    with broker(root):  # it has taken the marker away
        said = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "beside").said
        assert len(re.findall(r"blocked +[tu]-0 +0{18}44\.log .*clean-shutdown", said)) == 2
        for one in ("before", "beside"):
            ended = kafkats("apply", tmp_path / one, "--digest", "any")
            assert ended.code == 3 and "holds the lock: stop the broker first" in ended.said, (
                ended.said
            )
            assert contents(root) == before
    (root / ".kafka_cleanshutdown").touch()
    assert kafkats("apply", plan, "--digest", "any").code == 0
    after = contents(root)
    with broker(root):
        ended = kafkats("undo", tmp_path / "before.run")
        assert ended.code == 3 and "stop the broker first" in ended.said
        assert kafkats("purge", tmp_path / "before.run").code == 0, (
            "the old bytes are no concern of a broker"
        )
        assert contents(root) == after


def test_a_broker_appends_after_the_migration(root: Path, tmp_path: Path) -> None:
    plan = planned(root, tmp_path / "plan")
    assert kafkats("apply", plan, "--digest", "any").code == 0
    with (root / "t-0" / f"{44:020d}.log").open("ab") as log:
        log.write(good(49))
    now = contents(root)
    again = kafkats("apply", plan, "--digest", "any")
    assert again.code == 3 and "has changed since; make a new plan" in again.said
    ended = kafkats("undo", tmp_path / "plan.run")
    assert ended.code == 3 and "left alone: keep it and purge the run" in ended.said
    assert contents(root)["t-0"] == now["t-0"], "what was appended is not lost"


# Each other


def test_applies_at_once(root: Path, tmp_path: Path) -> None:
    """One plan, several processes: one does it, none spoils it, each says how it ended."""
    before = contents(root)
    for turn in range(4):
        plan = planned(root, tmp_path / f"plan-{turn}")
        gate, opener = os.pipe()

        def ready(gate: int = gate, opener: int = opener) -> None:
            os.close(opener)
            os.read(gate, 1)  # all go on when the parent closes its end

        outs = [tmp_path / f"out-{turn}-{n}" for n in range(3)]
        children = [start(out, "apply", plan, "--digest", "any", first=ready) for out in outs]
        os.close(opener)
        ended = [wait(child, out) for child, out in zip(children, outs, strict=True)]
        for one in ended:
            assert one.code == 0 or re.search(
                r"Locked|another run|newer attempt|changed|staging", one.said
            ), one.said
        final = kafkats("apply", plan, "--digest", "any")
        assert final.code == 0, final.said
        assert contents(root) != before
        assert not list((tmp_path / ".kafkats").rglob("staging-*"))
        assert kafkats("undo", tmp_path / f"plan-{turn}.run").code == 0
        assert contents(root) == before


def test_two_plans_for_the_same_partition(root: Path, tmp_path: Path) -> None:
    one, other = (
        planned(root, tmp_path / "one"),
        planned(root, tmp_path / "other", "--compression-type", "lz4"),
    )
    before = contents(root)
    assert kafkats("apply", one, "--digest", "any").code == 0
    after = contents(root)
    ended = kafkats("apply", other, "--digest", "any")
    assert ended.code == 3 and "changed since it was looked at" in ended.said
    assert contents(root) == after
    ended = kafkats("apply", other, "--digest", "any", "--run", tmp_path / "one.run")
    assert ended.code == 2 and "belongs to another run" in ended.said
    assert kafkats("undo", tmp_path / "other.run").code == 0, "it has nothing to take back"
    assert contents(root) == after
    assert kafkats("undo", tmp_path / "one.run").code == 0
    assert contents(root) == before


# Full disks


def no_file_above(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_files_may_not_grow(golden: Unpacked, tmp_path: Path) -> None:
    """A limit on the size of files is met in the middle of a staged log."""
    root = tmp_path / "data"
    shutil.copytree(
        golden("upgrade-0.9-to-2.8", "data"),
        root,
        ignore=shutil.ignore_patterns("gzip*", "lz4*", "sna*"),
    )
    plan, before = planned(root, tmp_path / "plan"), contents(root)
    ended = kafkats("apply", plan, "--digest", "any", first=no_file_above(16_000))
    assert ended.code == 2 and "File too large" in ended.said and "none-one-segment-0" in ended.said
    now = contents(root)
    assert now["none-one-segment-0"] == before["none-one-segment-0"]
    assert now["none-many-segments-0"] != before["none-many-segments-0"], (
        "its logs are small enough"
    )
    assert not list((tmp_path / ".kafkats").rglob("staging-*"))
    assert kafkats("apply", plan, "--digest", "any").code == 0
    assert kafkats("undo", tmp_path / "plan.run").code == 0
    assert contents(root) == before


@pytest.mark.root("mounts a file system")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        root = log_dir(disk / "data", {f"t-{n}": [(0, good(0, count=3000))] for n in range(4)})
        plan, before = planned(root, tmp_path / "plan"), contents(root)
        assert sum(len(data) for files in before.values() for data, _ in files.values()) > 500_000
        free = os.statvfs(disk).f_bavail
        ended = kafkats("apply", plan, "--digest", "any")
        assert ended.code == 2 and re.search(r"nothing was begun|No space left", ended.said), (
            ended.said
        )
        done = [name for name, files in contents(root).items() if files != before[name]]
        assert len(done) < 4
        (disk / "filler").write_bytes(bytes(os.statvfs(disk).f_bavail * 4096))
        ended = kafkats("apply", plan, "--digest", "any")
        assert ended.code == 2 and (
            "No space left" in ended.said or "nothing was begun" in ended.said
        )
        for verb in ("apply", "undo"):  # undo needs no room
            words = [plan, "--digest", "any"] if verb == "apply" else [tmp_path / "plan.run"]
            assert kafkats(verb, *words).code == (2 if verb == "apply" else 0)
            assert contents(root) == before or verb == "apply"
        (disk / "filler").unlink()
        assert kafkats("undo", tmp_path / "plan.run").code == 0
        assert contents(root) == before
        assert os.statvfs(disk).f_bavail > free - 60, "and the disk is as empty as before"


@pytest.mark.root("mounts a file system")
def test_the_disk_fills_while_it_is_written(tmp_path: Path) -> None:
    """Somebody else takes the space that was free when the apply began."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        root = log_dir(disk / "data", {"t-0": [(0, good(0, count=6000))]})
        plan, before = planned(root, tmp_path / "plan"), contents(root)
        (disk / "filler").write_bytes(bytes((os.statvfs(disk).f_bavail - 60) * 4096))

        def lie() -> None:
            usage = shutil.disk_usage(disk)
            shutil.disk_usage = lambda path: usage._replace(free=1 << 40)  # type: ignore[assignment]

        ended = kafkats("apply", plan, "--digest", "any", first=lie)
        assert ended.code == 2 and "No space left" in ended.said and str(disk) in ended.said
        assert contents(root) == before
        assert not list((disk / ".kafkats").rglob("staging-*")), "the disk does not stay full"
        (disk / "filler").unlink()
        assert kafkats("apply", plan, "--digest", "any").code == 0
        assert kafkats("undo", tmp_path / "plan.run").code == 0
        assert contents(root) == before


# Closed doors


@pytest.mark.slow(1)
@pytest.mark.root("becomes another user")
@pytest.mark.parametrize("what", ["partition", "root", "beside", "log", "work area", "run", "plan"])
def test_what_this_user_may_not(what: str) -> None:
    with TemporaryDirectory() as folder:  # pytest's own directories are closed to other users
        home = Path(folder)
        root = log_dir(home / "volume" / "data", {"t-0": [(0, good(0)), (5, good(5))]})
        for path in (home, *home.rglob("*")):
            os.chown(path, 1234, 1234)
        me = become(1234)
        before = contents(root)
        plan = home / "plan"
        assert kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, first=me).code == 0
        closed = {
            "partition": root / "t-0", "root": root, "beside": root.parent, "log": root / "t-0" / f"{0:020d}.log",
            "work area": root.parent / ".kafkats", "run": home / "plan.run", "plan": plan / "items.parquet",
        }[what]  # fmt: skip
        if not closed.exists():
            closed.mkdir()
        os.chown(closed, 0, 0)
        closed.chmod(0o755 if closed.is_dir() else 0o600)
        if what == "root":  # nothing below needs to be made
            (root / ".lock").unlink()
        ended = kafkats("apply", plan, "--digest", "any", first=me)
        assert ended.code in (2, 3) and str(home) in ended.said, ended.said
        assert re.search(
            r"may not|Permission denied|not permitted|keep a broker|changed since", ended.said
        ), ended.said
        assert contents(root) == before
        os.chown(closed, 1234, 1234)
        if what == "log":  # its ctime has moved
            plan = home / "second"
            assert kafkats("plan", "migrate", root, "--to-magic", 2, "-o", plan, first=me).code == 0
        ended = kafkats("apply", plan, "--digest", "any", "--run", home / "run", first=me)
        assert ended.code == 0, ended.said
        os.chown(root / "t-0", 0, 0)
        os.chmod(root / "t-0", 0o755)
        ended = kafkats("undo", home / "run", first=me)
        assert ended.code in (2, 3) and str(root / "t-0") in ended.said
        os.chown(root / "t-0", 1234, 1234)
        assert kafkats("undo", home / "run", first=me).code == 0
        assert contents(root) == before


def test_nobody_reads_a_staged_log(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the old one's mode from commit on; until then nobody else may look into it."""
    for path in (root, root / "t-0", *(root / "t-0").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o600)
    plan = planned(root, tmp_path / "plan")
    modes = tmp_path / "modes"

    def watch() -> None:
        from kafkats.migration import stage

        real = stage.digest_records

        def look(*args: object, **kept: bool) -> object:
            with modes.open("a") as file:
                for path in (tmp_path / ".kafkats").rglob("staging-*/*.log"):
                    print(oct(stat.S_IMODE(path.stat().st_mode)), file=file)
            return real(*args, **kept)  # type: ignore[arg-type]

        stage.digest_records = look  # type: ignore[assignment]

    assert kafkats("apply", plan, "--digest", "any", first=watch).code == 0
    assert set(modes.read_text().split()) == {"0o600"}


# Ledgers and odd words


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    assert (
        kafkats(
            "ledger",
            "begin",
            path,
            "--from-magic",
            1,
            "--to-magic",
            2,
            "--broker",
            "1",
            "--broker",
            "2",
        ).code
        == 0
    )
    for broker_name in ("1", "2"):
        assert (
            kafkats("ledger", "attest", path, "--broker", broker_name, "--text", "runs 2.8").code
            == 0
        )
    return path


def canary(root: Path, ledger: Path, tmp_path: Path) -> Path:
    step = ("--ledger", ledger, "--phase", "phase-1")
    for name in ("1", "2"):
        made = kafkats(
            "certify", root, "--max-magic", 1, "-o", tmp_path / f"c{name}", *step, "--broker", name
        )
        assert made.code == 0, made.said
    return planned(
        root, tmp_path / "plan", "--ledger", ledger, "--phase", "canary", "--broker", "1"
    )


LEDGERS: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a folder": (lambda p: (p.unlink(), p.mkdir()), 2, "directory|regular file"),
    "gone": (lambda p: p.unlink(), 3, "no migration has begun"),
    "edited": (lambda p: p.write_text(p.read_text().replace('"runs 2.8"', '"runs 4.1"')), 2, "edited or damaged"),
    "cut in the middle": (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), 3, "waits|attest|certif|broker"),
    "rubbish": (lambda p: p.write_bytes(b"\xff\0rubbish\n" * 5), 2, "edited or damaged"),
    "a pipe": (lambda p: (p.unlink(), os.mkfifo(p)), 2, "regular file|No such device"),
    "a link to itself": (lambda p: (p.unlink(), p.symlink_to(p)), 3, "no migration has begun"),
    "full": (lambda p: None, 2, "File too large"),
}  # fmt: skip


@pytest.mark.examples(2)
@pytest.mark.parametrize("what", LEDGERS)
def test_a_ledger_that_cannot_be_written(
    root: Path, ledger: Path, tmp_path: Path, what: str
) -> None:
    """The ledger is told before the first byte: where it cannot be, nothing begins."""
    plan, before = canary(root, ledger, tmp_path), contents(root)
    change, code, reason = LEDGERS[what]
    change(ledger)
    first = no_file_above(ledger.stat().st_size + 20) if what == "full" else lambda: None
    ended = kafkats("apply", plan, "--digest", "any", "--run", tmp_path / "r" / "run", first=first)
    assert ended.code == code and re.search(reason, ended.said), ended
    assert str(ledger) in ended.said
    assert contents(root) == before
    assert kafkats("ledger", "show", ledger).code in (0, 2)
    if what == "full":
        assert kafkats("apply", plan, "--digest", "any").code == 0


@pytest.mark.slow(1)
def test_torn_ledgers_and_repeats(root: Path, ledger: Path, tmp_path: Path) -> None:
    plan, before = canary(root, ledger, tmp_path), contents(root)
    with ledger.open("ab") as file:
        file.write(b'{"number": 7, "at": "20')
    assert "cut short" in kafkats("ledger", "show", ledger).said
    assert kafkats("apply", plan, "--digest", "any").code == 0
    again = kafkats("apply", plan, "--digest", "any")
    assert again.code == 0, again.said
    for _ in range(2):
        ended = kafkats("undo", tmp_path / "plan.run")
        assert ended.code == 0, ended.said
    assert contents(root) == before
    ended = kafkats("apply", plan, "--digest", "any")
    assert ended.code == 3 and "undone" in ended.said
    assert contents(root) == before
    assert kafkats("ledger", "show", ledger).code == 0


def test_the_ledger_cannot_be_told_of_the_end(root: Path, ledger: Path, tmp_path: Path) -> None:
    """All is done by then: the report says so, the command does not claim success, and repeating it tells the ledger."""
    plan = canary(root, ledger, tmp_path)

    def fail_at_the_end() -> None:
        from kafkats.migration import phases as book

        real = book.append_step

        def append(path: str, event: str, **rest: object) -> object:
            if event == "converted":
                no_file_above(ledger.stat().st_size + 20)()
            return real(path, event, **rest)  # type: ignore[arg-type]

        book.append_step = append  # type: ignore[assignment]

    ended = kafkats("apply", plan, "--digest", "any", first=fail_at_the_end)
    assert ended.code == 2 and "File too large" in ended.said and "done" in ended.said
    assert '"converted"' not in ledger.read_text()
    assert kafkats("apply", plan, "--digest", "any").code == 0
    assert '"converted"' in ledger.read_text()


WORDS: dict[str, tuple[tuple[object, ...], str]] = {
    "a loss that is none": (("--accept-loss", "header"), "no loss is called 'header'"),
    "a loss in capitals": (("--accept-loss", "HEADERS"), "no loss is called"),
    "losses with blanks": (("--accept-loss", "headers, timestamps"), "no loss is called ' timestamps'"),
    "all and nonsense": (("--accept-loss", "all,nonsense"), "no loss is called 'nonsense'"),
    "letters from elsewhere": (("--accept-loss", "ünsinn\u202e"), "no loss is called"),
    "a phase without a ledger": (("--phase", "canary", "--broker", "1"), "go together"),
    "a ledger that is none": (("--ledger", "/nowhere/l", "--phase", "canary", "--broker", "1"), "no ledger"),
    "a ledger that is a folder": (("--ledger", "/", "--phase", "canary", "--broker", "1"), "directory|regular"),
    "a NUL in a loss": (("--accept-loss", "headers\0"), "NUL"),
    "a NUL in a glob": (("--topics", "t\0"), "NUL"),
    "a NUL in a ledger": (("--ledger", "/tmp/\0", "--phase", "canary", "--broker", "1"), "NUL"),
    "a NUL in a policy": (("--policy", "/tmp/\0"), "NUL"),
    "a NUL in a setting": (("--config", "index.interval.bytes=\0"), "NUL"),
    "an index without room": (("--config", "segment.index.bytes=1"), "segment.index.bytes"),
    "no such topic": (("--topics", "x*"), "no topic matches --topics"),
    "no such magic": (("--to-magic", "3"), "--to-magic"),
    "no such codec": (("--compression-type", "brotli"), "--compression-type"),
    "zstd below magic 2": (("--to-magic", "1", "--compression-type", "zstd"), "zstd needs magic 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", WORDS)
def test_odd_words(root: Path, tmp_path: Path, what: str) -> None:
    words, reason = WORDS[what]
    ended = kafkats("plan", "migrate", root, "--to-magic", 2, "-o", tmp_path / "plan", *words)
    assert ended.code == 2 and re.search(reason, ended.said), ended
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "migrate", "D\0", "--to-magic", "2", "-o", "P"), ("plan", "migrate", "D", "--to-magic", "2", "-o", "P\0"),
        ("apply", "P\0"), ("apply", "P", "--digest", "\0"), ("apply", "P", "--run", "R\0"), ("apply", "P", "--by", "\0"),
        ("apply", "P", "--work-area", "\0"), ("undo", "R\0"), ("purge", "R\0"), ("certify", "--check", "C\0"),
        ("certify", "D\0", "--min-magic", "2"), ("ledger", "show", "L\0"), ("ledger", "attest", "L", "--broker", "\0", "--text", "x"),
    ],
    ids=repr,
)  # fmt: skip
def test_nul(words: tuple[str, ...]) -> None:
    ended = kafkats(*words)
    assert ended.code == 2 and "NUL" in ended.said
