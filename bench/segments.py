"""Generated segments, the same bytes every time.

A few frames from our encoders are repeated with new offsets, times and checksums. Keys have 8
bytes. Timestamps grow by 1 ms per record, so every entry of the offset index has one in the time
index.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkats.compression.checksums import crc32, crc32c
from kafkats.formats import v0, v1, v2
from kafkats.formats.dispatch import batches as batches_of
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file

BEGIN_MS = 1_600_000_000_000
_TEMPLATES = 16
_BATCH_BYTES = 16 * 1024


@dataclass(frozen=True)
class Shape:
    """The contents of a segment.

    `per_batch` 0: as many records as fill 16 KiB before compression.
    """

    name: str
    magic: int
    value_bytes: int
    per_batch: int = 1
    codec: Codec = Codec.NONE

    @property
    def records(self) -> int:
        return self.per_batch or max(1, _BATCH_BYTES // (self.value_bytes + 20))


V0_100 = Shape("v0 100 B", 0, 100)
V0_1K = Shape("v0 1 KiB", 0, 1024)
V1_100 = Shape("v1 100 B", 1, 100)
V1_1K = Shape("v1 1 KiB", 1, 1024)
V2_100 = Shape("v2 100 B, 16 KiB batches", 2, 100, per_batch=0)
V2_1K = Shape("v2 1 KiB, 16 KiB batches", 2, 1024, per_batch=0)
V2_SINGLE = Shape("v2 one 100 B record per batch", 2, 100)
V1_LZ4_100 = Shape("v1 lz4 wrappers of 100 B", 1, 100, per_batch=0, codec=Codec.LZ4)
V1_LZ4_1K = Shape("v1 lz4 wrappers of 1 KiB", 1, 1024, per_batch=0, codec=Codec.LZ4)
V2_GZIP = Shape("v2 gzip", 2, 100, per_batch=0, codec=Codec.GZIP)


def write_segment(folder: Path, shape: Shape, size: int, base_offset: int = 0) -> Path:
    """Write a .log of about `size` bytes (whole batches, not more) in `folder`, without indexes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment_file(base_offset, LOG)
    path.write_bytes(make_log(shape, size, base_offset).data)
    return path


def write_indexes(log: Path) -> None:
    """Write both indexes of a .log, as a rebuild does."""
    from kafkats.paths import parse_segment_file
    from tests.builders.logs import build

    name = parse_segment_file(log.name)
    assert name is not None
    built = build(np.fromfile(log, np.uint8), name.base_offset)
    log.with_suffix(OFFSET_INDEX).write_bytes(built.offset_index)
    log.with_suffix(TIME_INDEX).write_bytes(built.time_index)


def make_log(
    shape: Shape, size: int, base_offset: int = 0, begin_ms: int = BEGIN_MS
) -> NDArray[np.uint8]:
    """Return the bytes of a .log, uint8, shape (at most `size`,).

    Its first record is of `begin_ms`.
    """
    templates = [_template(shape, n) for n in range(_TEMPLATES)]
    lengths = np.array([len(t) for t in templates])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    cycle = np.frombuffer(b"".join(templates), np.uint8)
    cycles = max(1, size // len(cycle))
    log = np.tile(cycle, (cycles, 1))
    numbers = np.arange(cycles, dtype=np.int64) * _TEMPLATES
    for n, start in enumerate(starts):
        _stamp(log, int(start), shape, base_offset, begin_ms, (numbers + n) * shape.records)
    flat = log.reshape(-1)
    positions = (np.arange(cycles)[:, None] * len(cycle) + starts).reshape(-1)
    _seal(flat, shape, positions.tolist(), np.tile(lengths, cycles).tolist())
    return flat


def key_positions(shape: Shape, log: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the position of each record's key in a log of magic 2 that `make_log` made."""
    templates = [_template(shape, n) for n in range(_TEMPLATES)]
    starts = np.cumsum([0, *(len(t) for t in templates)])
    inside = []
    for data, start in zip(templates, starts, strict=False):
        (batch,) = batches_of(data)
        at = 0
        for record in v2.decode_records(data, batch):
            at = data.index(record.key or b"", at)
            inside.append(int(start) + at)
    cycles = np.arange(len(log) // int(starts[-1]), dtype=np.int64)[:, None] * int(starts[-1])
    return (cycles + np.array(inside)).reshape(-1)


def seal_log(shape: Shape, log: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Write the checksums of a log that `make_log` made, after its records were changed."""
    lengths = [len(_template(shape, n)) for n in range(_TEMPLATES)]
    cycles = len(log) // sum(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    positions = (np.arange(cycles)[:, None] * sum(lengths) + starts).reshape(-1)
    _seal(log, shape, positions.tolist(), lengths * cycles)
    return log


def _template(shape: Shape, seed: int) -> bytes:
    chance = random.Random(seed)
    records = [
        Record(
            n,
            BEGIN_MS + n,
            TimestampType.CREATE_TIME,
            chance.randbytes(8),
            _value(chance, shape.value_bytes),
        )
        for n in range(shape.records)
    ]
    if shape.magic == 0:
        plain = [Record(r.offset, -1, TimestampType.NONE, r.key, r.value) for r in records]
        return v0.encode_batch(plain, codec=shape.codec)
    if shape.magic == 1:
        # A repeated wrapper has another time than its messages, so that time is the broker's.
        appended = BEGIN_MS if shape.codec else None
        return v1.encode_batch(
            records, codec=shape.codec, log_append_time=appended, stamp_inner=False
        )
    return v2.encode_batch(records, codec=shape.codec)


def _value(chance: random.Random, size: int) -> bytes:
    """Return JSON of events, cut to size, which compresses like real events."""
    text = ""
    while len(text) < size:
        text += json.dumps({
            "id": chance.getrandbits(32), "user": f"user-{chance.randrange(5000)}", "city": chance.choice(_CITIES), "amount": chance.random(),
        })  # fmt: skip
    return text[:size].encode()


_CITIES = ("Lisbon", "Osaka", "Quito", "Tromso", "Windhoek", "Yerevan")


def _stamp(
    log: NDArray[np.uint8],
    at: int,
    shape: Shape,
    base_offset: int,
    begin_ms: int,
    number: NDArray[np.int64],
) -> None:
    """Set offset and times of the frame at `at` in every row.

    `number` counts records from the beginning of the segment.
    """
    last = shape.records - 1
    first = base_offset + number
    if shape.magic < 2:
        _put(log, at, first + last)
        if shape.magic == 1:
            _put(log, at + 18, begin_ms + number + last)
        return
    _put(log, at, first)
    _put(log, at + 27, begin_ms + number)
    _put(log, at + 35, begin_ms + number + last)


def _put(log: NDArray[np.uint8], at: int, values: NDArray[np.int64]) -> None:
    log[:, at : at + 8] = values.astype(">i8").view(np.uint8).reshape(-1, 8)


def _seal(log: NDArray[np.uint8], shape: Shape, positions: list[int], lengths: list[int]) -> None:
    skip, checksum = (17, crc32c) if shape.magic == 2 else (12, crc32)
    data = memoryview(log.data)
    sums = [checksum(data[p + skip + 4 : p + n]) for p, n in zip(positions, lengths, strict=True)]
    where = np.array(positions)[:, None] + np.arange(skip, skip + 4)
    log[where] = np.array(sums, ">u4").view(np.uint8).reshape(-1, 4)
