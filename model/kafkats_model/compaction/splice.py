"""Put messages of wrappers into a new wrapper, each as it is: only offsets change.

The cleaners of Kafka 0.8 to 0.10.1 rebuild wrappers so. KIP-31 also wants several wrappers put into
one. Offsets that compaction removed stay missing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kafkats.compression import compress
from kafkats.formats import dispatch, message_set, v1
from kafkats.formats.build import append_time
from kafkats.formats.model import NO_TIMESTAMP, Batch
from kafkats.primitives import INT64, Buffer


class Part(NamedTuple):
    """The messages of one wrapper of `buf` that stay, by their absolute offsets."""

    buf: Buffer
    wrapper: Batch
    kept: frozenset[int]


def spliced(parts: Sequence[Part]) -> bytes:
    """Return one wrapper with the messages of all `parts`, which have one magic and codec.

    Its offset is that of its last message. Magic 1 counts offsets inside from the first message,
    magic 0 has them absolute. The timestamp is the largest one; under LogAppendTime, where messages
    of a set share theirs, it is that of the last message. Raises CorruptBatch, NotConvertible.
    """
    first = parts[0].wrapper
    chosen: list[tuple[int, memoryview]] = []
    newest = NO_TIMESTAMP
    for part in parts:
        lz4 = part.wrapper.magic == 0
        inner, frames = message_set.wrapped(part.buf, part.wrapper, broken_lz4=lz4)
        records = dispatch.records(part.buf, part.wrapper)
        for frame, record in zip(frames, records, strict=True):
            if record.offset in part.kept:
                body = inner[frame.position + INT64.size : frame.position + frame.size]
                chosen.append((record.offset, body))
                newest = max(newest, record.timestamp)
    base = chosen[0][0] if first.magic == v1.MAGIC else 0
    content = b"".join(INT64.pack(offset - base) + body for offset, body in chosen)
    time = append_time(parts[-1].wrapper)
    attributes = first.codec | (v1.LOG_APPEND_TIME_BIT if time is not None else 0)
    header = bytes((first.magic, attributes))
    if first.magic == v1.MAGIC:
        header += struct.pack(">q", newest if time is None else time)
    value = compress(first.codec, content, broken_lz4=first.magic == 0)
    return message_set.encode_message(chosen[-1][0], header, None, value)


def merged(data: Sequence[bytes], most_bytes: int) -> list[bytes]:
    """Return the frames `data`, with neighbouring wrappers put into one, as KIP-31 words it.

    Wrappers of one codec and timestamp type become one of at most `most_bytes` before compression.
    Raises CorruptBatch.
    """
    made: list[bytes] = []
    run: list[Part] = []
    size = 0

    def end() -> None:
        if run:
            made.append(bytes(run[0].buf) if len(run) == 1 else spliced(run))
        run.clear()

    for frame in data:
        (batch,) = dispatch.batches(frame, verify=False)
        if batch.magic != v1.MAGIC or batch.codec == 0:
            end()
            made.append(frame)
            continue
        offsets = frozenset(record.offset for record in dispatch.records(frame, batch))
        inner, _ = message_set.wrapped(frame, batch, broken_lz4=False)
        if run and (size + len(inner) > most_bytes or not _alike(run[0].wrapper, batch)):
            end()
        size = len(inner) + (size if run else 0)
        run.append(Part(frame, batch, offsets))
    end()
    return made


def _alike(first: Batch, other: Batch) -> bool:
    return (first.codec, first.timestamp_type) == (other.codec, other.timestamp_type)
