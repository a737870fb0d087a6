"""Records that an unclean stop lost between two segments: told before a start and before a plan is applied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.cli import main
from kafkats.execution import LocalExecutor
from kafkats.findings import worst
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
