"""The census on real directories: every batch that Kafka's own DumpLogSegments prints, and no byte left out."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.migration.census import (
    CENSUS,
    census_unit,
    group_census,
    problems,
    summarize,
    zero_copy,
)
from kafkats.plans.units import Unit, list_units
from tests.golden import Case, Unpacked, case, cases, topic_of, tree

BATCH = re.compile(
    r"^(?:baseOffset: \d+ lastOffset: \d+ count: (?P<count>\d+) .*producerId: (?P<producer>-?\d+) .*"
    r"isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+)"
    r" deleteHorizonMs: OptionalLong(?:\.(?P<none>empty)|\[\d+\]) |offset: \d+ )"
    r"position: \d+ (?P<type>\w+): -?\d+ size: (?P<size>\d+) magic: (?P<magic>\d)"
    r" compresscodec: (?P<codec>\w+) crc: \d+ isvalid: (?P<valid>\w+)$",
    re.MULTILINE,
)
COUNTS = (
    "bytes",
    "batches",
    "records",
    "control_batches",
    "transactional_batches",
    "producer_batches",
)
COUNTS += ("delete_horizon_batches",)
Cells = dict[tuple[int, str, str], dict[str, int]]


def census_of(*roots: Path, deep: bool = False) -> pa.Table:
    return pa.Table.from_batches(
        [census_unit(unit, deep=deep) for unit in list_units(roots)], CENSUS
    )


def roots_of(root: Path) -> list[Path]:
    """The root itself, or its log directories where a case has several."""
    return sorted(root.glob("disk-*")) or [root]


def dumped(one: Case, state: str) -> Iterator[tuple[str, str]]:
    """What DumpLogSegments said about each file."""
    for part in one.text(one.info["states"][state]["dump"]).split("### ")[1:]:
        name, _, text = part.partition("\n")
        yield name, text


def printed_cells(text: str) -> Cells:
    """Up to the first batch whose checksum does not hold."""
    cells: dict[tuple[int, str, str], Counter[str]] = {}
    for line in BATCH.finditer(text):
        if line["valid"] != "true":
            break
        magic, codec, kind = (
            int(line["magic"]),
            line["codec"],
            line["type"].replace("NoTimestampType", "none"),
        )
        cell = cells.setdefault((magic, codec, kind), Counter(dict.fromkeys(COUNTS, 0)))
        wrapper = magic < 2 and codec != "none"
        cell["bytes"] += int(line["size"])
        cell["batches"] += 1
        cell["records"] = -1 if wrapper else cell["records"] + int(line["count"] or 1)
        cell["control_batches"] += line["control"] == "true"
        cell["transactional_batches"] += line["transactional"] == "true"
        cell["producer_batches"] += int(line["producer"] or -1) >= 0
        cell["delete_horizon_batches"] += magic == 2 and not line["none"]
    return {key: dict(cell) for key, cell in cells.items()}


def counted_cells(rows: list[dict[str, Any]]) -> Cells:
    return {
        (row["magic"], row["codec"], row["timestamp_type"]): {name: row[name] for name in COUNTS}
        for row in rows
        if row["magic"] >= 0
    }


@pytest.mark.examples(by="kafka")
@pytest.mark.parametrize("one", cases(), ids=str)
def test_every_batch_that_kafka_prints(golden: Unpacked, one: Case) -> None:
    for state in one.states:
        root = golden(one, state)
        rows: dict[Path, list[dict[str, Any]]] = {}
        for row in census_of(*roots_of(root)).to_pylist():
            log = Path(row["log_dir"], row["partition_dir"], f"{row['base_offset']:020d}.log")
            rows.setdefault(log, []).append(row)
        compared, complaints, totals = 0, 0, Counter[str]()
        for name, text in dumped(one, state):
            found = rows.pop(root / name, None) if name.endswith(".log") else None
            if found is None:
                continue
            ours, theirs = counted_cells(found), printed_cells(text)
            damaged = (
                "EXCEPTION" in text
            )  # the tool gave up, before or after what a broker would read
            if damaged:
                assert all(
                    theirs[k]["batches"] <= ours.get(k, theirs[k])["batches"] for k in theirs
                ), (state, name)
            else:
                assert ours == theirs, (state, name)
            complaints += damaged or "isvalid: false" in text
            compared += 1
            assert sum(row["bytes"] for row in found) == (root / name).stat().st_size, (state, name)
            if not topic_of(Path(name).parent.name).startswith("__"):
                totals.update({
                    f"v{magic} {codec}": cell["batches"] for (magic, codec, _), cell in ours.items()
                })
        assert compared
        assert not {path for path in rows if path.exists()}, (
            "a segment that Kafka's tool was not asked about"
        )
        summary = one.info["states"][state]["dump_summary"]
        if not complaints and not undumped(root):
            assert totals == {k: v for k, v in summary.items() if re.fullmatch(r"v\d \w+", k)}, (
                state
            )


def undumped(root: Path) -> bool:
    """Whether there are logs that the tool was shown and no broker reads: of deleted and stray partitions."""
    return any(path.parent.name.endswith(("-delete", "-stray")) for path in root.rglob("*.log"))


MATRIX = [
    "matrix-0.9.0.1-v0",
    "matrix-0.10.2.2-v1",
    "matrix-2.8.2-v0",
    "matrix-4.3.1-v2",
    "upgrade-0.9-to-2.8",
]


@pytest.mark.parametrize("name", MATRIX)
def test_deep_counts_what_a_consumer_reads(golden: Unpacked, name: str) -> None:
    records = Counter(topic_of(record["tp"]) for record in case(name).records())
    rows = group_census(census_of(golden(name, "data"), deep=True), "topic")
    counted: Counter[str] = Counter()
    for row in rows:
        if not row["topic"].startswith("__"):
            counted[row["topic"]] += row["records"] - row["control_batches"]
    assert counted == records


UPGRADE = ("upgrade-0.9-to-2.8", "after-2.4.1")


def test_groups_add_up(golden: Unpacked) -> None:
    census = census_of(golden(*UPGRADE))
    summary = summarize(census)
    assert summary["log_bytes"] == sum(summary["magic_bytes"]) > 0
    assert all(summary["magic_batches"])
    for by in ("segment", "partition", "topic", "volume", "format"):
        rows = group_census(census, by)
        assert sum(row["bytes"] for row in rows) == summary["log_bytes"]
        assert sum(row["batches"] for row in rows) == sum(summary["magic_batches"])
        places = {
            tuple(row[k] for k in ("log_dir", "topic", "partition_dir", "base_offset") if k in row)
            for row in rows
        }
        assert sum(row["share"] for row in rows) == pytest.approx(
            len(places), abs=0.001 * len(rows)
        )
    [total] = {
        row["segments"]
        for row in group_census(census, "format")
        if (row["magic"], row["codec"]) == (0, "gzip")
    }
    assert total == sum(
        (row["magic"], row["codec"]) == (0, "gzip") for row in group_census(census, "segment")
    )


def test_reading_changes_nothing(golden: Unpacked) -> None:
    root = golden(*UPGRADE)
    before = tree(root)
    census_of(root, deep=True)
    assert tree(root) == before


def test_who_loses_zero_copy(golden: Unpacked) -> None:
    root = golden(*UPGRADE)
    for row in zero_copy(census_of(root)):
        sizes: Counter[int] = Counter()
        old_beside = {0: 0, 1: 0}
        for log in sorted(root.glob(f"{row['topic']}-0/*.log")):
            cells = Counter[int]()
            for cell in census_of(log).to_pylist():
                cells[cell["magic"]] += cell["bytes"]
            sizes += cells
            for target, beside in old_beside.items():
                newer = sum(size for magic, size in cells.items() if magic > target)
                old_beside[target] = beside + (cells.total() - newer if newer else 0)
        assert row["bytes"] == sizes.total()
        assert row["fetch_0_1_converted"] == sizes[1] + sizes[2]
        assert row["fetch_2_3_converted"] == sizes[2]
        assert (row["fetch_0_1_beside"], row["fetch_2_3_beside"]) == (old_beside[0], old_beside[1])
        assert row["fetch_4_up_converted"] == row["zstd_bytes"] == 0
    [zstd] = [
        r
        for r in zero_copy(census_of(golden("matrix-4.3.1-v2", "data")))
        if r["topic"] == "zstd-ct"
    ]
    assert zstd["zstd_bytes"] == zstd["fetch_0_1_converted"] == zstd["bytes"] > 0


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A root of your own, to damage."""
    (tmp_path / "root").mkdir()
    return case("matrix-0.10.2.2-v1").unpack("data", tmp_path / "root")


def only_problems(volume: Path) -> list[tuple[str, str]]:
    return [(p["problem"], p["severity"]) for p in problems(census_of(volume))]


def fifo(log: Path) -> None:
    log.unlink()
    log.symlink_to("/dev/null")


def swap(log: Path) -> None:
    shutil.copyfile(log, log.with_suffix(".log.swap"))


def turned(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


def linked_partition(log: Path) -> None:
    moved = log.parents[2] / "elsewhere"
    log.parent.rename(moved)
    log.parent.symlink_to(moved)


def unreadable_directory(log: Path) -> None:
    log.parent.joinpath(log.name).unlink()
    log.mkdir()


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (fifo, "unreadable"),
        (swap, "unreadable"),
        (turned, "bad-crc"),
        (linked_partition, "unreadable"),
        (unreadable_directory, "unreadable"),
    ],
)
def test_what_is_not_read_is_said(volume: Path, damage: Callable[[Path], None], kind: str) -> None:
    assert only_problems(volume) == []
    damage(next(volume.glob("none-ct-0/0*.log")))
    assert only_problems(volume) == [(kind, "damage")]
    assert summarize(census_of(volume))["problems"] == {kind: 1}


def test_a_segment_that_went_away_is_named(volume: Path) -> None:
    units = list(list_units([volume]))
    gone = next(unit for unit in units if unit.base_offset >= 0)
    Path(gone.log_dir, gone.partition_dir, f"{gone.base_offset:020d}.log").unlink()
    [row] = census_unit(gone).to_pylist()
    assert (row["problem"], row["magic"], row["bytes"]) == ("vanished", -1, gone.bytes)


def test_empty_segments_are_counted(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(b"")
    (partition / "leader-epoch-checkpoint").write_text("0\n0\n")
    census = census_of(partition)
    assert (summarize(census)["segments"], summarize(census)["log_bytes"]) == (1, 0)
    assert group_census(census, "segment") == zero_copy(census) == problems(census) == []


def test_an_empty_census() -> None:
    census = CENSUS.empty_table()
    assert summarize(census)["log_bytes"] == 0
    assert group_census(census, "topic") == zero_copy(census) == []


def test_a_unit_of_a_directory_without_problems_has_no_row() -> None:
    assert census_unit(Unit("/nowhere", "t-0", -1)).num_rows == 0
