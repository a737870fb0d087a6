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
    (root / NAME / paths.PARTITION_METADATA).write_bytes(bytes(43))
    before = contents(root)
    plan = plan_of(root, CRASHED).plan
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
    os.truncate(root / NAME / name, 3 << 30)
    read = Path.read_bytes

    def bounded(path: Path) -> bytes:
        assert path.stat().st_size < SMALL, f"{path.name} is read whole"
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", bounded)
    plan = plan_of(root, CRASHED).plan
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}


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
