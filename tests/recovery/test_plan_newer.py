"""Directories without a batch of magic 2: which of them get producer snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from tests.golden import cases
from tests.recovery.crashed import plan_of

EMPTY = "0\n0\n"
OLD = next(case for case in cases("crash") if case.name == "crash-0.10.2.2")


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("", False),
        (paths.LOG_START, True),
        (f"*/{paths.LEADER_EPOCH}", True),
        (f"*/{paths.PARTITION_METADATA}", True),
    ],
)
def test_a_file_of_newer_brokers_asks_for_a_snapshot_at_the_log_end(
    file: str, wanted: bool, tmp_path: Path
) -> None:
    """Such a broker would read every log without a snapshot from its beginning."""
    root = OLD.unpack("before", tmp_path)
    if file:
        partition = next(path for path in sorted(root.iterdir()) if path.is_dir())
        (root / file.replace("*", partition.name)).write_text(EMPTY)
    plan = plan_of(root, OLD, like_kafka=True, accept=True).plan
    files = [str(name) for name in plan.items["file"].to_pylist()]
    assert any(name.endswith(paths.SNAPSHOT) for name in files) is wanted
