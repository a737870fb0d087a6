"""A broker that rolls, deletes and merges segments between a listing and the look at what was listed, played with its real files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.findings import Finding
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir import partition as scanning
from kafkats.logdir import steady
from kafkats.lookup.consumer_groups import Committed
from kafkats.lookup.lag import lag
from kafkats.lookup.latency import latency
from kafkats.lookup.partitions import lookup_partitions, lookup_unit
from kafkats.migration.census import census_unit
from kafkats.migration.certificate import Certificate, CertifyOptions
from kafkats.migration.certify import SEEN, certify_unit, make_certificate
from kafkats.plans import settling, units
from kafkats.plans.facts import all_findings
from kafkats.plans.settling import settled
from kafkats.plans.units import Unit, list_units
from kafkats.rolling.simulate import SimulateOptions, partitions, simulate_partition
from kafkats.tables.cells import build_unit
from kafkats_model.layouts import LayoutOptions, layouts_unit
from tests.golden import case

CLEANED = ("compaction-2.8.2", "compaction-4.3.1")
CERTIFY = CertifyOptions(("x",), min_magic=2)
LOOKS: dict[str, Callable[[Unit], pa.RecordBatch]] = {
    "verify": lambda unit: verify_unit(unit, VerifyOptions()),
    "verify --deep": lambda unit: verify_unit(unit, VerifyOptions(deep=True)),
    "inventory": lambda unit: inventory_units([unit]),
}


def certify(units: Iterable[Unit], options: CertifyOptions) -> Certificate:
    seen = [certify_unit(unit, deep=options.deep) for unit in units]
    return make_certificate([pa.Table.from_batches(seen, schema=SEEN)], options)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every root seems to be held by a broker, and nobody waits for it."""
    monkeypatch.setattr(units, "is_live", lambda root: root is not None)
    monkeypatch.setattr(settling, "PAUSES", (0.0,) * 6)
    monkeypatch.setattr(scanning, "PAUSES", (0.0,) * 6)
    monkeypatch.setattr(steady, "PAUSES", (0.0,) * 6)


def unpack(name: str, state: str, to: Path) -> Path:
    to.mkdir()
    root = case(name).unpack(state, to)
    (root / paths.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    return root


def become(root: Path, other: Path) -> None:
    """The partitions of `root` become what they are in `other`."""
    for directory in other.glob("*-0"):
        if (root / directory.name).exists():
            shutil.rmtree(root / directory.name)
            shutil.copytree(directory, root / directory.name)


def bad(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, str, str]]:
    found = all_findings(pa.Table.from_batches(list(batches)))
    return [
        (f["kind"], f["file"], f["reason"]) for f in found if f["severity"] in ("damage", "danger")
    ]


def rolled(root: Path) -> Path:
    """The partition directory with the most segments."""
    return max(root.glob("*-0"), key=lambda directory: len(list(directory.glob(f"*{paths.LOG}"))))


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"*{paths.LOG}"))


def remove(log: Path) -> None:
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("look", list(LOOKS))
@pytest.mark.parametrize("name", CLEANED)
def test_cleaner_merges_what_was_listed(name: str, look: str, tmp_path: Path) -> None:
    root = unpack(name, "between", tmp_path / "root")
    listed = list(list_units([root]))
    become(root, unpack(name, "after", tmp_path / "after"))
    assert bad(LOOKS[look](unit) for unit in listed) == []


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("name", CLEANED)
def test_other_looks_after_a_merge(name: str, tmp_path: Path) -> None:
    root = unpack(name, "between", tmp_path / "root")
    listed, searched = list(list_units([root])), list(lookup_partitions([root]))
    become(root, unpack(name, "after", tmp_path / "after"))
    census = pa.Table.from_batches([census_unit(unit) for unit in listed])
    assert set(census["problem"].to_pylist()) <= {"", "vanished", "moving-tail", "preallocated"}
    made = pa.Table.from_batches([layouts_unit(unit, LayoutOptions()) for unit in listed])
    assert set(made["reason"].to_pylist()) == {""}
    rolls = [simulate_partition(some, Policy(), SimulateOptions(0)) for some in partitions(listed)]
    assert {row["error"] for rows in rolls for row in rows.to_pylist()} == {""}
    found = pa.Table.from_batches([lookup_unit(unit, [0, -1]) for unit in searched])
    assert found.num_rows
    assert "unreadable" not in found["reason"].to_pylist() + found["kafka_reason"].to_pylist()


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("name", CLEANED)
def test_certificate_of_merged_segments_is_about_what_lies_there_now(
    name: str, tmp_path: Path
) -> None:
    root = unpack(name, "between", tmp_path / "root")
    listed = list(list_units([root]))
    become(root, unpack(name, "after", tmp_path / "after"))
    found = certify(listed, CERTIFY)
    assert found.certified, found.refusals[:3]
    there = {
        (unit.partition_dir, unit.base_offset)
        for unit in list_units([root])
        if unit.base_offset >= 0
    }
    rows = found.segments.to_pylist()
    assert {(row["partition_dir"], row["base_offset"]) for row in rows} <= there
    assert len(rows) == len({(row["partition_dir"], row["base_offset"]) for row in rows})
    assert certify(list_units([root]), CERTIFY).segments.num_rows >= len(rows)


@pytest.mark.usefixtures("live")
def test_certify_while_segments_are_deleted(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    directory = root / "none-many-segments-0"
    listed = [unit for unit in list_units([directory])]
    remove(logs(directory)[0])
    remove(logs(directory)[0])
    found = certify(listed, CertifyOptions(("x",), min_magic=0))
    assert found.certified, found.refusals
    assert found.segments["base_offset"].to_pylist() == [int(log.stem) for log in logs(directory)]
    shutil.rmtree(directory)
    found = certify(listed, CertifyOptions(("x",), min_magic=0))
    assert found.certified, found.refusals
    assert found.segments.num_rows == 0


@pytest.mark.usefixtures("live")
def test_certify_refuses_a_hole(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    directory = root / "none-many-segments-0"
    listed = list(list_units([directory]))
    gone = logs(directory)[2]
    remove(gone)
    found = certify(listed, CertifyOptions(("x",), min_magic=0))
    assert [(f["kind"], f["base_offset"]) for f in found.refusals] == [("vanished", int(gone.stem))]


def test_certify_refuses_what_goes_without_a_broker(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    directory = root / "none-many-segments-0"
    listed = list(list_units([directory]))
    remove(logs(directory)[0])
    assert not certify(listed, CertifyOptions(("x",), min_magic=0)).certified


def flip(directory: Path) -> Path:
    """Damage the second log with batches, in place; returns it."""
    log = [log for log in logs(directory) if log.stat().st_size][1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    with log.open("r+b") as file:  # the same inode
        file.write(data)
    return log


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("restless", [False, True])
def test_real_damage_beside_a_running_broker_is_found(
    restless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack("compaction-2.8.2", "between", tmp_path / "root")
    directory = rolled(root)
    log = flip(directory)
    listed = list(list_units([root]))
    if restless:
        again, count = units.list_again, iter(range(100))

        def changing(unit: Unit) -> list[Unit]:
            (directory / f"{next(count):020d}.log.deleted").touch()
            return [one._replace(high_watermark=next(count)) for one in again(unit)]

        monkeypatch.setattr(settling, "list_again", changing)
    found = bad(
        verify_unit(unit, VerifyOptions())
        for unit in listed
        if unit.partition_dir == directory.name
    )
    assert log.name in {file for _, file, _ in found}
    assert {Path(file).stem for _, file, _ in found} == {log.stem}
    assert not certify(listed, CERTIFY).certified


@pytest.mark.usefixtures("live")
def test_what_never_settles_is_transient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another listing at every look, and an alarm about ever another file: none of them is believed, one that stays is."""
    root = unpack("compaction-2.8.2", "after", tmp_path / "root")
    unit = next(unit for unit in list_units([rolled(root)]) if unit.base_offset == 0)
    turn = iter(range(100))
    monkeypatch.setattr(
        settling, "list_again", lambda one: [one._replace(next_base_offset=1000 + next(turn))]
    )

    def look(_: Unit) -> tuple[None, list[Finding]]:
        return None, [
            Finding("overlap", f"{next(turn):020d}.log", "ends above"),
            Finding("missing-index", "x", "y"),
        ]

    found = settled(unit, look).findings
    assert [finding.kind for finding in found] == ["transient", "missing-index"]
    assert found[0].reason.startswith("overlap: ends above; but the directory changed")


@pytest.mark.usefixtures("live")
def test_listing_in_the_middle_of_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpack("compaction-2.8.2", "after", tmp_path / "root")
    log = logs(rolled(root))[0]
    log.rename(f"{log}.swap")
    monkeypatch.setattr(
        time, "sleep", lambda _: Path(f"{log}.swap").exists() and Path(f"{log}.swap").rename(log)
    )
    listed = list(list_units([root]))
    assert (log.parent.name, int(log.stem)) in {
        (unit.partition_dir, unit.base_offset) for unit in listed
    }
    assert bad(verify_unit(unit, VerifyOptions(deep=True)) for unit in listed) == []


@pytest.mark.usefixtures("live")
def test_deleted_topics(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    listed, searched = list(list_units([root])), list(lookup_partitions([root]))
    for directory in root.glob("*-0"):
        shutil.rmtree(directory)
    for look in LOOKS.values():
        assert bad(map(look, listed)) == []
    assert sum(lookup_unit(unit, [0]).num_rows for unit in searched) == 0
    assert sum(layouts_unit(unit, LayoutOptions()).num_rows for unit in listed) == 0
    assert (
        sum(
            simulate_partition(some, Policy(), SimulateOptions(0)).num_rows
            for some in partitions(listed)
        )
        == 0
    )


@pytest.mark.usefixtures("live")
def test_tables_and_lag_of_deleted_topics(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    searched = list(lookup_partitions([root]))
    cells = np.array([0, 60_000])
    assert all(build_unit(unit, cells).num_rows == 2 for unit in searched)
    for directory in root.glob("*-0"):
        shutil.rmtree(directory)
    assert sum(build_unit(unit, cells).num_rows for unit in searched) == 0
    assert latency(searched).num_rows == 0
    asked = [Committed("g", "none-many-segments", 0, 5)]
    assert lag(asked, searched, now_ms=0)["reason"].to_pylist() == ["no-partition"]


def test_a_preallocated_log_is_read_up_to_its_zeros(tmp_path: Path) -> None:
    root = unpack("adopt-4.1.0", "before", tmp_path / "root")
    directory = root / "none-many-segments-0"

    def looked() -> tuple[Any, ...]:
        listed = [unit for unit in list_units([directory]) if unit.base_offset >= 0]
        made = [row for unit in listed for row in layouts_unit(unit, LayoutOptions()).to_pylist()]
        rolls = simulate_partition(listed, Policy(), SimulateOptions(0)).to_pylist()
        delays = latency(lookup_partitions([directory])).to_pylist()
        return (
            made,
            [row | {"longest_kept_ms": 0} for row in rolls],
            [row["reason"] for row in delays],
        )

    before = looked()
    log = logs(directory)[-1]
    stat = log.stat()
    with log.open("ab") as file:
        file.truncate(1 << 20)
    os.utime(log, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert looked() == before
    assert before[2] == [""]
    assert {row["reason"] for row in before[0]} == {""}


def test_nothing_is_looked_at_twice_where_nothing_changes(tmp_path: Path) -> None:
    root = unpack("compaction-2.8.2", "between", tmp_path / "root")
    flip(rolled(root))
    looks: list[Unit] = []

    def look(unit: Unit) -> tuple[None, Any]:
        looks.append(unit)
        found = verify_unit(unit, VerifyOptions()).to_pylist()
        return None, [
            Finding(f["kind"], f["file"], f["reason"]) for row in found for f in row["findings"]
        ]

    listed = list(list_units([root]))
    for unit in listed:
        settled(unit, look)
    assert looks == listed
