"""A corrupt last batch that had been flushed is damage, and no torn tail of the last stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName
from tests.builders.directories import contents
from tests.builders.operations import applied_rows
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

NAME = PartitionName("crc-last", 0, "")


@pytest.mark.parametrize(
    ("point", "marked", "like_kafka", "why"),
    [
        (0, False, False, ""),
        (97, False, False, ""),
        (98, False, False, "it had been flushed up to offset 98"),
        (100, False, False, "it had been flushed up to offset 100"),
        (100, True, False, "beside a clean-shutdown marker no broker recovers it"),
        (100, False, True, ""),
        (100, True, True, ""),
    ],
)
def test_a_corrupt_last_batch(
    point: int, marked: bool, like_kafka: bool, why: str, golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, CRASHED.name, ("crc-last-0",), tmp_path / "data")
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets({NAME: point}))
    if marked:
        (root / paths.CLEAN_SHUTDOWN).touch()
    before = contents(root)
    plan = plan_of(root, CRASHED, like_kafka=like_kafka).plan
    blocked = [row["reason"] for row in plan.items.to_pylist() if row["action"] == "blocked"]
    assert (plan.exit_code, len(blocked)) == (int(bool(why)), int(bool(why)))
    applied_rows(plan)
    if why:
        assert "(bad-crc)" in blocked[0] and why in blocked[0] and "--like-kafka" in blocked[0]
        assert contents(root) == before
    else:
        assert contents(root) != before
