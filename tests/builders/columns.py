"""Records of a segment by the column reader, and the same by the plain decoders."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Batch, Header, Record, TimestampType
from kafkats.kernels import headers_state as k
from kafkats.segment.columns import Binary, Columns, columns
from kafkats.segment.reader import Source

Fields = tuple[int, int, int, int, int, int]


def entries(column: Binary) -> list[bytes | None]:
    """As Python values; the bits and the count of nulls must agree."""
    count = len(column.offsets) - 1
    valid = np.unpackbits(column.valid, count=count, bitorder="little")
    data = column.data.tobytes()
    assert (count - int(valid.sum())) == column.nulls
    assert column.offsets[0] == 0
    assert column.offsets[-1] == len(data)
    spans = zip(
        column.offsets[:-1].tolist(), column.offsets[1:].tolist(), valid.tolist(), strict=True
    )
    return [data[a:b] if there else None for a, b, there in spans]


def as_records(chunk: Columns) -> list[Record]:
    assert chunk.key is not None and chunk.value is not None and chunk.headers is not None
    offsets = chunk.headers.offsets.tolist()
    names, values = entries(chunk.headers.keys), entries(chunk.headers.values)
    headers = [
        Header((name or b"").decode("utf-8", "replace"), v)
        for name, v in zip(names, values, strict=True)
    ]
    rows = zip(
        chunk.offset.tolist(), chunk.timestamp.tolist(), map(TimestampType, chunk.timestamp_type.tolist()),
        entries(chunk.key), entries(chunk.value), (tuple(headers[a:b]) for a, b in pairwise(offsets)), strict=True,
    )  # fmt: skip
    found = [Record(*row) for row in rows]
    assert len(found) == chunk.rows > 0
    return found


def read(source: Source, **options: Any) -> tuple[list[Record], list[Fields], CorruptBatch | None]:
    """Records, their batches' fields, and the error at the end."""
    records: list[Record] = []
    fields: list[Fields] = []
    try:
        for chunk in columns(source, batch=True, **options):
            records += as_records(chunk)
            assert chunk.batch is not None
            fields += zip(*(column.tolist() for column in chunk.batch), strict=True)
    except CorruptBatch as e:
        return records, fields, e
    return records, fields, None


def believed(
    log: bytes, *, control: bool = True
) -> tuple[list[Record], list[Fields], CorruptBatch | None]:
    """The same by the plain decoders."""
    records: list[Record] = []
    fields: list[Fields] = []
    try:
        for batch in dispatch.batches(log):
            found = dispatch.records(log, batch)
            if control or not batch.control:
                records += found
                fields += [_fields(batch, record) for record in found]
    except CorruptBatch as e:
        return records, fields, e
    return records, fields, None


def _fields(batch: Batch, record: Record) -> Fields:
    sequence = -1
    if batch.base_sequence >= 0:
        sequence = batch.base_sequence + record.offset - batch.base_offset
        sequence -= 2**31 if sequence >= 2**31 else 0
    return (
        batch.magic, batch.attributes, batch.leader_epoch, batch.producer_id, batch.producer_epoch, sequence
    )  # fmt: skip


def expected(batch: Batch) -> list[int]:
    wrapper = batch.magic < 2 and batch.codec
    return [
        batch.position,
        batch.size,
        batch.magic,
        batch.attributes,
        k.UNKNOWN if wrapper else batch.base_offset,
        batch.last_offset,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
        batch.leader_epoch,
    ]
