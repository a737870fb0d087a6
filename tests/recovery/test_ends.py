"""Lost records, told by the ends of logs alone, against the plan that reads the logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kafkats.config.policy import Policy
from kafkats.errors import StorageFailed
from kafkats.execution.local import LocalExecutor
from kafkats.flow.looking import LogStages
from kafkats.plans.rows import PartitionKey
from kafkats.plans.units import Unit, list_units
from kafkats.recovery.ends import Judged, judge_ends, judge_last_segments
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from tests.golden import Unpacked


def units_of(golden: Unpacked) -> dict[PartitionKey, list[Unit]]:
    found: dict[PartitionKey, list[Unit]] = {}
    for unit in list_units([golden("crash-4.3.1", "before")]):
        if unit.partition_dir:
            found.setdefault(unit.key.partition, []).append(unit)
    return found


def test_ends_tell_all_but_corrupt_batches(
    golden: Unpacked,
) -> None:
    units, stages = units_of(golden), LogStages(LocalExecutor(1))
    judged = judge_ends(stages, units, time.monotonic() + 1000)
    every = [unit for own in units.values() for unit in own]
    planned = look_and_plan(stages, every, Policy(), RecoverOptions(credit=True))
    rows = planned.beside["recovery"].to_pylist()
    lost = {PartitionKey(r["log_dir"], r["partition_dir"]): r["lost"] for r in rows if r["lost"]}
    assert judged.lost.items() <= lost.items() and len(judged.lost) > 1
    assert not {*judged.lost} & judged.untold and len(judged.untold) < len(units) / 4
    unseen = {one.partition_dir for one in lost.keys() - judged.untold - judged.lost.keys()}
    assert {name.split("-")[0] for name in unseen} == {"crc"}, unseen


def test_without_time_nothing_is_told(golden: Unpacked) -> None:
    units = units_of(golden)
    judged = judge_ends(LogStages(LocalExecutor(1)), units, time.monotonic())
    assert (judged.lost, len(judged.untold)) == ({}, len(units))


def test_ends_that_cannot_be_read_tell_nothing(
    golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFailed("the disk is gone")

    monkeypatch.setattr(LogStages, "ends", fail)
    units = units_of(golden)
    judged = judge_ends(LogStages(LocalExecutor(1)), units, time.monotonic() + 1000)
    assert (judged.lost, judged.untold) == ({}, {*units})


def test_last_segments_tell_all_that_can_be_read(golden: Unpacked, tmp_path: Path) -> None:
    units, stages = units_of(golden), LogStages(LocalExecutor(1))
    ends = judge_ends(stages, units, time.monotonic() + 1000)
    judged = judge_last_segments(stages, units, ends, time.monotonic() + 1000)
    assert ends.lost.items() < judged.lost.items() and not judged.untold
    assert judge_last_segments(stages, units, ends, time.monotonic()) == ends
    [key, *_] = ends.untold
    gone = {key: [unit._replace(log_dir=str(tmp_path / "gone")) for unit in units[key]]}
    one = Judged({}, {key})
    [untold] = judge_last_segments(stages, gone, one, time.monotonic() + 1000).untold
    assert untold.partition_dir == key.partition_dir
