"""Records that an unclean stop lost between two segments: told before a start and before a plan is applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.cli import main
from kafkats.cli.command import run
from kafkats.cli.session import Session
from kafkats.execution.local import LocalExecutor
from kafkats.findings import worst
from kafkats.formats import dispatch
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName
from kafkats.recovery.start import predict_start
from tests.builders.operations import applied_rows
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

NAME = "untouched-0"
LOST = range(100, 130)


def rolled(directory: Path) -> None:
    """The tail of the last segment is lost at a batch border; the segment rolled behind it is there, empty."""
    for kind in (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX):
        (directory / paths.segment_file(LOST.stop, kind)).touch()


def emptied(directory: Path) -> None:
    """A segment in the middle is empty."""
    (directory / paths.segment_file(30, paths.LOG)).write_bytes(b"")


def torn(root: Path) -> None:
    (root / paths.RECOVERY_POINT).write_bytes(
        encode_offsets({PartitionName("untouched", 0, ""): 0})
    )


@pytest.mark.parametrize("damage", [rolled, emptied])
def test_it_is_told_blocked_and_recovered_when_it_is_accepted(
    golden: Unpacked, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    damage(root / NAME)
    torn(root)
    [start] = predict_start(LocalExecutor(1), [root], "4.3").partitions
    assert [f.kind for f in start.findings if "missing" in f.reason] == ["missing-records"]
    assert start.loses

    [row] = plan_of(root, CRASHED).plan.items.to_pylist()
    assert row["action"] == "blocked"
    assert "records are missing" in row["reason"] and "--accept-loss offsets" in row["reason"]

    accepted = plan_of(root, CRASHED, accept=True).plan
    assert "blocked" not in accepted.items["action"].to_pylist()
    assert set(applied_rows(accepted)["outcome"].to_pylist()) == {"done"}
    with pytest.raises(SystemExit) as info:
        main(["verify", str(root)])
    assert info.value.code == 1, "what was accepted is still missing"


@pytest.mark.parametrize("internal", [False, True])
def test_a_compacted_topic_has_such_gaps(golden: Unpacked, tmp_path: Path, internal: bool) -> None:
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    rolled(root / NAME)
    torn(root)
    if internal:
        (root / NAME).rename(root / "__consumer_offsets-0")
    [start] = predict_start(LocalExecutor(1), [root], "4.3").partitions
    assert (worst(start.findings) == "danger") is not internal
    plan = plan_of(root, CRASHED).plan
    assert ("blocked" in plan.items["action"].to_pylist()) is not internal


@pytest.mark.parametrize("cleanup", ["compact", "compact,delete"])
def test_a_gap_of_a_topic_that_is_known_to_be_compacted_is_recovered(
    golden: Unpacked, tmp_path: Path, cleanup: str
) -> None:
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    emptied(root / NAME)
    torn(root)
    plan = plan_of(root, CRASHED, cleanup=cleanup).plan
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}


@pytest.mark.parametrize(
    ("cleanup", "words"), [("", "cleanup.policy of the topic tells"), ("delete", "not compacted")]
)
def test_a_cleaner_checkpoint_proves_nothing(
    golden: Unpacked, tmp_path: Path, cleanup: str, words: str
) -> None:
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    emptied(root / NAME)
    torn(root)
    cleaned = encode_offsets({PartitionName("untouched", 0, ""): 10})
    (root / paths.CLEANER).write_bytes(cleaned)
    [row] = plan_of(root, CRASHED, cleanup=cleanup).plan.items.to_pylist()
    assert row["action"] == "blocked" and words in row["reason"]
    assert plan_of(root, CRASHED, cleanup=cleanup, accept=True).plan.blocked == 0


@pytest.mark.parametrize(
    ("cleanup", "cleaned", "kept"), [("", True, True), ("", False, False), ("delete", True, False)]
)
def test_before_a_start_the_traces_of_the_cleaner_are_enough(
    golden: Unpacked, tmp_path: Path, cleanup: str, *, cleaned: bool, kept: bool
) -> None:
    """The broker that starts keeps the gap, too: leaving it the partition only costs time."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    emptied(root / NAME)
    torn(root)
    if cleaned:
        checkpoint = encode_offsets({PartitionName("untouched", 0, ""): 10})
        (root / paths.CLEANER).write_bytes(checkpoint)
    plan = plan_of(root, CRASHED, cleanup=cleanup, credit=True).plan
    assert (plan.blocked == 0) is kept


@pytest.mark.parametrize("corrupt", [False, True])
def test_a_torn_segment_that_a_broker_recovers_alone_keeps_the_later_ones(
    golden: Unpacked, tmp_path: Path, corrupt: bool
) -> None:
    """It has no .index, or a .txnindex of zeros: it is recovered while it is loaded, and --like-kafka deletes nothing."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    torn(root)
    directory = root / NAME
    first, second, third, *_ = sorted(directory.glob("*.log"))
    if corrupt:
        second.with_suffix(".txnindex").write_bytes(bytes(34))
    else:
        second.with_suffix(".index").unlink()
    second.write_bytes(second.read_bytes()[:-20])
    [start] = predict_start(LocalExecutor(1), [root], "4.3").partitions
    [row] = plan_of(root, CRASHED, like_kafka=True).plan.items.to_pylist()
    assert row["action"] == "blocked" and "are missing behind" in row["reason"]
    plan = plan_of(root, CRASHED, like_kafka=True, accept=True).plan
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert first.exists() and third.exists()
    [after] = predict_start(LocalExecutor(1), [root], "4.3").partitions
    assert after.log_end_offset == start.log_end_offset


def test_segments_that_only_newer_brokers_delete_are_left(golden: Unpacked, tmp_path: Path) -> None:
    """Up to 2.8 an .index.swap deletes the .index beside it, so the torn segment is recovered alone."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    torn(root)
    _, second, *_ = sorted((root / NAME).glob("*.log"))
    second.write_bytes(second.read_bytes()[:-20])
    assert plan_of(root, CRASHED, like_kafka=True, accept=True).plan.blocked == 0
    index = second.with_suffix(".index")
    Path(f"{index}.swap").write_bytes(index.read_bytes())
    [row] = plan_of(root, CRASHED, like_kafka=True, accept=True).plan.items.to_pylist()
    assert row["action"] == "blocked" and "brokers up to 2.8 keep" in row["reason"]


@pytest.mark.parametrize("like_kafka", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_a_batch_of_an_unknown_magic_is_never_cut(
    golden: Unpacked, tmp_path: Path, like_kafka: bool, last: bool
) -> None:
    """Its checksum does not cover the magic byte: brokers keep it."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    torn(root)
    log, position = with_magic_7(root, last=last)
    [start] = predict_start(LocalExecutor(1), [root], "4.3").partitions
    assert ("unknown-magic", log.name, position) in [
        (f.kind, f.file, f.position) for f in start.findings
    ]
    assert worst(start.findings) == "danger" and not start.lost_offsets
    [row] = plan_of(root, CRASHED, like_kafka=like_kafka).plan.items.to_pylist()
    assert row["action"] == "blocked" and row["file"] == log.name
    assert f"the batch at byte {position} has magic 7" in row["reason"]


@pytest.mark.parametrize("last", [False, True])
def test_an_unknown_magic_is_mended_when_it_is_asked_for(
    golden: Unpacked, tmp_path: Path, last: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mended log is the one before the bit was lost, and the next plan recovers it; undo puts the damage back."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    torn(root)
    whole = {path.name: path.read_bytes() for path in (root / NAME).glob("*.log")}
    log, _ = with_magic_7(root, last=last)
    damaged, before = log.read_bytes(), log.stat()
    assert run(["verify", str(root), "--depth", "full"], Session()) == 1
    assert f"next: kafkats plan recover {root} --mend-magic -o PLAN" in capsys.readouterr().out
    assert (
        run(["plan", "recover", str(root), "--mend-magic", "-o", str(tmp_path / "plan")], Session())
        == 0
    )
    assert run(["apply", str(tmp_path / "plan"), "--digest", "any"], Session()) == 0
    assert {path.name: path.read_bytes() for path in (root / NAME).glob("*.log")} == whole
    assert log.stat().st_mtime_ns == before.st_mtime_ns
    assert run(["undo", str(tmp_path / "plan.run")], Session()) == 0
    assert log.read_bytes() == damaged and log.stat().st_ino == before.st_ino

    plan = plan_of(root, CRASHED, mend_magic=True).plan
    assert [row["file"] for row in plan.items.to_pylist()] == [log.name]
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    plan = plan_of(root, CRASHED, mend_magic=True).plan
    assert plan.blocked == 0 and paths.RECOVERY_POINT in plan.items["file"].to_pylist()


def test_a_batch_that_no_start_reads_is_mended_too(golden: Unpacked, tmp_path: Path) -> None:
    """Beside a clean-shutdown marker only the ends of logs are read, but when this is asked for."""
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    (root / paths.CLEAN_SHUTDOWN).touch()
    log = min((root / NAME).glob("*.log"))
    whole = log.read_bytes()
    second = [batch.position for batch in dispatch.batches(whole)][1]
    log.write_bytes(whole[: second + 16] + b"\x07" + whole[second + 17 :])
    plan = plan_of(root, CRASHED, mend_magic=True).plan
    assert [(row["file"], row["action"]) for row in plan.items.to_pylist()] == [
        (log.name, "replace")
    ]
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert log.read_bytes() == whole


def test_a_log_that_changed_since_its_mending_was_planned_is_left_alone(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")
    torn(root)
    log, _ = with_magic_7(root, last=True)
    plan = plan_of(root, CRASHED, mend_magic=True).plan
    log.write_bytes(log.read_bytes() + b"more")
    changed = log.read_bytes()
    [row] = applied_rows(plan).to_pylist()
    assert row["outcome"] == "refused" and "make a new plan" in row["error"]
    assert log.read_bytes() == changed


def with_magic_7(root: Path, *, last: bool) -> tuple[Path, int]:
    """Change the magic of a segment's last batch; its log, and the batch's position."""
    log = sorted((root / NAME).glob("*.log"))[-1 if last else 0]
    data = bytearray(log.read_bytes())
    position = [batch.position for batch in dispatch.batches(bytes(data))][-1]
    data[position + 16] = 7
    log.write_bytes(data)
    return log, position
