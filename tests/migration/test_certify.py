"""Certificates: what they say, when there is none, and what a later look finds different."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkats.errors import CorruptPlan, UsageError
from kafkats.execution.local import LocalExecutor
from kafkats.flow import certifying
from kafkats.migration.certificate import (
    CertifyOptions,
    read_certificate,
    write_certificate,
)
from kafkats.migration.certify import SEEN, certify_unit, make_certificate
from kafkats.migration.recheck import Recheck, certified_bytes, compare
from kafkats.plans.plan import digest_of
from kafkats.plans.units import list_units
from tests.builders.certificates import certified, log_of, message, recheck, whats
from tests.builders.locks import broker
from tests.golden import Case, Unpacked, cases, tree
from tests.index.generated import reseal

AT = "2026-11-21T15:00:00Z"


def test_what_it_says(volume: Path) -> None:
    made = certified(volume, min_magic=2)
    assert made.certified
    size = sum(log.stat().st_size for log in volume.rglob("*.log"))
    assert (
        made.statement
        == f"nothing below magic 2: 30 batches ({size} bytes) in 3 segments of 2 partitions"
    )
    assert made.segments["next_offset"].to_pylist() == [10, 20, 10]
    assert made.header["totals"]["magic_batches"] == [0, 0, 30]


@pytest.mark.parametrize(
    ("bounds", "holds"),
    [
        ({"min_magic": 0}, True),
        ({"min_magic": 1}, False),
        ({"min_magic": 2}, False),
        ({"max_magic": 2}, True),
        ({"max_magic": 1}, False),
        ({"max_magic": 0}, False),
        ({"min_magic": 1, "max_magic": 2}, False),
    ],
)
def test_bounds_on_a_partition_of_all_magics(
    golden: Unpacked, bounds: dict[str, int], holds: bool
) -> None:
    made = certified(golden("upgrade-0.9-to-2.8", "data"), **bounds)
    assert made.certified is holds
    assert bool(made.exceptions) is not holds
    assert made.statement.startswith("nothing" if holds else "not so: nothing")


@pytest.mark.parametrize("bounds", [{}, {"min_magic": 3}, {"max_magic": -1}])
def test_a_bound_is_a_magic(bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="needs --min-magic or --max-magic"):
        CertifyOptions(("/x",), **bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize("one", cases("matrix"), ids=str)
def test_real_directories_hold_the_magic_they_were_written_with(
    golden: Unpacked, one: Case
) -> None:
    root = golden(one, "data")
    [magic] = {
        int(key[1]) for key in one.info["states"]["data"]["dump_summary"] if key.startswith("v")
    }
    for topic in sorted(one.info["topics"])[:2]:
        made = certified(root, topics=topic, min_magic=magic, max_magic=magic, deep=True)
        assert made.certified, made.refusals
        assert made.header["totals"]["batches"] > 0
        assert bool(certified(root, topics=topic, max_magic=max(magic - 1, 0)).exceptions) is (
            magic > 0
        )


def test_exceptions_are_named(volume: Path) -> None:
    with log_of(volume, "b-0").open("ab") as log:
        log.write(message(0, 10))
    made = certified(volume, min_magic=2)
    [row] = made.exceptions
    assert (row["partition_dir"], row["base_offset"], row["magic_batches"]) == (
        "b-0",
        0,
        [1, 0, 10],
    )
    assert "against it: 1 batch in 1 segment;" in made.statement


def turned(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def torn(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 1)


def zeros(log: Path) -> None:
    os.truncate(log, log.stat().st_size + 100)


def hidden(log: Path) -> None:
    log.unlink()
    log.mkdir()


def swapped(log: Path) -> None:
    shutil.copyfile(log, log.with_suffix(".log.swap"))


def overlapping(log: Path) -> None:
    log.write_bytes(log.read_bytes() * 2)


@pytest.mark.parametrize("damage", [turned, torn, zeros, hidden, swapped, overlapping])
def test_what_is_not_read_or_corrupt_refuses(
    volume: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    made = certified(volume, min_magic=2)
    damage(log_of(volume))
    refused = certified(volume, min_magic=2)
    assert not refused.certified
    assert [(f["partition_dir"], f["severity"]) for f in refused.refusals] == [("a-0", "damage")]
    assert refused.statement.startswith("refused because of 1 finding:")
    with pytest.raises(UsageError, match="refused"):
        write_certificate(refused, tmp_path / "cert", at=AT)
    assert not (tmp_path / "cert").exists()
    again = recheck(made)
    assert "damaged" in [d.what for d in again.differences]
    assert (again.holds, again.unchanged) == (False, False)


def test_records_that_do_not_decode_refuse_a_deep_one(golden: Unpacked, tmp_path: Path) -> None:
    wrapped = golden("matrix-0.10.2.2-v1", "data") / "gzip-ct-0"
    partition = shutil.copytree(wrapped, tmp_path / "gzip-ct-0")
    log = min(partition.glob("0*.log"))
    data = bytearray(log.read_bytes())
    data[50:60] = bytes(10)
    reseal(data, 0, 12 + int.from_bytes(data[8:12], "big"))
    log.write_bytes(data)
    assert certified(partition, max_magic=1).certified
    assert [f["kind"] for f in certified(partition, max_magic=1, deep=True).refusals] == [
        "undecodable"
    ]


def test_a_segment_that_goes_away_meanwhile_refuses(volume: Path) -> None:
    units = list(list_units([volume]))
    log_of(volume, "b-0").unlink()
    made = certifying.certify(LocalExecutor(1), units, CertifyOptions((str(volume),), min_magic=2))
    assert [f["kind"] for f in made.refusals] == ["vanished"]


def test_damaged_directories_refuse(golden: Unpacked) -> None:
    for name in ("crash-4.3.1", "clean-start-2.8.2", "crash-0.9.0.1"):
        made = certified(golden(name, "before"), min_magic=0)
        assert {"bad-crc", "torn-tail"} <= {f["kind"] for f in made.refusals}, name


def test_written_and_read(volume: Path, tmp_path: Path) -> None:
    made = certified(volume, min_magic=2)
    write_certificate(made, tmp_path / "cert", at=AT)
    read = read_certificate(tmp_path / "cert")
    assert (read.digest, read.statement, read.options) == (
        made.digest,
        made.statement,
        made.options,
    )
    assert read.segments.equals(made.segments)
    assert json.loads((tmp_path / "cert" / "certificate.json").read_text())["at"] == AT
    write_certificate(made, tmp_path / "cert", at=AT)
    assert recheck(read) == Recheck((), True, True)


def test_the_digest_does_not_depend_on_who_looked_or_when(volume: Path) -> None:
    made = certified(volume, min_magic=2)
    batches = [certify_unit(unit) for unit in reversed(list(list_units([volume])))]
    assert (
        make_certificate([pa.Table.from_batches(batches, SEEN)], made.options).digest == made.digest
    )
    assert certified(volume, min_magic=1).digest != made.digest


def test_looking_changes_nothing(volume: Path) -> None:
    before = tree(volume)
    recheck(certified(volume, min_magic=2, deep=True))
    assert tree(volume) == before


def edited_json(folder: Path) -> None:
    path = folder / "certificate.json"
    path.write_text(path.read_text().replace("magic 2", "magic 1"))


def edited_rows(folder: Path) -> None:
    table = pq.read_table(folder / "segments.parquet")
    pq.write_table(table.slice(1), folder / "segments.parquet")


def resealed(folder: Path) -> None:
    """A forger knows how digests are made."""
    header = json.loads((folder / "certificate.json").read_text())
    rows = pq.read_table(folder / "segments.parquet")
    counts = pa.array([[1, 0, 0]] * rows.num_rows, rows.schema.field("magic_batches").type)
    rows = rows.set_column(rows.schema.get_field_index("magic_batches"), "magic_batches", counts)
    pq.write_table(rows, folder / "segments.parquet")
    _seal(folder, header, rows)


def without_options(folder: Path) -> None:
    header = json.loads((folder / "certificate.json").read_text())
    del header["options"]
    _seal(folder, header, pq.read_table(folder / "segments.parquet"))


def with_a_hole(folder: Path) -> None:
    header = json.loads((folder / "certificate.json").read_text())
    rows = pq.read_table(folder / "segments.parquet")
    rows = rows.set_column(0, "log_dir", pa.nulls(rows.num_rows, pa.string()))
    pq.write_table(rows, folder / "segments.parquet")
    _seal(folder, header, rows)


def _seal(folder: Path, header: dict[str, object], rows: pa.Table) -> None:
    bare = {k: v for k, v in header.items() if k not in {"digest", "at"}}
    (folder / "certificate.json").write_text(json.dumps(header | {"digest": digest_of(bare, rows)}))


def another_format(folder: Path) -> None:
    (folder / "certificate.json").write_text('{"format": 99}')


def no_json(folder: Path) -> None:
    (folder / "certificate.json").write_text("[]")


def no_parquet(folder: Path) -> None:
    (folder / "segments.parquet").write_bytes(b"no")


def no_rows(folder: Path) -> None:
    (folder / "segments.parquet").unlink()


def no_header(folder: Path) -> None:
    (folder / "certificate.json").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        edited_json,
        edited_rows,
        resealed,
        without_options,
        with_a_hole,
        another_format,
        no_json,
        no_parquet,
        no_rows,
        no_header,
    ],
)
def test_an_edited_certificate_is_refused(
    volume: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    write_certificate(certified(volume, min_magic=2), tmp_path / "cert", at=AT)
    damage(tmp_path / "cert")
    with pytest.raises(CorruptPlan):
        read_certificate(tmp_path / "cert")


def test_it_is_not_written_over_something_else(volume: Path, tmp_path: Path) -> None:
    made = certified(volume, min_magic=2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    for folder, why in ((tmp_path / "mine", "no certificate"), (volume / "cert", "log directory")):
        with pytest.raises(UsageError, match=why):
            write_certificate(made, folder, at=AT)


def rewritten(volume: Path) -> None:
    """Another record behind the same size, mtime and inode."""
    log = log_of(volume)
    times = log.stat()
    data = log.read_bytes()
    with log.open("r+b") as file:
        file.write(message(2, 0, b"w") + data[len(message(2, 0)) :])
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert log.stat().st_size == len(data)


def copied(volume: Path) -> None:
    log = log_of(volume)
    copy = log.with_name("copy")
    shutil.copy2(log, copy)
    copy.rename(log)


def appended(volume: Path, magic: int = 2) -> None:
    with log_of(volume, "a-0", 10).open("ab") as log:
        log.write(message(magic, 20))


def rolled(volume: Path, magic: int = 2) -> None:
    log_of(volume, "a-0", 20).write_bytes(message(magic, 20))


def cut(volume: Path) -> None:
    os.truncate(log_of(volume), 9 * len(message(2, 0)))


def dated(volume: Path) -> None:
    os.utime(log_of(volume), ns=(5, 5))


def appended_old(volume: Path) -> None:
    appended(volume, 0)


def rolled_old(volume: Path) -> None:
    rolled(volume, 0)


def replaced_by_old(volume: Path) -> None:
    log_of(volume).write_bytes(message(0, 0))


def deleted(volume: Path) -> None:
    log_of(volume).unlink()


CHANGES = [
    (rewritten, [("changed", "a-0", 0, False)]),
    (copied, [("touched", "a-0", 0, False)]),
    (dated, [("touched", "a-0", 0, False)]),
    (cut, [("changed", "a-0", 0, False)]),
    (appended, [("grown", "a-0", 10, False)]),
    (appended_old, [("grown", "a-0", 10, True)]),
    (rolled, [("new", "a-0", 20, False)]),
    (rolled_old, [("new", "a-0", 20, True)]),
    (replaced_by_old, [("changed", "a-0", 0, True)]),
    (deleted, [("vanished", "a-0", 0, False)]),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_recheck_names_each_difference(
    volume: Path, change: Callable[[Path], None], expected: list[tuple[str, str, int, bool]]
) -> None:
    made = certified(volume, min_magic=2)
    assert recheck(made) == Recheck((), True, True)
    change(volume)
    again = recheck(made)
    assert whats(again) == expected
    assert (again.holds, again.unchanged) == (not any(breaks for *_, breaks in expected), False)
    assert all(d.was != d.now for d in again.differences)


def test_a_recheck_by_several_processes(volume: Path) -> None:
    made = certified(volume, min_magic=2)
    rewritten(volume)
    known = certified_bytes(made)
    batches = [
        certify_unit(unit, upto=known.get((unit.log_dir, unit.partition_dir, unit.base_offset), 0))
        for unit in reversed(list(list_units([volume])))
    ]
    assert compare(made, pa.Table.from_batches(batches, SEEN)) == recheck(made)


def test_while_a_broker_writes(volume: Path) -> None:
    active = log_of(volume, "a-0", 10)
    with broker(volume):
        with active.open("ab") as log:
            log.write(message(2, 20)[:30])  # an append under way
        made = certified(volume, min_magic=2)
        assert made.certified
        assert made.statement.endswith(
            "of 2 partitions that a broker was writing up to the next_offset of their last segment"
        )
        [row] = [r for r in made.segments.to_pylist() if r["partition_dir"] == "a-0" and r["live"]]
        assert (row["base_offset"], row["next_offset"], row["log_bytes"] - row["bytes"]) == (
            10,
            20,
            30,
        )
        alone = certified(volume / "b-0", min_magic=2)
        assert alone.statement.endswith("of b-0 up to offset 10, which a broker was writing")

        with active.open("ab") as log:
            log.write(message(2, 20)[30:] + message(2, 21))
        log_of(volume, "a-0", 22).write_bytes(message(2, 22))
        log_of(volume).unlink()
        again = recheck(made)
        assert whats(again) == [
            ("vanished", "a-0", 0, False),
            ("grown", "a-0", 10, False),
            ("new", "a-0", 22, False),
        ]
        assert (again.holds, again.unchanged) == (True, True), (
            "a broker at work appends, rolls and deletes"
        )

        log_of(volume, "a-0", 22).write_bytes(message(0, 22))
        again = recheck(made)
        assert ("new", "a-0", 22, True) in whats(again)
        assert (again.holds, again.unchanged) == (False, False)


def test_a_whole_segment_that_changes_under_a_broker_is_no_growth(volume: Path) -> None:
    with broker(volume):
        made = certified(volume, min_magic=2)
        rewritten(volume)
        again = recheck(made)
        assert whats(again) == [("changed", "a-0", 0, False)]
        assert (again.holds, again.unchanged) == (True, False)


def test_what_a_killed_broker_left(volume: Path) -> None:
    (volume / ".kafka_cleanshutdown").unlink()
    active = log_of(volume, "a-0", 10)
    os.truncate(active, active.stat().st_size + 4096)
    assert certified(volume, min_magic=2).certified, "preallocated: no batch can be in zeros"
    os.truncate(active, active.stat().st_size - 4096)
    with active.open("ab") as log:
        log.write(message(2, 20)[:30])
    assert [f["kind"] for f in certified(volume, min_magic=2).refusals] == ["torn-tail"]
