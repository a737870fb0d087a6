"""Names, kinds and sizes that no log directory should have, through the command line: verify, inventory and plan.

Each gives findings (exit 1) or one line of error (exit 2), names the file or directory, and changes nothing.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkats.cli import main
from tests.golden import Unpacked, forget_others, tree

BASE = "00000000000000000000"


class Said(NamedTuple):
    """What the command line printed and how it ended."""

    code: int
    rows: list[dict[str, Any]]
    summary: dict[str, Any]
    error: str

    def kinds(self, file: str) -> set[str]:
        return {row["kind"] for row in self.rows if row["file"] == file}


@pytest.fixture
def kafkats(capsys: pytest.CaptureFixture[str]):
    """Runs a command in this process with --json; nothing but our own exit may come out, and no traceback."""

    def run(*words: object) -> Said:
        with pytest.raises(SystemExit) as end:
            main([*map(str, words), "--json"])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        lines = [json.loads(line) for line in out.splitlines()]
        summary = next((line["summary"] for line in lines if "summary" in line), {})
        assert end.value.code in (0, 1, 2, 3)
        if end.value.code == 2 and not any("outcome" in line for line in lines):
            assert len(err.strip().splitlines()) == 1, err
            assert err.startswith("kafkats: "), err
        return Said(end.value.code, [line for line in lines if "kind" in line], summary, err)

    return run


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    """A healthy root of 4.3.1 with two partitions, a private copy."""
    to = tmp_path / "data"
    source = golden("matrix-4.3.1-v2", "data")
    keep = {"none-ct-0", "gzip-lat-0"}
    shutil.copytree(
        source,
        to,
        ignore=lambda folder, names: [
            n for n in names if folder == str(source) and n.endswith("-0") and n not in keep
        ],
    )
    forget_others(to)
    return to


def everywhere(kafkats: Any, root: Path, tmp_path: Path) -> Said:
    """Inventory, verify --deep and plan, none of which may change anything; what verify said."""
    before = tree(root)
    kafkats("inventory", root)
    said = kafkats("verify", "--deep", root)
    kafkats("plan", "rebuild", root, "-o", tmp_path / f"plan-{len(list(tmp_path.iterdir()))}")
    assert tree(root) == before
    return said


def test_healthy(kafkats: Any, root: Path, tmp_path: Path) -> None:
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 0
    assert said.summary["segments"] >= 6
    assert said.summary["worst"] in ("", "remark")


TEXT = b"It was a dark and stormy night; the rain fell in torrents.\n" * 50


@pytest.mark.parametrize(
    "content", [TEXT, b"x", b"{}", bytes(range(256)) * 40, TEXT * 2000], ids=len
)
def test_text_named_log(kafkats: Any, root: Path, tmp_path: Path, content: bytes) -> None:
    log = root / "none-ct-0" / "00000000000000099999.log"
    log.write_bytes(content)
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 1
    found = [row for row in said.rows if row["file"] == log.name]
    assert {row["severity"] for row in found} & {"damage", "danger"}, said.rows
    assert all(row["position"] == 0 for row in found if row["severity"] in ("damage", "danger"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("backup.log", "stops-the-broker"),
        ("old.index", "stops-the-broker"),
        ("größe.timeindex", "stops-the-broker"),
        ("00000000000000000000.log.bak", "stray"),
        ("7.log", "stray"),
        ("99999999999999999999.log", "stops-the-broker"),
        ("-0000000000000000001.log", "stray"),
        ("00000000000000000000.timeindex.deleted", "transient"),
        (".DS_Store", "stray"),
        ("notes with spaces\n.txt", "stray"),
    ],
)
def test_odd_files_in_a_partition(
    kafkats: Any, root: Path, tmp_path: Path, name: str, kind: str
) -> None:
    (root / "none-ct-0" / name).write_bytes(TEXT)
    said = everywhere(kafkats, root, tmp_path)
    assert kind in said.kinds(name), said.rows
    assert said.code == (1 if kind == "stops-the-broker" else 0)


@pytest.mark.parametrize("name", ["backup", "lost+found", "no-number-x", "größe-ünicode", "a b"])
def test_directories_that_stop_a_broker(
    kafkats: Any, root: Path, tmp_path: Path, name: str
) -> None:
    (root / name).mkdir()
    (root / name / f"{BASE}.log").write_bytes(TEXT)
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 1
    assert any(
        row["severity"] == "damage" and row["kind"] == "stops-the-broker" for row in said.rows
    ), said.rows


@pytest.mark.parametrize(
    "topic", ["dots.and-dashes_0.1-2", "-", "a" * 249, "..-x", "1-2-3", "_", "x.deadbeef-y"]
)
def test_topics_with_dashes_and_dots(kafkats: Any, root: Path, tmp_path: Path, topic: str) -> None:
    """Legal names, however odd, are partitions like others."""
    shutil.move(root / "none-ct-0", root / f"{topic}-12")
    (next((root / f"{topic}-12").glob("*.timeindex"))).unlink()
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 1
    assert {row["partition_dir"] for row in said.rows if row["kind"] == "missing-index"} == {
        f"{topic}-12"
    }


def test_names_that_are_not_utf8(kafkats: Any, root: Path, tmp_path: Path) -> None:
    (root / os.fsdecode(b"caf\xe9-0")).mkdir()
    (root / "none-ct-0" / os.fsdecode(b"\xff\xfe.log")).write_bytes(TEXT)
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 1
    assert {row["file"] for row in said.rows} >= {"caf\\xe9-0", "\\xff\\xfe.log"}


def test_a_root_below_an_odd_path(kafkats: Any, root: Path, tmp_path: Path) -> None:
    odd = tmp_path / "größe - 😀, 100%\n" / "kafka-1"
    odd.parent.mkdir()
    shutil.move(root, odd)
    next(odd.glob("*/*.timeindex")).unlink()
    assert everywhere(kafkats, odd, tmp_path).code == 1


def test_a_path_that_is_not_utf8(kafkats: Any, root: Path, tmp_path: Path) -> None:
    """Plans and reports are text: they could not name it."""
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    shutil.move(root, odd)
    for words in (("verify",), ("inventory",), ("plan", "rebuild", "-o", tmp_path / "plan")):
        said = kafkats(*words, odd)
        assert said.code == 2
        assert "UTF-8" in said.error


def test_a_directory_named_like_a_partition_with_other_things(
    kafkats: Any, root: Path, tmp_path: Path
) -> None:
    for name in ("photos-2020", "empty-0"):
        (root / name).mkdir()
    (root / "photos-2020" / "cat.jpg").write_bytes(TEXT)
    (root / "photos-2020" / "more-0").mkdir()
    said = everywhere(kafkats, root, tmp_path)
    assert said.code == 0
    assert said.kinds("cat.jpg") == {"stray"}


@pytest.mark.parametrize("what", ["empty", "other", "missing", "text", "fifo", "loop", "device"])
def test_what_is_no_log_dir(kafkats: Any, tmp_path: Path, what: str) -> None:
    path = tmp_path / "given"
    if what in ("empty", "other"):
        path.mkdir()
    if what == "other":
        (path / "photos").mkdir()
    if what == "text":
        path.write_bytes(TEXT)
    if what == "fifo":
        os.mkfifo(path)
    if what == "loop":
        path.symlink_to(path)
    if what == "device":
        path = Path("/dev/zero")
    for words in (("verify",), ("inventory",), ("plan", "rebuild", "-o", tmp_path / "plan")):
        said = kafkats(*words, path)
        assert said.code == 2
        assert str(path) in said.error
    assert kafkats_dump(path) == 2


def kafkats_dump(path: Path) -> int | str | None:
    with pytest.raises(SystemExit) as end:
        main(["dump", str(path)])
    return end.value.code


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex"])
@pytest.mark.parametrize("what", ["link", "dangling", "loop", "directory", "fifo"])
def test_a_segments_file_that_is_no_file(
    kafkats: Any, root: Path, tmp_path: Path, kind: str, what: str
) -> None:
    """Kafka would follow a link; we neither follow nor replace it, and a FIFO must not make us wait."""
    segment = sorted((root / "none-ct-0").glob("*.log"))[1]
    path = segment.with_suffix(kind)
    aside = tmp_path / "aside"
    shutil.move(path, aside)
    if what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to({"link": aside, "dangling": tmp_path / "nowhere", "loop": path}[what])
    said = everywhere(kafkats, root, tmp_path)
    assert said.kinds(path.name), said.rows
    plan = tmp_path / "to-apply"
    kafkats("plan", "rebuild", root, "-o", plan)
    kafkats("apply", plan, "--digest", "any", "--owner-stopped")
    assert path.is_symlink() == (what in ("link", "dangling", "loop"))
    assert path.is_dir() == (what == "directory")
    if what == "link":
        assert aside.stat().st_size == path.stat().st_size


def test_links_to_partitions_and_roots(kafkats: Any, root: Path, tmp_path: Path) -> None:
    """A link inside a root is not followed, one that was given is."""
    (root / "linked-0").symlink_to(root / "none-ct-0")
    (root / "self-0").symlink_to(root)
    said = everywhere(kafkats, root, tmp_path)
    assert said.kinds("linked-0") and said.kinds("self-0")
    linked = [row for row in said.rows if row["partition_dir"] in ("linked-0", "self-0")]
    assert sorted((row["kind"], row["file"]) for row in linked) == [
        ("unreadable", "linked-0"),
        ("unreadable", "self-0"),
    ]
    (tmp_path / "by-link").symlink_to(root)
    assert kafkats("verify", tmp_path / "by-link").summary["segments"] == said.summary["segments"]


@pytest.mark.parametrize("kind", ["", ".log", ".index", ".timeindex"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOENT])
def test_what_cannot_be_opened(
    kafkats: Any,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    number: int,
) -> None:
    """One file, or a whole partition (""), that the file system refuses; the others are looked at all the same."""
    partition = root / "none-ct-0"
    victim = sorted(partition.glob("*.log"))[1].with_suffix(kind) if kind else partition
    real = {"open": os.open, "scandir": os.scandir, "listdir": os.listdir}

    def refusing(name: str):
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if not isinstance(path, int) and os.fspath(path) == str(victim):
                raise OSError(number, os.strerror(number), str(victim))
            return real[name](path, *args, **kwargs)

        return call

    healthy = kafkats("verify", root).summary["segments"]
    for name in real:
        monkeypatch.setattr(os, name, refusing(name))
    said = everywhere(kafkats, root, tmp_path)
    about = (
        [r for r in said.rows if victim.name in (r["file"], r["partition_dir"])] if not kind else []
    )
    about += [row for row in said.rows if row["file"] == victim.name]
    assert about, said.rows
    allowed = (
        {"vanished", "missing-index", "orphan"}
        if number in (errno.ENOENT, errno.ESTALE)
        else {"unreadable"}
    )
    assert {row["kind"] for row in about} <= allowed, about
    assert said.summary["segments"] >= (healthy - 1 if kind else 1)
    assert said.code == (0 if {row["kind"] for row in about} == {"vanished"} else 1)


@pytest.mark.slow(4)
def test_a_log_of_three_gib_of_holes(kafkats: Any, root: Path, tmp_path: Path) -> None:
    """Appended to a real log, and alone: no memory, no time, and the place where the log ends."""
    partition = root / "none-ct-0"
    last = sorted(partition.glob("*.log"))[-1]
    size = last.stat().st_size
    os.truncate(last, 3 << 30)
    alone = root / "gzip-lat-0" / "00000000000000999999.log"
    alone.touch()
    os.truncate(alone, 5 << 30)
    with anonymous_memory() as grown:
        said = everywhere(kafkats, root, tmp_path)
    assert grown() < 100 << 20
    assert said.code == 1
    assert [
        row["position"]
        for row in said.rows
        if row["file"] == last.name and row["kind"] == "zero-tail"
    ] == [size]
    assert [
        row["position"]
        for row in said.rows
        if row["file"] == alone.name and row["kind"] == "zero-tail"
    ] == [0]


# All are framed alike, and each takes eight seconds of processor time.
@pytest.mark.slow(9)
@pytest.mark.parametrize("magic", [0, 1, 2] if os.environ.get("KAFKATS_FULL") else [2])
def test_a_batch_that_claims_two_gib(kafkats: Any, root: Path, tmp_path: Path, magic: int) -> None:
    """The largest size a header can claim, with and without as many bytes behind it."""
    partition = root / "gzip-lat-0"
    header = (
        (999999).to_bytes(8, "big")
        + (2**31 - 1).to_bytes(4, "big")
        + bytes(4)
        + bytes([magic])
        + bytes(60)
    )
    log = partition / "00000000000000999999.log"
    for size in (len(header), (2 << 30) + 4096):
        log.write_bytes(header)
        os.truncate(log, size)
        with anonymous_memory() as grown:
            said = everywhere(kafkats, root, tmp_path)
        assert grown() < 100 << 20
        assert said.code == 1
        assert said.kinds(log.name) & {
            "torn-tail",
            "torn-tail-marked-clean",
            "bad-crc",
            "bad-header",
        }, said.rows
        with anonymous_memory() as grown:
            assert kafkats_dump(log) in (1, 2)
        assert (
            grown() < 500 << 20
        )  # a window of a quarter GiB is the largest batch that dump looks at


@contextmanager
def anonymous_memory() -> Generator[Callable[[], int], None, None]:
    """Bytes by which the process has grown at most while the body ran; mapped files do not count."""
    began, most, done = _anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            most[0] = max(most[0], _anonymous() - began)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: most[0]
    finally:
        done.set()
        watcher.join()


def _anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1])
        * 1024
    )


def test_an_empty_log_dir_of_a_fresh_broker(kafkats: Any, root: Path, tmp_path: Path) -> None:
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    forget_others(root)
    said = everywhere(kafkats, root, tmp_path)
    assert (said.code, said.rows, said.summary["segments"]) == (0, [], 0)


def test_empty_segments(kafkats: Any, root: Path, tmp_path: Path) -> None:
    """Zero bytes everywhere, as the cleaner leaves them."""
    (root / "new-0").mkdir()
    for kind in (".log", ".index", ".timeindex"):
        (root / "new-0" / f"{BASE}{kind}").touch()
    assert everywhere(kafkats, root, tmp_path).code == 0


@pytest.mark.parametrize("missing", ["plan.json", "items.parquet"])
@pytest.mark.parametrize("how", ["gone", "empty", "text", "flipped"])
def test_a_damaged_plan(kafkats: Any, root: Path, tmp_path: Path, missing: str, how: str) -> None:
    next(root.glob("*/*.timeindex")).unlink()
    kafkats("plan", "rebuild", root, "-o", tmp_path / "plan")
    file = tmp_path / "plan" / missing
    content = file.read_bytes()
    changed = {
        "gone": None,
        "empty": b"",
        "text": TEXT,
        "flipped": content[:40] + bytes([content[40] ^ 1]) + content[41:],
    }[how]
    file.unlink()
    if changed is not None:
        file.write_bytes(changed)
    before = tree(root)
    for words in (
        ("show", tmp_path / "plan"),
        ("apply", tmp_path / "plan", "--digest", "any", "--owner-stopped"),
    ):
        said = kafkats(*words)
        assert said.code == 2
        assert str(tmp_path / "plan") in said.error
    assert tree(root) == before
