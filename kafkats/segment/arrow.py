"""Records of a segment as Arrow record batches, without copying the buffers of `columns`.

COLUMNS lists all columns. The first eight are those of Spark's own Kafka source, with the same
types. The others are ours:

    timestampMs     the record's timestamp as stored, epoch milliseconds; `timestamp` is in
                    microseconds and null where these exceed 64 bits
    segment         base offset of the record's .log
    leaderEpoch, producerId, producerEpoch, sequence, magic, attributes
                    of the record's batch; -1 for fields that magic 0 and 1 lack
    transactional   the batch belongs to a transaction
    control         it is a control record, which brokers write for themselves
    directory       the partition directory that the record was read from
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.formats.v2 import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkats.segment.columns import BatchFields, Binary, Columns, Headers

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
COLUMNS: Final = pa.schema([
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", "UTC")),
    ("timestampType", pa.int32()),      # -1 none (magic 0), 0 CreateTime, 1 LogAppendTime
    ("headers", pa.list_(pa.field("element", _HEADER))),
    ("timestampMs", pa.int64()),
    ("segment", pa.int64()),
    ("leaderEpoch", pa.int32()),
    ("producerId", pa.int64()),
    ("producerEpoch", pa.int32()),
    ("sequence", pa.int32()),
    ("magic", pa.int32()),
    ("attributes", pa.int32()),
    ("transactional", pa.bool_()),
    ("control", pa.bool_()),
    ("directory", pa.string()),
])  # fmt: skip

_OF_BATCH: Final = {
    "leaderEpoch": "leader_epoch",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "sequence": "sequence",
    "magic": "magic",
    "attributes": "attributes",
}
_BITS: Final = {"transactional": TRANSACTIONAL_BIT, "control": CONTROL_BIT}
_MOST_MS: Final = (2**63 - 1) // 1000


class Origin(NamedTuple):
    """The values that all records of a segment share."""

    topic: str
    partition: int
    segment: int
    directory: str


def wanted(names: Collection[str]) -> dict[str, bool]:
    """Return the arguments of `segment.columns.columns` that the columns `names` need."""
    return {
        "key": "key" in names,
        "value": "value" in names,
        "headers": "headers" in names,
        "batch": any(name in names for name in (*_OF_BATCH, *_BITS)),
    }


def record_batch(chunk: Columns, schema: pa.Schema, origin: Origin) -> pa.RecordBatch:
    """Return the rows of `chunk` with the columns of `schema`: some of COLUMNS, in any order.

    List items of `schema` may have other names. Buffers with Arrow's layout are not copied, so the
    batch is valid only as long as the chunk's buffers.
    """
    arrays = [_column(field.name, field.type, chunk, origin) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str, kind: pa.DataType, chunk: Columns, origin: Origin) -> pa.Array:
    if name in ("key", "value"):
        return _binary(getattr(chunk, name), kind)
    if name in Origin._fields:
        return _constant(getattr(origin, name), kind, chunk.rows)
    if name == "headers":
        assert chunk.headers is not None
        return _headers(chunk.headers, kind)
    if name == "timestamp":
        return _microseconds(chunk.timestamp, kind)
    if name in _BITS:
        return pa.array((_fields(chunk).attributes & _BITS[name]) != 0)
    return _numbers(_plain(name, chunk), kind)


def _plain(name: str, chunk: Columns) -> NDArray[np.signedinteger]:
    if name in _OF_BATCH:
        column: NDArray[np.signedinteger] = getattr(_fields(chunk), _OF_BATCH[name])
        return column
    if name == "timestampType":
        return chunk.timestamp_type
    return chunk.timestamp if name == "timestampMs" else chunk.offset


def _fields(chunk: Columns) -> BatchFields:
    assert chunk.batch is not None
    return chunk.batch


def _numbers(values: NDArray[np.signedinteger], kind: pa.DataType) -> pa.Array:
    values = np.ascontiguousarray(values, np.dtype(f"i{kind.bit_width // 8}"))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _microseconds(ms: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """Convert ms to microseconds; null where the result exceeds 64 bits."""
    if int(ms.max()) <= _MOST_MS and int(ms.min()) >= -_MOST_MS:
        return _numbers(ms * 1000, kind)
    held = (ms <= _MOST_MS) & (ms >= -_MOST_MS)
    return pa.array(np.where(held, ms, 0) * 1000, pa.int64(), mask=~held).cast(kind)


def _binary(column: Binary, kind: pa.DataType) -> pa.Array:
    valid = pa.py_buffer(column.valid) if column.nulls else None
    buffers = [valid, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, len(column.offsets) - 1, buffers, column.nulls)


def _headers(headers: Headers, kind: pa.DataType) -> pa.Array:
    """Convert record headers; null for a record without any, as in Spark's Kafka source."""
    some = headers.offsets[1:] > headers.offsets[:-1]
    item = kind.value_type
    keys = _text(_binary(headers.keys, pa.binary()), item.field("key").type)
    entries = pa.StructArray.from_arrays(
        [keys, _binary(headers.values, item.field("value").type)], fields=list(item)
    )
    valid = pa.py_buffer(np.packbits(some, bitorder="little"))
    return pa.Array.from_buffers(
        kind,
        len(some),
        [valid, pa.py_buffer(headers.offsets)],
        len(some) - int(some.sum()),
        children=[entries],
    )


def _text(raw: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert bytes to text; invalid UTF-8 becomes U+FFFD, as in all Kafka readers."""
    try:
        return pc.cast(raw, kind)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], kind)


def _constant(value: str | int, kind: pa.DataType, rows: int) -> pa.Array:
    return _repeated(value, kind, 1 << max(rows - 1, 1).bit_length()).slice(0, rows)


@lru_cache(maxsize=16)
def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def spark_types() -> Mapping[str, str]:
    """Return the type of every column in Spark's DDL."""
    return {field.name: _DDL.get(str(field.type), "") or _HEADERS_DDL for field in COLUMNS}


_DDL: Final = {
    "binary": "binary",
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "timestamp",
}
_HEADERS_DDL: Final = "array<struct<key:string,value:binary>>"
