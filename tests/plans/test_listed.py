"""The logs that a task opens are those that were listed, as far as hosts agree on files: by name, size and second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.errors import Refused
from kafkats.plans.listed import check_listed
from kafkats.plans.units import Unit, list_units
from tests.builders.locks import broker
from tests.builders.partitions import batch

SECOND = 1_000_000_000


def log_of(root: Path, base: int, partition: str = "t-0") -> Path:
    return root / partition / f"{base:020d}.log"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two rolled segments and an active one, without a meta.properties."""
    root = tmp_path / "data"
    (root / "t-0").mkdir(parents=True)
    (root / "replication-offset-checkpoint").write_text("0\n0\n")
    for base in (0, 1, 2):
        log_of(root, base).write_bytes(batch(base, 1000))
    return root


def units_of(root: Path) -> list[Unit]:
    return list(list_units([root]))


def another(log: Path, seconds: int = 5) -> None:
    """Another disk has another file of this name: as large, written at another time."""
    st = log.stat()
    data = log.read_bytes()
    log.unlink()
    log.write_bytes(data)
    os.utime(log, ns=(st.st_atime_ns, st.st_mtime_ns - seconds * SECOND))


def test_what_was_listed(root: Path) -> None:
    units = units_of(root)
    check_listed(units)
    check_listed([tuple(units)])
    check_listed([(unit, {}) for unit in units])
    check_listed([("/nowhere", "t-0"), 3, "unit"])


def test_another_disk_with_files_of_the_same_names(root: Path) -> None:
    units = units_of(root)
    for base in (0, 1, 2):
        another(log_of(root, base))
    for work in (units, [tuple(units)], [units], [(unit, {}) for unit in units]):
        with pytest.raises(Refused, match=r"none of 3 listed logs is as listed: t-0/0+.log") as e:
            check_listed(work)
        assert e.value.path == str(root) and e.value.exit_code == 3


def test_another_size_of_a_rolled_segment(root: Path) -> None:
    (rolled,) = [unit for unit in units_of(root) if unit.base_offset == 1]
    was = log_of(root, 1).stat().st_mtime_ns
    log_of(root, 1).write_bytes(batch(1, 1000, 2000))
    os.utime(log_of(root, 1), ns=(was, was))
    with pytest.raises(Refused, match=f"listed were {rolled.bytes} of"):
        check_listed([rolled])


def test_a_mount_that_knows_seconds_only_and_has_other_inodes(root: Path) -> None:
    units = units_of(root)
    for base in (0, 1, 2):
        log, st = log_of(root, base), log_of(root, base).stat()
        another(log)
        os.utime(log, ns=(st.st_atime_ns, st.st_mtime_ns // SECOND * SECOND))
    check_listed(units)


def test_an_active_segment_may_grow_beside_a_broker_whose_lock_is_not_seen(root: Path) -> None:
    active = [unit for unit in units_of(root) if unit.base_offset == 2]
    with log_of(root, 2).open("ab") as log:
        log.write(batch(3, 1000))
    check_listed(active)
    log_of(root, 2).write_bytes(b"")
    with pytest.raises(Refused, match="has 0 bytes"):
        check_listed(active)


def test_deleted_segments_are_no_other_volume(root: Path) -> None:
    units = units_of(root)
    log_of(root, 0).unlink()
    check_listed(units)
    check_listed(unit for unit in units if unit.base_offset == 0)


def test_a_partition_that_is_not_there_is(root: Path) -> None:
    units = units_of(root)
    (root / "t-0").rename(root / "u-0")
    with pytest.raises(Refused, match="t-0 is missing"):
        check_listed(units)


def test_beside_a_running_broker_nothing_is_compared(root: Path) -> None:
    before = units_of(root)
    with broker(root):
        live = units_of(root)
        for base in (0, 1, 2):
            another(log_of(root, base))
        check_listed(live)
        check_listed(before)  # it started after the listing
