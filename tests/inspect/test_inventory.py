"""Inventory: what the ends of the files say is what a full look says."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkats.findings import BY_ENDS
from kafkats.inspect.inventory import group, inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.units import Unit, list_units
from tests.golden import case, cases

Golden = Callable[[str, str], Path]
STOPPED = ["matrix-4.3.1-v2", "matrix-0.10.2.2-v1", "matrix-0.8.2.2-v0", "matrix-2.8.2-v1"]
SAME = ["base_offset", "last_offset", "first_offset", "max_timestamp", "valid_bytes", "stop"]


@pytest.mark.parametrize("name", STOPPED)
def test_the_ends_tell_what_a_full_look_tells(golden: Golden, name: str) -> None:
    units = list(list_units([golden(name, "data")]))
    seen = pa.Table.from_batches([inventory_units(units)]).select(SAME)
    full = [verify_unit(unit, VerifyOptions()) for unit in units if unit.base_offset >= 0]
    expected = pa.Table.from_batches(full, schema=SEGMENTS)
    for number, (ends, whole) in enumerate(
        zip(seen.to_pylist(), expected.select(SAME).to_pylist(), strict=True)
    ):
        if expected["magic_bytes"][number].as_py()[2] == 0:
            ends["first_offset"] = whole["first_offset"]  # of a wrapper only a full look knows it
        assert ends == whole, expected.slice(number, 1).to_pylist()


@pytest.mark.parametrize("name", STOPPED)
def test_a_healthy_directory_has_no_damage(golden: Golden, name: str) -> None:
    seen = pa.Table.from_batches([inventory_units(list_units([golden(name, "data")]))])
    assert seen.filter(pc.is_in(seen["worst"], pa.array(["damage", "danger"]))).num_rows == 0


def test_groups_add_up(golden: Golden) -> None:
    seen = pa.Table.from_batches([inventory_units(list_units([golden("matrix-4.3.1-v2", "data")]))])
    log_bytes = pc.sum(pc.struct_field(seen["log"], "size")).as_py()
    for by in ("segment", "partition", "topic"):
        assert sum(row["log_bytes"] for row in group(seen, by)) == log_bytes
    by_partition = {row["partition_dir"]: row for row in group(seen, "partition")}
    for name, labels in case("matrix-4.3.1-v2").info["partitions"].items():
        assert by_partition[name]["last_offset"] + 1 == labels["records"]["log_end_offset"]


def test_ends_that_contradict_each_other_are_found(tmp_path: Path) -> None:
    root = case("matrix-4.3.1-v2").unpack("data", tmp_path)
    index = next(p for p in sorted(root.glob("none-ct-0/*.timeindex")) if p.stat().st_size >= 24)
    index.write_bytes(index.read_bytes()[:-12])
    seen = pa.Table.from_batches([inventory_units(list_units([root]))])
    kinds = {f["kind"] for found in seen["findings"].to_pylist() for f in found or ()}
    assert "below-maximum" in kinds


def test_timestamps_want_a_time_index_where_nothing_else_shows_a_later_broker(
    golden: Golden, tmp_path: Path
) -> None:
    """Without it the largest timestamp is only that of the end: a fresh record before it would be deleted."""
    root = shutil.copytree(golden("matrix-0.10.2.2-v1", "data"), tmp_path / "data")
    for index in root.rglob("*.timeindex"):
        index.unlink()
    units = [unit for unit in list_units([root]) if unit.base_offset >= 0 and unit.bytes]
    assert units and not any(unit.time_index_expected for unit in units)
    segments = pa.Table.from_batches([inventory_units(units)], SEGMENTS)
    timed = segments.filter(pc.greater_equal(segments["max_timestamp"], 0))
    assert timed.num_rows
    assert set(timed["worst"].to_pylist()) == {"damage"}


@pytest.mark.full(50)
def test_the_kinds_that_the_ends_show_are_those_of_a_full_look(golden: Golden) -> None:
    """In every log directory that a killed broker or a damaging hand left."""
    ends: Counter[tuple[str, str]] = Counter()
    whole: Counter[tuple[str, str]] = Counter()
    for name in sorted(one.name for one in cases() if one.kind in {"clean-start", "crash"}):
        units = list(list_units([golden(name, "before")]))
        batches = [verify_unit(unit, VerifyOptions()) for unit in units]
        for table, seen in (
            (pa.Table.from_batches([inventory_units(units)]), ends),
            (pa.Table.from_batches(batches, schema=SEGMENTS), whole),
        ):
            found = (f for some in table["findings"].to_pylist() for f in some or ())
            seen.update((name, f["kind"]) for f in found if f["kind"] in BY_ENDS)
    assert ends == whole
    assert {kind for _, kind in ends} == BY_ENDS


def test_a_torn_tail_beside_a_clean_marker_is_the_danger_that_it_is(golden: Golden) -> None:
    def kinds(units: list[Unit]) -> set[str]:
        table = pa.Table.from_batches([inventory_units(units)], SEGMENTS)
        return {f["kind"] for some in table["findings"].to_pylist() for f in some or ()}

    units = list(list_units([golden("torn-append-4.3.1", "before")]))
    assert "torn-tail-marked-clean" in kinds(units)
    unclean = kinds([unit._replace(clean=False) for unit in units])
    assert "torn-tail-marked-clean" not in unclean
