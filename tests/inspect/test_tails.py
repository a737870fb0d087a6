"""Looking by depth, on every golden directory: what is read only at its ends is what a whole look says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.damage import damage_indexes
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import look
from kafkats.inspect.tails import AFTER_UNCLEAN_STOP
from kafkats.inspect.verify import VerifyOptions
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.units import Unit, list_units
from tests.golden import Unpacked, cases
from tests.inspect.with_data import WITH_DATA, of_kind

INSIDE_LOGS = {"bad-crc", "beyond-end"}
"""What the tail look does not see in these directories: a log that is corrupt before its end, so that entries of its
indexes lie beyond the corrupt batch.
"""
SAME = ["last_offset", "valid_bytes", "first_timestamp", "max_timestamp", "stop"]


def compared(units: list[Unit]) -> tuple[int, int]:
    """Look by both depths, and return the number of segments of depth tail and full."""
    executor = LocalExecutor(1)
    tail = look(executor, units, VerifyOptions(), depth="tail")
    full = look(executor, units, VerifyOptions(), depth="full")
    assert tail.segments.schema.names == SEGMENTS.names
    found, whole = tail.segments.to_pylist(), full.segments.to_pylist()
    assert len(found) == len(whole)
    for one, other in zip(found, whole, strict=True):
        if one["depth"] != "tail":
            assert one == other
            continue
        wrong = {f["kind"] for f in other["findings"] if f["severity"] in ("damage", "danger")}
        assert wrong <= INSIDE_LOGS and (not wrong or other["stop"] == "bad-crc"), other
        if not wrong:
            assert {name: one[name] for name in SAME} == {name: other[name] for name in SAME}
    assert all((row["depth"] == "tail") == (row["reason"] == "") for row in tail.depths.to_pylist())
    assert tail.read_bytes == sum(tail.depths["read_bytes"].to_pylist())
    of_depth = tail.depths["depth"].to_pylist()
    return of_depth.count("tail"), of_depth.count("full")


@pytest.mark.examples(2)
@pytest.mark.parametrize("kind", sorted({one.kind for one, _ in WITH_DATA}))
def test_the_tail_look_says_what_the_whole_look_says(golden: Unpacked, kind: str) -> None:
    counts = [compared(list(list_units([golden(one, state)]))) for one, state in of_kind(kind)]
    assert sum(map(sum, counts)) > 0


@pytest.mark.slow(18)
def test_every_class_of_damage_to_indexes_is_found(golden: Unpacked, tmp_path: Path) -> None:
    ways: dict[str, int] = {}
    for one in cases():
        if (one, one.states[-1]) not in WITH_DATA:
            continue
        copy = tmp_path / one.name
        shutil.copytree(golden(one, one.states[-1]), copy, symlinks=True)
        for partition in copy.iterdir():
            if partition.is_dir():
                for way, count in damage_indexes(partition).items():
                    ways[way] = ways.get(way, 0) + count
        compared(list(list_units([copy])))
        shutil.rmtree(copy)
    assert len(ways) == 8 and min(ways.values()) > 100


def test_above_the_recovery_point_after_an_unclean_stop_whole_segments_are_read(
    golden: Unpacked,
) -> None:
    units = list(list_units([golden("clean-start-4.3.1", "before")]))
    crashed = list(list_units([golden("crash-4.3.1", "before")]))
    looked = look(LocalExecutor(1), crashed, VerifyOptions(), depth="tail")
    reasons = looked.depths["reason"].to_pylist()
    assert reasons.count(AFTER_UNCLEAN_STOP) == sum(unit.recovery for unit in crashed) > 0
    assert not any(unit.recovery for unit in units)
