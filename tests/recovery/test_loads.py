"""Bytes and batches that a broker's recovery reads, estimated from names and samples."""

from __future__ import annotations

from pathlib import Path

from kafkats.plans.units import list_units
from kafkats.recovery.loads import Sample, loads_of, sampled
from tests.golden import Unpacked


def test_only_what_a_broker_recovers_counts(golden: Unpacked) -> None:
    root = golden("crash-4.3.1", "before")
    units = [unit for unit in list_units([root]) if unit.partition_dir]
    loads = {load.partition_dir: load for load in loads_of(units)}
    recovered = {unit.partition_dir for unit in units if unit.recovery and unit.base_offset >= 0}
    assert {*loads} == recovered and len(recovered) > 30
    few = loads["few-bytes-0"]
    [log] = [u.files[0] for u in units if u.partition_dir == "few-bytes-0" and u.recovery]
    assert log is not None
    assert (few.segments, few.log_bytes) == (1, log.size)
    assert few.batches > 0 and few.messages == 0


def test_the_largest_come_first(golden: Unpacked) -> None:
    sizes = [load.log_bytes for load in loads_of(list_units([golden("crash-4.3.1", "before")]))]
    assert sizes == sorted(sizes, reverse=True)


def test_a_clean_stop_leaves_nothing_to_recover(golden: Unpacked) -> None:
    assert loads_of(list_units([golden("matrix-4.3.1-v2", "data")])) == []


def test_a_sample_tells_the_formats_apart(golden: Unpacked, tmp_path: Path) -> None:
    for name, new in (("matrix-4.3.1-v2", True), ("matrix-0.10.2.2-v1", False)):
        log = max(
            golden(name, "data").glob("none-ct-0/*.log"), key=lambda path: path.stat().st_size
        )
        sample = sampled(log)
        assert 0 < sample.bytes <= log.stat().st_size
        assert (sample.batches > 0, sample.messages > 0) == (new, not new)
    (tmp_path / "zeros.log").write_bytes(bytes(1000))
    assert sampled(tmp_path / "zeros.log") == Sample()
    assert sampled(tmp_path / "none.log") == Sample()
