"""Compare the records of two segments, independent of batching, compression and magic.

A digest is a hash (kafkats.hashes) over the hashes of all columns. So windows and batches do not
affect it.
The columns are: offsets, timestamps, timestamp types, lengths and bytes of keys and of values,
numbers of headers, lengths and bytes of header keys and values. Lengths are int32 with -1 for null,
so null, empty values and record boundaries are distinct. All numbers are little endian. The digest
covers the profile itself, and leaves out the columns that the profile excludes. The timestamp type
NONE (magic 0) counts as CreateTime, because conversion turns it into that.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.formats.model import TimestampType
from kafkats.hashes import Hash, hash_bytes
from kafkats.segment.columns import Binary, Columns, columns
from kafkats.segment.reader import Source

_SHOWN: Final = 24
"""Bytes of a key or value that a difference shows."""

Column = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int8] | NDArray[np.uint8]


class Parity(NamedTuple):
    """The number of records, and a digest of everything in them that the profile includes."""

    records: int
    digest: str


class Difference(NamedTuple):
    """The first record that differs: its offset, the field, and both values.

    The offset is that of the old record if it exists.
    """

    offset: int
    what: str
    """record (one side has none), offset, timestamp, timestamp type, key, value or headers."""
    old: str
    new: str


class Profile(NamedTuple):
    """The fields that count besides offsets, order, keys and values.

    `timestamps`: timestamps and their types; `headers`: record headers; `control`: the records of
    control batches.
    """

    timestamps: bool
    headers: bool
    control: bool


def digest_records(
    source: Source,
    *,
    timestamps: bool,
    headers: bool,
    control: bool,
    start: int = 0,
    end: int | None = None,
) -> Parity:
    """Return the digest of the records from position `start` to `end`, in file order; see Profile.

    The default of `end` is the quiet end of the log. Raises CorruptBatch with its position, Changed
    (truncated meanwhile), Vanished, StorageFailed.
    """
    digest = _Digest(Profile(timestamps, headers, control))
    for chunk in columns(source, start=start, end=end, headers=headers, control=control):
        digest.add(chunk)
    return digest.parity()


def first_difference(
    old: Source,
    new: Source,
    *,
    timestamps: bool,
    headers: bool,
    control: bool,
    old_end: int | None = None,
    new_end: int | None = None,
) -> Difference | None:
    """Return the first record, in file order, that differs under the profile, or None.

    None means that the digests are equal. Raises as digest_records.
    """
    sides = (
        columns(old, end=old_end, headers=headers, control=control),
        columns(new, end=new_end, headers=headers, control=control),
    )
    return _compare(*sides, timestamps=timestamps)


class _Digest:
    """The digests of all columns, updated chunk by chunk."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._records = 0
        self._sums = {name: Hash() for name in _names(profile.timestamps, profile.headers)}

    def add(self, chunk: Columns) -> None:
        self._records += chunk.rows
        for name, column in _streams(chunk, self._profile.timestamps):
            self._sums[name].update(column.view(np.uint8).data)

    def parity(self) -> Parity:
        flags = " ".join(f"{name}={flag:d}" for name, flag in self._profile._asdict().items())
        lines = (
            f"records {flags} {self._records}",
            *(f"{name} {one.text()}" for name, one in self._sums.items()),
        )
        return Parity(self._records, hash_bytes("\n".join(lines).encode()))


def _compare(
    old: Iterator[Columns], new: Iterator[Columns], *, timestamps: bool
) -> Difference | None:
    for left, at, right, to, rows in _side_by_side(old, new):
        if left is None or right is None:
            return _one_is_over(left, at, right, to)
        if not _same(left, at, right, to, rows, timestamps):
            row = bisect_left(
                range(1, rows), True, key=partial(_differ, left, at, right, to, timestamps)
            )
            offset = int(left.offset[at + row])
            return _difference(offset, _row(left, at + row), _row(right, to + row), timestamps)
    return None


def _differ(left: Columns, at: int, right: Columns, to: int, timestamps: bool, rows: int) -> bool:
    return not _same(left, at, right, to, rows, timestamps)


def _names(timestamps: bool, headers: bool) -> list[str]:
    names = ["offset", "key lengths", "key", "value lengths", "value"]
    names += ["timestamp", "timestamp type"] if timestamps else []
    names += (
        ["headers", "header key lengths", "header key", "header value lengths", "header value"]
        if headers
        else []
    )
    return names


def _streams(
    chunk: Columns, timestamps: bool, start: int = 0, rows: int | None = None
) -> Iterator[tuple[str, Column]]:
    """Yield (column name, values) of `rows` rows from `start` on, for the columns' digests."""
    end = chunk.rows if rows is None else start + rows
    assert chunk.key is not None and chunk.value is not None
    yield "offset", chunk.offset[start:end]
    yield from _binary("key", chunk.key, start, end)
    yield from _binary("value", chunk.value, start, end)
    if timestamps:
        yield "timestamp", chunk.timestamp[start:end]
        yield "timestamp type", np.maximum(chunk.timestamp_type[start:end], np.int8(0))
    if chunk.headers is not None:
        yield "headers", np.diff(chunk.headers.offsets[start : end + 1])
        first, last = int(chunk.headers.offsets[start]), int(chunk.headers.offsets[end])
        yield from _binary("header key", chunk.headers.keys, first, last)
        yield from _binary("header value", chunk.headers.values, first, last)


def _binary(name: str, column: Binary, start: int, end: int) -> Iterator[tuple[str, Column]]:
    """Yield the lengths (int32, -1 for null) and the bytes of entries `start` to `end`."""
    lengths = np.diff(column.offsets[start : end + 1])
    if column.nulls:
        lengths[np.unpackbits(column.valid, count=end, bitorder="little")[start:] == 0] = -1
    yield f"{name} lengths", lengths
    yield name, column.data[column.offsets[start] : column.offsets[end]]


def _same(left: Columns, at: int, right: Columns, to: int, rows: int, timestamps: bool) -> bool:
    pairs = zip(
        _streams(left, timestamps, at, rows), _streams(right, timestamps, to, rows), strict=True
    )
    return all(np.array_equal(a, b) for (_, a), (_, b) in pairs)


def _side_by_side(
    old: Iterator[Columns], new: Iterator[Columns]
) -> Iterator[tuple[Columns | None, int, Columns | None, int, int]]:
    """Yield (chunk, first row, chunk, first row, rows): ranges of both sides with the same length.

    At the end, a side that has no more rows is None.
    """
    left, right, at, to = next(old, None), next(new, None), 0, 0
    while left is not None and right is not None:
        rows = min(left.rows - at, right.rows - to)
        yield left, at, right, to, rows
        at, to = at + rows, to + rows
        if at == left.rows:
            left, at = next(old, None), 0
        if to == right.rows:
            right, to = next(new, None), 0
    if left is not None or right is not None:
        yield left, at, right, to, 0


def _one_is_over(left: Columns | None, at: int, right: Columns | None, to: int) -> Difference:
    if left is not None:
        return Difference(int(left.offset[at]), "record", f"offset {left.offset[at]}", "none")
    assert right is not None
    return Difference(int(right.offset[to]), "record", "none", f"offset {right.offset[to]}")


_Headers = list[tuple[bytes | None, bytes | None]]
_Value = int | bytes | _Headers | None


def _row(chunk: Columns, row: int) -> dict[str, _Value]:
    assert chunk.key is not None and chunk.value is not None
    headers = []
    if chunk.headers is not None:
        entries = range(chunk.headers.offsets[row], chunk.headers.offsets[row + 1])
        headers = [
            (_bytes(chunk.headers.keys, n), _bytes(chunk.headers.values, n)) for n in entries
        ]
    return {
        "offset": int(chunk.offset[row]),
        "timestamp": int(chunk.timestamp[row]),
        "timestamp type": max(int(chunk.timestamp_type[row]), TimestampType.CREATE_TIME),
        "key": _bytes(chunk.key, row),
        "value": _bytes(chunk.value, row),
        "headers": headers,
    }


def _bytes(column: Binary, entry: int) -> bytes | None:
    if not column.valid[entry >> 3] >> (entry & 7) & 1:
        return None
    return column.data[column.offsets[entry] : column.offsets[entry + 1]].tobytes()


def _difference(
    offset: int, old: dict[str, _Value], new: dict[str, _Value], timestamps: bool
) -> Difference:
    times = () if timestamps else ("timestamp", "timestamp type")
    what = next(name for name in old if name not in times and old[name] != new[name])
    return Difference(offset, what, _shown(what, old[what]), _shown(what, new[what]))


def _shown(what: str, value: _Value) -> str:
    if what == "timestamp type":
        return "LogAppendTime" if value == TimestampType.LOG_APPEND_TIME else "CreateTime"
    if isinstance(value, list):
        return ", ".join(f"{_in_words(key)}: {_in_words(data)}" for key, data in value) or "none"
    return str(value) if isinstance(value, int) else _in_words(value)


def _in_words(data: bytes | None) -> str:
    """Return length and bytes; for long data the first bytes and a digest."""
    if data is None:
        return "null"
    if len(data) <= _SHOWN:
        return f"{len(data)} bytes {data.hex()}".rstrip()
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"{len(data)} bytes {data[:_SHOWN].hex()}..., sha256 {digest}"
