"""All records of a segment as Arrow columns (offset, timestamp and its type, key, value), and the
parity digest over them. Checksums are checked. One thread, a mapped file in the page cache; CPU
time of the thread for every contestant.

memcpy      copies the same bytes in pieces of 1 MiB into one buffer
aiokafka    its parser (Cython): checks checksums, puts the fields of every record into lists, and
            these into Arrow
decode      Kafka's in-memory reader in a warm JVM: checks checksums, reads every key and value
library     the codec's Python package alone, batch by batch, without parsing: lz4, zstandard,
            cramjam (snappy), isal (gzip)
BLAKE3      the hash of the file's bytes, once. The digest covers the decompressed bytes of the
            records, with 25 bytes of numbers for each
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cramjam
import lz4.frame
import numpy as np
import pyarrow as pa
import zstandard
from aiokafka.record.memory_records import MemoryRecords
from isal import isal_zlib

from bench import segments
from bench.harness import (
    MB,
    MIB,
    Figure,
    Figures,
    cpu_seconds,
    scratch,
    take_turns,
    tell,
    times_cheaper,
)
from bench.java import judge, race_seconds
from bench.segments import Shape, write_segment
from kafkats.formats.framing import frames
from kafkats.formats.model import Codec
from kafkats.hashes import hash_bytes
from kafkats.segment.columns import Binary, columns
from kafkats.segment.parity import digest_records
from kafkats.segment.reader import Bytes, Source, open_segment
from kafkats_model.memory_source import array_source

SIZE = 128 * MIB
PEER_SIZE = 8 * MIB
ROUNDS = 5
JAVA_WARM = 3
NAMES = ["offset", "timestamp", "timestamp_type", "key", "value"]
PROFILE = {"timestamps": True, "headers": True, "control": True}
V2_LZ4_100 = Shape("v2 lz4, 100 B", 2, 100, per_batch=0, codec=Codec.LZ4)
V2_LZ4_1K = Shape("v2 lz4, 1 KiB", 2, 1024, per_batch=0, codec=Codec.LZ4)
V2_ZSTD = Shape("v2 zstd, 100 B", 2, 100, per_batch=0, codec=Codec.ZSTD)
V2_SNAPPY = Shape("v2 snappy, 100 B", 2, 100, per_batch=0, codec=Codec.SNAPPY)


class Goals(NamedTuple):
    """Goals as multiples of the others' speed."""

    shape: Shape
    memcpy: float | None
    library: float | None
    aiokafka: float
    decode: float


GOALS = (
    Goals(segments.V0_100, 0.17, None, 11, 2.5),
    Goals(segments.V1_100, 0.17, None, 11, 2.5),
    Goals(segments.V1_1K, 0.45, None, 11, 1.5),
    Goals(segments.V2_100, 0.17, None, 11, 2.5),
    Goals(segments.V2_1K, 0.45, None, 11, 1.5),
    Goals(segments.V2_SINGLE, None, None, 11, 2.5),
    Goals(segments.V1_LZ4_100, None, 0.6, 1.5, 2.2),
    Goals(V2_LZ4_100, None, 0.6, 1.5, 2.2),
    Goals(V2_LZ4_1K, None, 0.4, 1.5, 1.2),
    Goals(V2_ZSTD, None, None, 1.5, 1.1),
    Goals(V2_SNAPPY, None, None, 1.5, 1.1),
    Goals(segments.V2_GZIP, None, None, 1.5, 1.1),
)


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        for goals in GOALS:
            tell(goals.shape.name)
            size = (SIZE // 4 if goals.shape.codec else SIZE) // (8 if small else 1)
            yield from _shape(goals, write_segment(folder / "log", goals.shape, size))


def _shape(goals: Goals, log: Path) -> Figures:
    shape, size = goals.shape, log.stat().st_size
    peer = log.read_bytes()[:PEER_SIZE]
    with open_segment(log) as view, judge() as ask:
        source = array_source(view)
        for _ in range(JAVA_WARM):
            race_seconds(ask, "decode", log)

        def cpu(work: Callable[[], object]) -> Callable[[], float]:
            return lambda: cpu_seconds(work) / size

        contestants = {
            "columns": cpu(partial(to_arrow, source)),
            "digest": cpu(partial(digest_records, source, **PROFILE)),
            "memcpy": cpu(partial(copy, view)),
            "BLAKE3": cpu(partial(hash_bytes, view)),
            "aiokafka": lambda: cpu_seconds(partial(by_aiokafka, peer)) / len(peer),
            "decode": lambda: race_seconds(ask, "decode", log) / size,
        }
        if shape.codec:
            contestants["library"] = cpu(partial(unpack, packed_batches(view, shape), shape.codec))
        costs = take_turns(contestants, ROUNDS)
    speed = {name: 1 / MB / sorted(cost)[len(cost) // 2] for name, cost in costs.items()}

    def beside(us: str, them: str, goal: float | None, label: str) -> Figure:
        detail = f"{speed[us]:,.0f} / {speed[them]:,.0f} MB/s"
        return Figure(
            f"{us}, {shape.name} / {label}",
            times_cheaper(costs, us, them),
            "x",
            goal,
            detail=detail,
        )

    yield beside("columns", "memcpy", goals.memcpy, "memcpy")
    if shape.codec:
        yield beside("columns", "library", goals.library, "the codec's package alone")
    yield beside("columns", "aiokafka", goals.aiokafka, "aiokafka into Arrow")
    yield beside("columns", "decode", goals.decode, "Kafka's decode")
    yield beside("digest", "BLAKE3", None, "BLAKE3 of the file")


def to_arrow(source: Source) -> int:
    """Build a record batch over the buffers of every chunk. Return the number of records."""
    rows = 0
    for chunk in columns(source, headers=False):
        assert chunk.key is not None and chunk.value is not None
        fixed = [
            (pa.int64(), chunk.offset),
            (pa.int64(), chunk.timestamp),
            (pa.int8(), chunk.timestamp_type),
        ]
        arrays = [
            pa.Array.from_buffers(kind, chunk.rows, [None, pa.py_buffer(data)])
            for kind, data in fixed
        ]
        batch = pa.RecordBatch.from_arrays([*arrays, _arrow(chunk.key), _arrow(chunk.value)], NAMES)
        rows += batch.num_rows
    return rows


def _arrow(column: Binary) -> pa.Array:
    buffers = [pa.py_buffer(column.valid), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column.offsets) - 1, buffers, column.nulls)


def by_aiokafka(data: bytes) -> int:
    records = MemoryRecords(data)
    offsets, timestamps, keys, values = [], [], [], []
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise RuntimeError("aiokafka finds a bad checksum")
        for record in batch:
            offsets.append(record.offset)
            timestamps.append(record.timestamp)
            keys.append(record.key)
            values.append(record.value)
    pa.array(offsets, pa.int64()), pa.array(timestamps, pa.int64())
    pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    return len(offsets)


def copy(view: Bytes) -> None:
    to = np.empty(MIB, np.uint8)
    for at in range(0, len(view), MIB):
        piece = view[at : at + MIB]
        to[: len(piece)] = piece


def packed_batches(view: Bytes, shape: Shape) -> list[memoryview]:
    """Return the compressed bytes of every batch."""
    data, skip = memoryview(view.data), 61 if shape.magic == 2 else 34
    return [data[frame.position + skip : frame.position + frame.size] for frame in frames(view)]


def unpack(packed: list[memoryview], codec: Codec) -> None:
    decompress: dict[Codec, Callable[[memoryview], object]] = {
        Codec.GZIP: partial(isal_zlib.decompress, wbits=31),
        Codec.SNAPPY: snappy,
        Codec.LZ4: lz4.frame.decompress,
        Codec.ZSTD: zstd(),
    }
    one = decompress[codec]
    for piece in packed:
        one(piece)


def zstd() -> Callable[[memoryview], object]:
    reused = zstandard.ZstdDecompressor()
    return lambda piece: reused.decompressobj().decompress(piece)


def snappy(piece: memoryview) -> None:
    """Decompress Kafka's framing: 16 bytes, then blocks after their sizes."""
    at = 16
    while at < len(piece):
        size = int.from_bytes(piece[at : at + 4], "big")
        cramjam.snappy.decompress_raw(piece[at + 4 : at + 4 + size])
        at += 4 + size
