"""What a retention's plan may take, and what becomes of a partition that is not as it was planned, or was made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.config import Policy
from kafkats.operations.apply import apply_partition, partition_works, rounds
from kafkats.operations.ending import end_partition
from kafkats.operations.inventory import inventory_units
from kafkats.operations.retain import RetainOptions, plan_retain
from kafkats.plan import Plan
from kafkats.report import SEGMENTS
from kafkats.run import directories, run_of
from kafkats.units import list_units
from tests.golden import case

NOW = 1_700_000_000_000
DAY = Policy.model_validate({"topics": {"time-*": {"cleanup.policy": "delete", "retention.ms": 86_400_000}}})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return case("retention-4.3.1").unpack("before", tmp_path)


def planned(root: Path, policy: Policy = DAY, **options: Any) -> Plan:
    segments = pa.Table.from_batches([inventory_units(list(list_units([root])))], SEGMENTS)
    return plan_retain(segments, policy, RetainOptions(NOW, **options))[0]


def applied(made: Plan) -> list[dict[str, Any]]:
    together = rounds(partition_works(made, run_of(made)))
    return [row for some in together for work in some for row in apply_partition(work).to_pylist()]


def undone(made: Plan) -> list[dict[str, Any]]:
    return [end_partition(run_of(made), "undo", *where, wrote=True) for where in directories(run_of(made))]


def logs(partition: Path) -> list[int]:
    return sorted(int(log.stem) for log in partition.glob("*.log"))


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_log_dirs_own_checkpoint_is_one_file(root: Path) -> None:
    starts = root / "log-start-offset-checkpoint"
    starts.write_text("0\n3\ntime-some 0 20\ntime-all 0 20\nsize 0 50\n")
    made, before = planned(root), contents(root)
    told = [item["reason"] for item in made.items.to_pylist() if item["file"] == starts.name]
    assert len(told) == 1 and "time-all-0 begins at" in told[0] and "and 1 more do" in told[0]
    assert {row["outcome"] for row in applied(made)} == {"done"}
    assert starts.read_text() == "0\n1\nsize 0 50\n"
    assert {row["outcome"] for row in undone(made)} == {"undone"}
    assert contents(root) == before
