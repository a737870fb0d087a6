"""What an earlier kafkats wrote is still shown, applied, resumed, undone, purged and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkats.cli import main
from tests.compat import make
from tests.compat.replay import WRITTEN, Replayed, replay

OPERATIONS = tuple(make.OPERATIONS)
APPLY = ("--digest", "any", "--owner-stopped", "--by", "ops", "--json")

Capture = pytest.CaptureFixture[str]


def kafkats(capsys: Capture, *words: object, code: int = 0) -> list[dict[str, Any]]:
    """The rows that the command prints."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    said = capsys.readouterr()
    assert ended.value.code == code, f"{words}\n{said.err[-800:]}\n{said.out[-800:]}"
    return [json.loads(line) for line in said.out.splitlines() if line.startswith("{")]


def bytes_of(contents: dict[str, Any]) -> dict[str, Any]:
    return {name: one[:2] for name, one in contents.items()}


def applied(operation: str) -> dict[str, Any]:
    """What the log dir held after the apply of that day."""
    import tarfile

    with tarfile.open(WRITTEN / f"{operation}-applied.tar.xz") as tar:
        file = tar.extractfile("identity.json")
        assert file is not None
        return dict(json.loads(file.read())["now"])


def check_applied(found: Replayed, operation: str) -> None:
    """The bytes and modes that the apply of that day gave; times of the files that it left alone."""
    now, wanted = make.contents(found.data), applied(operation)
    assert bytes_of(now) == bytes_of(wanted)
    for name, one in found.before.items():
        if one == wanted.get(name):
            assert now[name] == one, name


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_plan_is_shown_applied_and_undone(
    tmp_path: Path, capsys: Capture, operation: str
) -> None:
    found = replay(f"{operation}-planned", tmp_path)
    assert make.contents(found.data) == found.now == found.before
    kafkats(capsys, "show", found.plan, "--json")
    kafkats(capsys, "apply", found.plan, *APPLY)
    check_applied(found, operation)
    again = kafkats(capsys, "apply", found.plan, *APPLY)
    assert "applied before" in again[-1]["summary"]["note"]
    kafkats(capsys, "undo", found.run, "--by", "ops")
    assert make.contents(found.data) == found.before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ending", ["resume", "undo"])
def test_an_interrupted_apply_is_resumed_or_undone(
    tmp_path: Path, capsys: Capture, operation: str, ending: str
) -> None:
    found = replay(f"{operation}-applying", tmp_path)
    assert found.now != found.before, "the fixture was not stopped among its swaps"
    if ending == "resume":
        kafkats(capsys, "apply", found.plan, *APPLY)
        check_applied(found, operation)
    kafkats(capsys, "undo", found.run, "--by", "ops")
    assert make.contents(found.data) == found.before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ending", ["undo", "purge"])
def test_a_finished_run_is_undone_or_purged(
    tmp_path: Path, capsys: Capture, operation: str, ending: str
) -> None:
    found = replay(f"{operation}-applied", tmp_path)
    check_applied(found, operation)
    again = kafkats(capsys, "apply", found.plan, *APPLY)
    assert "applied before" in again[-1]["summary"]["note"]
    rows = kafkats(capsys, ending, found.run, "--json")
    if ending == "undo":
        assert make.contents(found.data) == found.before
    else:
        check_applied(found, operation)
        if operation not in ("roll", "rebuild"):  # these replace no file that held a byte
            assert rows[-1]["summary"]["freed_bytes"] > 0
        kafkats(capsys, "undo", found.run, code=3)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_undo_is_finished(tmp_path: Path, capsys: Capture, operation: str) -> None:
    found = replay(f"{operation}-undoing", tmp_path)
    assert found.now != found.before, "the fixture was not stopped among its swaps"
    kafkats(capsys, "undo", found.run, "--by", "ops")
    assert make.contents(found.data) == found.before


def test_a_reservation_keeps_others_off_until_its_plan_is_applied(
    tmp_path: Path, capsys: Capture
) -> None:
    found = replay("rebuild-planned", tmp_path)
    other = ("plan", "rebuild", found.data, "--reserve", "-o", tmp_path / "other")
    kafkats(capsys, *other, code=3)
    kafkats(capsys, "apply", found.plan, *APPLY)
    kafkats(capsys, *other)


def test_a_tampered_plan_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """The fixture's digest is checked, so the tests above say something."""
    found = replay("retain-planned", tmp_path)
    header = json.loads((found.plan / "plan.json").read_text())
    header["totals"]["files"] += 1
    (found.plan / "plan.json").write_text(json.dumps(header))
    kafkats(capsys, "apply", found.plan, *APPLY, code=2)


def test_a_file_that_was_touched_since_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """The fixture's identities are checked, too."""
    found = replay("migrate-planned", tmp_path)
    for log in found.data.glob("*/*.log"):
        log.chmod(0o600)
    kafkats(capsys, "apply", found.plan, *APPLY, code=3)
    assert all(one[0] == found.before[name][0] for name, one in make.contents(found.data).items())


def test_the_policy_of_that_day_decides(tmp_path: Path, capsys: Capture) -> None:
    found = replay("retain-planned", tmp_path)
    limits = ("--now", make.NOW, "--policy", tmp_path / "policy.yaml", "--over-guard")
    rows = kafkats(capsys, "plan", "retain", found.data, *limits, "-o", tmp_path / "anew", "--json")
    assert rows[-1]["summary"]["freed_bytes"] > 0


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay("read", tmp_path_factory.mktemp("read"))


def test_a_lookup_table_answers_as_it_did(read: Replayed, capsys: Capture, tmp_path: Path) -> None:
    words = (
        "--at",
        1_600_000_090_000,
        "--to",
        "group-csv",
        "--missing",
        "all",
        "-o",
        tmp_path / "export.csv",
    )
    kafkats(capsys, "export", read.into / "table", *words)
    assert (tmp_path / "export.csv").read_bytes() == (read.into / "export.csv").read_bytes()
    assert (
        len(kafkats(capsys, "lookup", read.into / "table", "--at", 1_600_000_090_000, "--json")) > 1
    )


def test_a_lookup_table_is_continued(read: Replayed, capsys: Capture) -> None:
    span = ("--from", 1_600_000_180_000, "--until", 1_600_000_240_000, "--every", "10s")
    more = ("-o", read.into / "table", "--high-watermark", "log-end", "--json")
    rows = kafkats(capsys, "lookup", read.data, *span, *more)
    assert rows[-1]["summary"]["added"] > 0


def test_a_ledger_goes_on(read: Replayed, capsys: Capture) -> None:
    ledger = read.into / "ledger.jsonl"
    rows = kafkats(capsys, "ledger", "show", ledger, "--json")
    assert [(row["broker"], row["status"], row["next"]) for row in rows[:2]] == [
        ("1", "verified", "approve"),
        ("2", "certified", "phase-2"),
    ]
    kafkats(capsys, "ledger", "approve", ledger, "--broker", 1, "--by", "ops")


def test_a_certificate_is_read(read: Replayed, capsys: Capture) -> None:
    """It was true of the logs before they were migrated, and is not of those that are there."""
    rows = kafkats(capsys, "certify", "--check", read.into / "certificate", "--json", code=1)
    assert rows[-1]["summary"]["holds"] is False


def test_an_approval_is_read(read: Replayed) -> None:
    from kafkats.plans.approval import check_approved

    digest = json.loads((read.into / "plan" / "plan.json").read_text())["digest"]
    approval = read.into / "approval.json"
    check_approved(approval, [digest])


def test_a_run_that_belongs_to_a_ledger_is_undone(tmp_path: Path, capsys: Capture) -> None:
    found = replay("read", tmp_path)
    kafkats(capsys, "undo", found.run, "--by", "ops")
    rows = kafkats(capsys, "ledger", "show", found.into / "ledger.jsonl", "--json")
    assert rows[0]["status"] != "verified"


COLUMNS = [
    ("rebuild-planned", "plan/items.parquet", ("plan", "rebuild")),
    ("migrate-planned", "plan/forecast.parquet", ("plan", "migrate", "--to-magic", "2")),
    ("retain-planned", "plan/retention.parquet", ("plan", "retain")),
    ("roll-planned", "plan/due.parquet", ("plan", "roll")),
    ("split-planned", "plan/parts.parquet", ("plan", "split", "--where", "mixed")),
    ("read", "report/segments.parquet", ("verify",)),
]


@pytest.mark.parametrize(("name", "file", "words"), COLUMNS)
def test_every_column_of_that_day_is_still_written(
    tmp_path: Path, capsys: Capture, name: str, file: str, words: tuple[str, ...]
) -> None:
    found = replay(name, tmp_path)
    folder = tmp_path / "anew"
    kafkats(capsys, *words, found.data, "-o", folder)
    one, other = (pq.read_schema(path) for path in (found.into / file, folder / Path(file).name))
    assert {f"{f.name}: {f.type}" for f in one} <= {f"{f.name}: {f.type}" for f in other}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_column_of_a_report_is_still_written(
    tmp_path: Path, capsys: Capture, operation: str
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = (
        replay(f"{operation}-applied", tmp_path / "old"),
        replay(f"{operation}-planned", tmp_path / "new"),
    )
    kafkats(capsys, "apply", new.plan, *APPLY)
    one, other = (pq.read_schema(found.run / "report.parquet") for found in (old, new))
    assert {f"{f.name}: {f.type}" for f in one} <= {f"{f.name}: {f.type}" for f in other}
