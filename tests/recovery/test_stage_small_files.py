"""Small files as a power loss leaves them: the plan is applied, undone and never takes their size of memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from kafkats import paths
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, undone
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

NAME: Final = "few-bytes-0"
SMALL: Final = 1 << 20


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    return some_of(golden, CRASHED.name, (NAME,), tmp_path / "data")


def test_zeros_for_partition_metadata_can_be_undone(root: Path) -> None:
    """A journal cannot hold a NUL: it was written, and then no command could read it."""
    plan = plan_of(root, CRASHED).plan
    (root / NAME / paths.PARTITION_METADATA).write_bytes(bytes(43))
    before = contents(root)
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert contents(root) != before
    undone(plan)
    assert contents(root) == before


@pytest.mark.parametrize(
    "name", [paths.PARTITION_METADATA, paths.LEADER_EPOCH, f"{76:020d}{paths.SNAPSHOT}"]
)
def test_a_small_file_of_gigabytes_is_not_read(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == paths.PARTITION_METADATA:
        plan = plan_of(root, CRASHED).plan  # otherwise the partition is blocked
    os.truncate(root / NAME / name, 3 << 30)
    read = Path.read_bytes

    def bounded(path: Path) -> bytes:
        assert path.stat().st_size < SMALL, f"{path.name} is read whole"
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", bounded)
    again = plan_of(root, CRASHED).plan
    if name != paths.PARTITION_METADATA:
        plan = again
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}


@pytest.mark.parametrize("content", [b"", bytes(43), b"version: 0\n"])
@pytest.mark.parametrize("clean", [False, True])
def test_a_partition_metadata_that_stops_the_broker_is_a_blocked_row(
    root: Path, content: bytes, clean: bool
) -> None:
    (root / NAME / paths.PARTITION_METADATA).write_bytes(content)
    if clean:
        (root / paths.CLEAN_SHUTDOWN).touch()
    [row] = plan_of(root, CRASHED).plan.items.to_pylist()
    assert (row["action"], row["file"]) == ("blocked", paths.PARTITION_METADATA)
    assert "a broker does not load this partition" in row["reason"]


def test_zeros_for_the_epochs_of_an_empty_log_are_replaced(root: Path) -> None:
    directory = root / NAME
    for file in directory.glob("0*"):
        file.unlink()
    for kind in (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX):
        (directory / paths.segment_file(0, kind)).touch()
    (directory / paths.LEADER_EPOCH).write_bytes(bytes(8))
    for name in (paths.RECOVERY_POINT, paths.HIGH_WATERMARK, paths.LOG_START):
        (root / name).write_bytes(encode_offsets({}))
    plan = plan_of(root, CRASHED).plan
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert (directory / paths.LEADER_EPOCH).read_bytes() == b"0\n0\n"
    assert not plan_of(root, CRASHED).plan.items.num_rows


def test_zeros_for_epochs_beside_a_clean_marker_are_a_blocked_row(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, CRASHED.name, ("untouched-0",), tmp_path / "data")
    (root / "untouched-0" / paths.LEADER_EPOCH).write_bytes(bytes(8))
    (root / paths.CLEAN_SHUTDOWN).touch()
    [row] = [r for r in plan_of(root, CRASHED).plan.items.to_pylist() if r["action"] == "blocked"]
    assert "a broker does not load this partition" in row["reason"]


@pytest.mark.parametrize("name", [paths.HIGH_WATERMARK, paths.LOG_START])
def test_a_checkpoint_that_keeps_the_broker_from_loading_is_a_blocked_row(
    root: Path, name: str
) -> None:
    (root / name).write_bytes(bytes(30))
    rows = plan_of(root, CRASHED).plan.items.to_pylist()
    [row] = [row for row in rows if row["action"] == "blocked"]
    assert row["file"] == name and "a broker does not load this log directory" in row["reason"]
    assert "move the file away" in row["reason"]


def test_beside_a_clean_marker_nothing_is_planned_that_apply_would_refuse(
    golden: Unpacked, tmp_path: Path
) -> None:
    """Apply refuses small files without a recovery point, and a clean stop has no segment to recover."""
    root = some_of(golden, CRASHED.name, ("untouched-0",), tmp_path / "data")
    directory = root / "untouched-0"
    os.truncate(directory / paths.segment_file(70, paths.OFFSET_INDEX), 72)
    os.truncate(directory / paths.segment_file(70, paths.TIME_INDEX), 108)
    for kind in (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX):
        (directory / paths.segment_file(100, kind)).touch()
    points = {PartitionName("untouched", 0, ""): 100}
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets(points))
    (root / ".kafka_cleanshutdown").touch()
    assert not plan_of(root, CRASHED).plan.items.num_rows
