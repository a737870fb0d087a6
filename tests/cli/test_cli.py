"""The command line: exit codes, machine output, and words instead of tracebacks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkats.paths import CLEAN_SHUTDOWN
from tests.builders.commands import in_shell, objects, run
from tests.golden import case


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kafka").mkdir()
    return case("matrix-4.3.1-v2").unpack("data", tmp_path / "kafka")


@pytest.fixture
def damaged(root: Path) -> Path:
    for index in root.glob("none-ct-0/*.timeindex"):
        index.unlink()
    return root


def test_from_damage_to_proof(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    code, out, _ = run(capsys, "verify", damaged)
    assert code == 1
    assert "missing-index" in out
    code, out, _ = run(capsys, "plan", "rebuild", damaged, "-o", plan, "--json")
    assert code == 0
    summary = objects(out)[-1]["summary"]
    assert isinstance(summary, dict)
    code, out, _ = run(capsys, "show", plan)
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert code == 0
    assert summary["digest"] in out
    code, out, _ = run(capsys, "apply", plan, "--digest", summary["digest"])
    assert code == 0
    assert f"run {plan}.run" in out
    code, out, _ = run(capsys, "verify", damaged)
    assert (code, "0 danger, 0 damage" in out) == (0, True)
    code, out, _ = run(capsys, "apply", plan, "--digest", summary["digest"])
    assert code == 0
    assert "nothing was changed" in out
    code, out, _ = run(capsys, "undo", f"{plan}.run")
    assert code == 0
    assert run(capsys, "verify", damaged)[0] == 1


def test_a_directory_named_twice_is_looked_at_once(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = damaged / "none-ct-0"
    log = sorted(partition.glob("*.log"))[0]
    link = tmp_path / "link"
    link.symlink_to(damaged)
    plans = []
    for given in ([damaged], [log, partition, damaged, link, damaged]):
        code, out, _ = run(capsys, "plan", "rebuild", *given, "-o", tmp_path / "plan", "--json")
        assert code == 0
        summary = objects(out)[-1]["summary"]
        assert summary.pop("log_dirs") == [str(one) for one in given]
        plans.append(summary)
    assert plans[0] == plans[1]
    code, out, _ = run(capsys, "inventory", log, partition, log, "--json")
    assert objects(out)[-1]["summary"]["segments"] == len(list(partition.glob("*.log")))  # type: ignore[index]


@pytest.mark.parametrize("between", ["deleted once more", "undone"])
def test_the_same_files_missing_once_more_are_another_run(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], between: str
) -> None:
    """A missing file has no identity that would tell the new plan from the one that was applied."""
    gone = sorted(damaged.glob("none-ct-0/*.index"))
    gone = [index.with_suffix(".timeindex") for index in gone]
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "first")
    assert run(capsys, "apply", tmp_path / "first", "--digest", "any")[0] == 0
    if between == "undone":
        assert run(capsys, "undo", tmp_path / "first.run")[0] == 0
    else:
        for index in gone:
            index.unlink()
    assert not any(index.exists() for index in gone)
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "second")
    code, out, _ = run(capsys, "apply", tmp_path / "second", "--digest", "any")
    assert (code, f"{len(gone)} done" in out) == (0, True)
    assert run(capsys, "verify", damaged)[0] == 0


def test_a_run_stays_with_its_work_area(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else its undo would look where nothing is, and find nothing to do."""
    place, plan = tmp_path / "place", tmp_path / "plan"
    place.mkdir()
    run(capsys, "plan", "rebuild", damaged, "-o", plan)
    assert run(capsys, "apply", plan, "--digest", "any", "--work-area", place)[0] == 0
    code, _, err = run(capsys, "apply", plan, "--digest", "any")
    assert (code, str(place) in err) == (2, True)
    assert run(capsys, "undo", f"{plan}.run")[0] == 0
    assert not any(damaged.glob("none-ct-0/*.timeindex"))


def test_purge_ends_the_undo_window(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    run(capsys, "plan", "rebuild", damaged, "-o", plan)
    run(capsys, "apply", plan, "--digest", "any")
    code, out, _ = run(capsys, "purge", f"{plan}.run")
    assert (code, out.splitlines()[-1]) == (0, "0 B freed")  # the indexes had been missing
    code, out, _ = run(capsys, "undo", f"{plan}.run")
    assert code == 3
    assert "undo window" in out


def test_the_undo_of_an_empty_run_says_so(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    run(capsys, "plan", "rebuild", root, "-o", plan)
    assert run(capsys, "apply", plan, "--digest", "any")[0] == 0
    code, out, _ = run(capsys, "undo", f"{plan}.run")
    assert (code, out) == (0, "the run changed nothing: there is nothing to undo\n")


def test_a_census_fits_a_terminal(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    lines = run(capsys, "census", root)[1].splitlines()
    assert any("a 4.x broker converts nothing" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_json_is_one_object_per_line(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "verify", damaged, "--json")
    rows = objects(out)
    assert code == 1
    assert "Traceback" not in err
    assert {
        "kind",
        "severity",
        "file",
        "position",
        "partition_dir",
        "base_offset",
        "reason",
    } <= set(rows[0])
    assert list(rows[-1]) == ["summary"]


def test_the_digest_must_be_the_approved_one(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    run(capsys, "plan", "rebuild", damaged, "-o", plan)
    code, _, err = run(capsys, "apply", plan, "--digest", "0123456789abcdef")
    assert (code, "not the approved 0123456789abcdef" in err) == (3, True)
    code, _, err = run(capsys, "apply", plan)
    assert (code, f"needs --digest: no terminal to ask on; kafkats show {plan} " in err) == (
        2,
        True,
    )
    assert run(capsys, "verify", damaged)[0] == 1


def test_a_directory_that_a_broker_holds_is_never_written(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    (damaged / CLEAN_SHUTDOWN).unlink()
    run(capsys, "plan", "rebuild", damaged, "-o", plan)
    hold = (
        "import fcntl, sys, os\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.lockf(fd, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(damaged / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        before = {p: p.stat().st_ino for p in damaged.rglob("*")}
        code, out, err = run(capsys, "apply", plan, "--digest", "any")
        assert run(capsys, "verify", damaged)[0] == 1, "reading works beside a broker"
        assert broker.stdin is not None
        broker.stdin.close()
    assert code == 3
    assert "refused" in out + err
    assert {p: p.stat().st_ino for p in damaged.rglob("*")} == before
    assert run(capsys, "apply", plan, "--digest", "any")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["verify", "/no/such/place"],
        ["verify", "EMPTY"],
        ["verify", "FILE"],
        ["plan", "rebuild", "EMPTY", "-o", "PLAN"],
        ["plan", "rebuild", "ROOT", "-o", "PLAN", "--config", "nonsense=1"],
        ["plan", "rebuild", "ROOT", "-o", "PLAN", "--policy", "FILE"],
        ["plan", "rebuild", "ROOT", "-o", "PLAN", "--generation", "newest"],
        ["verify", "ROOT", "--topics", "ordres"],
        ["inventory", "ROOT", "--topics", "ordres"],
        ["show", "EMPTY"],
        ["apply", "EMPTY", "--digest", "any"],
        ["undo", "EMPTY"],
        ["dump", "FILE"],
        ["dump", "/no/such/file"],
        ["export", "ROOT", "--at", "latest", "--to", "json", "-o", "."],
        ["export", "ROOT", "--at", "latest", "--to", "json", "-o", ""],
        ["export", "ROOT", "--at", "latest", "--to", "json", "-o", "/"],
        ["fly"],
    ],
)  # fmt: skip
def test_bad_words_are_answered_in_words(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("nothing of Kafka's")
    places = {
        "EMPTY": tmp_path / "empty",
        "FILE": tmp_path / "notes.txt",
        "PLAN": tmp_path / "plan",
        "ROOT": root,
    }
    code, _, err = run(capsys, *(places.get(word, word) for word in words))
    assert code == 2
    assert err.strip()
    assert "Traceback" not in err


def test_a_folder_that_is_gone_and_memory_that_runs_out_are_errors_of_one_line(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, _, err = run(capsys, "verify", ".")
    assert (code, err.count("\n"), "folder in which this runs" in err) == (2, 1, True)
    monkeypatch.chdir(tmp_path)

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("kafkats.cli.rows.show_rows", full)
    code, _, err = run(capsys, "inventory", root)
    assert (code, err) == (2, "kafkats: memory ran out: fewer --jobs need less\n")


def test_a_process_with_little_memory_ends_with_one_line(root: Path) -> None:
    """A library that cannot be loaded is no traceback."""
    told = in_shell(root, "ulimit -v 200000; timeout 60 $KAFKATS verify $ROOT")
    assert (told.returncode, told.stderr.count("\n")) == (2, 1), told.stderr
    assert told.stderr.startswith("kafkats: ") and "memory" in told.stderr


def test_help_answers_at_once() -> None:
    """Nothing heavy is imported for it: numba alone takes half a second."""
    script = "import sys; from kafkats.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint([m for m in ('numpy', 'numba', 'pyarrow') if m in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert said.endswith("[]\n")


def test_a_plan_made_with_a_relative_path_is_applied_from_elsewhere(
    damaged: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "area").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "plan", "rebuild", damaged.name, "-o", "plan")[0] == 0
    assert run(capsys, "apply", "plan", "--digest", "any", "--work-area", "area")[0] == 0
    monkeypatch.chdir("/")
    code, out, _ = run(capsys, "undo", tmp_path / "plan.run")
    assert (code, "undone" in out) == (0, True)


def test_a_plan_and_a_run_are_the_folder_in_which_one_stands(
    damaged: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "plan")
    monkeypatch.chdir(tmp_path / "plan")
    assert run(capsys, "apply", ".", "--digest", "any")[0] == 0
    monkeypatch.chdir(tmp_path / "plan.run")
    assert run(capsys, "verify", damaged, "--of-run", ".")[0] == 0
    code, out, _ = run(capsys, "undo", ".")
    assert (code, "undone" in out) == (0, True)


def test_nothing_is_written_into_a_log_directory(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        ["plan", "rebuild", damaged, "-o", damaged / "a" / "b"],
        ["verify", damaged, "-o", damaged / "a"],
    ):
        code, _, err = run(capsys, *words)
        assert (code, f"lies in the log directory {damaged}" in err) == (2, True)
        assert not (damaged / "a").exists()


def test_names_are_shown_not_obeyed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "none-ct-0" / "\x1b[2J\n:bomb:.log").touch()
    (root / "\x1b]0;title").mkdir()
    code, out, _ = run(capsys, "verify", root, "--remarks")
    assert (code, "\x1b" in out) == (1, False)
    assert r"\x1b[2J\n:bomb:.log" in out
    _, _, err = run(capsys, "verify", root / "\x1b[31m")
    assert r"\x1b[31m: does not exist" in err


def test_a_folder_whose_name_is_not_utf8(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "\udcff")
    assert (code, err) == (0, "")
    assert r"\udcff' --digest" in out
    assert run(capsys, "apply", tmp_path / "\udcff", "--digest", "any")[0] == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("directories", ["a-0"]),
        ("directories", {"/": [0]}),
        ("run_id", 1),
        ("place", 1),
        ("owner_stopped", "no"),
    ],
)
def test_a_run_with_wrong_types(
    damaged: Path, tmp_path: Path, field: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "plan")
    run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    file = tmp_path / "plan.run" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    code, _, err = run(capsys, "undo", tmp_path / "plan.run")
    assert (code, f"wrong fields: {field}" in err) == (2, True)


def test_undo_without_undo_material(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "plan")
    run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    shutil.rmtree(tmp_path / ".kafkats")
    code, out, _ = run(capsys, "undo", tmp_path / "plan.run")
    assert (code, "undo material is gone" in out) == (2, True)


def test_what_was_done_is_said_when_the_report_cannot_be_written(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "plan")
    (tmp_path / "run" / "report.parquet").mkdir(parents=True)
    code, out, err = run(
        capsys, "apply", tmp_path / "plan", "--digest", "any", "--run", tmp_path / "run"
    )
    assert (code, " done; " in out) == (2, True)
    assert "report.parquet" in err


def test_inventory_says_what_it_could_not_read(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "meta.properties").write_bytes(b"\xff")
    code, out, _ = run(capsys, "inventory", root)
    assert (code, f"not read: {root / 'meta.properties'}: " in out) == (0, True)


def test_inventory_says_that_it_read_only_the_ends(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "only the ends of the files were read" in run(capsys, "inventory", root)[1]
    out = run(capsys, "inventory", root, "--by", "format")[1]
    assert "only the ends" not in out


def test_a_numba_that_may_not_compile(root: Path) -> None:
    told = in_shell(root, "NUMBA_DISABLE_JIT=1 $KAFKATS verify $ROOT")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("kafkats: NUMBA_DISABLE_JIT is set")


def test_undo_beside_a_damaged_report(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "plan", "rebuild", damaged, "-o", tmp_path / "plan")
    run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    (tmp_path / "plan.run" / "report.parquet").write_bytes(b"PAR1 cut")
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    (tmp_path / "plan.run" / "report.parquet").write_bytes(b"PAR1 cut")
    code, out, err = run(capsys, "undo", tmp_path / "plan.run")
    assert (code, "undone" in out, err) == (0, True, "")
