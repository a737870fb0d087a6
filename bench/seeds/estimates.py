"""The documents' sizes and counts: as stated, computed from their parameters, and measured.

Measured are segments that kafkats' own builders index, and a real broker's directory.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from bench.tables import write_day
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.generations import DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.index import offset_index, time_index
from kafkats.index.build import build_from
from kafkats.paths import LOG, segment_file
from kafkats.primitives import INT64
from kafkats.segment.reader import open_source
from kafkats_model.index import enriched_index, minute_index

PARTITIONS: Final = 3500
GB: Final = 10**9
GIB: Final = 2**30
MIB: Final = 2**20
STATED_MEMORY: Final = 16 * GB
BATCH_RECORDS: Final = 10
VALUE_BYTES: Final = 90
SAMPLE_BYTES: Final = 8 * MIB
BEGIN_MS: Final = 1_600_000_000_000
DAY_RECORDS: Final = 86_400
REAL: Final = Path(__file__).parents[2] / "tests/real-logs/rolling-4.3.1/data.tar.xz"


class Estimate(NamedTuple):
    """One estimate of a document."""

    item: str
    """The id of its row in model/docs/seeds.md."""
    name: str
    stated: str
    computed: str
    measured: str
    why: str
    """Why they differ, or what they have in common."""


class Sample(NamedTuple):
    """Indexes of a generated log, in bytes."""

    log: int
    offsets: int
    times: int
    enriched: int

    @property
    def per_gib(self) -> int:
        """Bytes of the time index of 1 GiB of such a log."""
        return round(self.times * GIB / self.log)


def sample(folder: Path) -> Sample:
    """Return the indexes of a generated log of magic 2 whose timestamps rise with each batch."""
    batches, offset, size = [], 0, 0
    while size < SAMPLE_BYTES:
        records = [
            Record(n, BEGIN_MS + n, TimestampType.CREATE_TIME, None, bytes(VALUE_BYTES))
            for n in range(offset, offset + BATCH_RECORDS)
        ]
        batches.append(v2.encode_batch(records, leader_epoch=0))
        offset, size = offset + BATCH_RECORDS, size + len(batches[-1])
    path = folder / segment_file(0, LOG)
    path.write_bytes(b"".join(batches))
    with open_source(path) as source:
        built = build_from(source, 0, DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES)
        enriched = enriched_index.build(source, 0)
    return Sample(size, len(built.offset_index), len(built.time_index), len(enriched))


class Day(NamedTuple):
    """Indexes by steps of a partition with one record a second, in entries."""

    by_minute: int
    by_second: int
    by_second_of_offset_entries: int


def day(folder: Path) -> Day:
    """Return the entries of a generated day."""
    write_day(folder, DAY_RECORDS)
    with open_source(folder / segment_file(0, LOG)) as source:
        sizes = [
            len(minute_index.build(source, 0, option=option, step_ms=step))
            for option, step in (("create-time", 60_000), ("create-time", 1000), ("append-time", 1000))
        ]  # fmt: skip
    return Day(*(size // minute_index.ENTRY_SIZE for size in sizes))


def open_files() -> Estimate:
    """Return KIP-33's estimate of open files."""
    with tarfile.open(REAL) as tar:
        kinds = Counter(PurePath(name).suffix for name in tar.getnames())
    logs, offsets, times = kinds[".log"], kinds[".index"], kinds[".timeindex"]
    before, after = logs + offsets, logs + offsets + times
    return Estimate(
        "K33-03",
        "open files, with one more file per segment",
        "about 1/3 more",
        f"2 become 3 files: {1 / 2:.0%} more, {1 / 3:.0%} of them new",
        f"{before} become {after} in {REAL.parent.name}: {after / before - 1:.0%} more,"
        f" {times / after:.0%} new",
        "a third is the new file's share of all files; the growth is a half",
    )


def entry_size() -> Estimate:
    """Return KIP-33's ratio of the entries' sizes."""
    limit = SEGMENT_INDEX_BYTES
    return Estimate(
        "K33-11",
        "size of a time index entry, of an offset index entry",
        "1.5 x",
        f"{time_index.ENTRY_SIZE} / {offset_index.ENTRY_SIZE} bytes ="
        f" {time_index.ENTRY_SIZE / offset_index.ENTRY_SIZE:.1f} x",
        f"in {limit // MIB} MiB fit {limit // offset_index.ENTRY_SIZE} offset and"
        f" {limit // time_index.ENTRY_SIZE - 1} time entries",
        "a full time index rolls the segment, so the same limit holds a third fewer entries; one is"
        " reserved for closing",
    )


def per_gigabyte(found: Sample) -> Estimate:
    """Return KIP-33's index size for a segment of 1 GB."""
    most = GIB // INDEX_INTERVAL_BYTES * time_index.ENTRY_SIZE
    return Estimate(
        "K33-44",
        "time index of a 1 GB segment, index.interval.bytes of 4 KB",
        "3 MB",
        f"{most:,} bytes: {most / MIB:.0f} MiB",
        f"{found.per_gib:,} bytes at {found.log // (found.offsets // 8 + 1):,} bytes per entry",
        "an entry comes with the first batch after more than 4096 bytes, so the batches' size"
        " thins them",
    )


def index_memory(found: Sample) -> Estimate:
    """Return KIP-33's memory for indexes with a timestamp in each entry."""
    entries = STATED_MEMORY // offset_index.ENTRY_SIZE
    doubled = entries * enriched_index.ENTRY_SIZE
    both = entries * (offset_index.ENTRY_SIZE + time_index.ENTRY_SIZE)
    shipped = (found.offsets + found.times) / found.offsets
    return Estimate(
        "K33-55",
        f"index memory of {PARTITIONS:,} partitions: offset, position and timestamp in an entry",
        "16 GB become 32 GB",
        f"{entries / 1e9:.0f} billion entries: {doubled / GB:.0f} GB; as two indexes, as shipped,"
        f" up to {both / GB:.0f} GB",
        f"{found.enriched / found.offsets:.2f} x; two indexes {shipped:.2f} x",
        "a time index has an entry only where the maximum rises; it is read only by searches, so"
        " less of it is in memory",
    )


def by_step(found: Day) -> list[Estimate]:
    """Return the table of KIP-31 and KIP-33 for indexes with an entry per step."""
    second, minute = (
        minute_index.size_bytes(PARTITIONS, 24, step_ms=step) for step in (1000, 60_000)
    )
    scale = PARTITIONS * minute_index.ENTRY_SIZE
    return [
        Estimate(
            "K33-57",
            f"an index per second, {PARTITIONS:,} partitions, a day",
            "3.4 GB",
            f"{second:,} bytes: {second / GIB:.1f} GiB",
            f"{found.by_second * scale / GIB:.1f} GiB at a record a second on average;"
            f" {found.by_second_of_offset_entries * scale / MIB:.0f} MiB with the text's entries,"
            " beside those of the offset index",
            "a second without a record has no entry; the offset index has one every 4 KB only",
        ),
        Estimate(
            "K31-51",
            f"an index per minute, {PARTITIONS:,} partitions, a day",
            "57 MB",
            f"{minute:,} bytes: {minute / MIB:.1f} MiB",
            f"{found.by_minute * scale / MIB:.1f} MiB at a record a second on average",
            "the text's MB are MiB",
        ),
    ]


def message_size() -> Estimate:
    """Return KIP-32's bytes per message for timestamps."""
    record = [Record(0, BEGIN_MS, TimestampType.CREATE_TIME, None, bytes(100))]
    untimed, timed = (
        len(one.encode_batch([record[0]._replace(timestamp=-1 if one is v0 else BEGIN_MS)]))
        for one in (v0, v1)
    )
    return Estimate(
        "K32-41",
        "two timestamps in a message instead of one",
        "16 bytes",
        f"2 x int64 = {2 * INT64.size} bytes; one takes {INT64.size}",
        f"{timed - untimed} bytes: magic 1 beside magic 0",
        "the text counts both timestamps against none; against the chosen format they are 8 more",
    )


def estimates(folder: Path) -> list[Estimate]:
    """Return every estimate, measured in an empty folder."""
    for name in ("sample", "day"):
        (folder / name).mkdir()
    found = sample(folder / "sample")
    return [
        open_files(),
        entry_size(),
        per_gigabyte(found),
        index_memory(found),
        *by_step(day(folder / "day")),
        message_size(),
    ]
