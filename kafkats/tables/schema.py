"""The rows of a table, and how they lie in a Parquet file: plain rows that any reader understands, and that pack well.

Sorted by topic, partition and time, each column repeats or grows. So numbers that grow are kept as differences (DELTA_BINARY_PACKED),
the others by a dictionary, in runs; zstd over both. No row is left out, and none means more than it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TABLE_VERSION: Final = 1

WORDS: Final = pa.dictionary(pa.int32(), pa.string())

TABLE: Final = pa.schema([
    ("topic", WORDS),
    ("partition", pa.int32()),
    ("timestamp", pa.int64()),          # of the cell, ms: a multiple of the table's step
    ("offset", pa.int64()),             # of the first record of that time or later; -1: open
    ("reason", WORDS),                  # search.REASONS, and other-log
    ("record_timestamp", pa.int64()),   # of that record, ms; -1: none
    ("segment", pa.int64()),            # base offset of the one it was found in; -1: none
    ("leader_epoch", pa.int32()),       # of its batch; -1: none
    ("log_start_offset", pa.int64()),   # when the row was built
    ("log_end_offset", pa.int64()),     # likewise; -1: unreadable
    ("table_version", pa.int32()),
])  # fmt: skip
"""One row per partition and step."""

OTHER_LOG: Final = "other-log"
OPEN: Final = {"unreadable": 0, OTHER_LOG: 0, "past-end": 1, "no-timestamps": 1, "above-high-watermark": 1}
"""Reasons without an offset, and what they count for: a cell changes only to one that counts for more."""
CLOSED: Final = 2


class OpenRun(NamedTuple):
    """Open cells of a partition that follow each other: the first, and the one after the last (ms)."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    reason: str


Ints = NDArray[np.int64]


def closed(rows: pa.Table) -> NDArray[np.bool_]:
    """Which rows will never change, shape (n,)."""
    return ints(rows, "offset") >= 0


def standing(rows: pa.Table) -> NDArray[np.int8]:
    """What each row counts for, shape (n,): see OPEN."""
    column = rows["reason"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], WORDS)
    by_code = np.array([OPEN.get(word, CLOSED) for word in column.dictionary.to_pylist()] or [0], np.int8)
    return np.asarray(by_code[column.indices.to_numpy(zero_copy_only=False)])


def ints(rows: pa.Table, name: str) -> Ints:
    """A column of numbers, int64 of shape (n,)."""
    return np.asarray(rows[name].to_numpy(), np.int64)


def normal(rows: pa.Table, known: Mapping[str, Sequence[str]] | None = None) -> pa.Table:
    """The same rows with dictionaries that depend on nothing else: the words that there are, sorted.

    `known` are the words of more rows, sorted, by column: these are then taken for the dictionaries.
    """
    columns: dict[str, Any] = {name: rows[name].combine_chunks() for name in TABLE.names}
    for name in ("topic", "reason"):
        codes, words = word_codes(rows, name)
        if known is not None:
            place = {word: number for number, word in enumerate(known[name])}
            codes = np.array([place[word] for word in words] or [0], np.int32)[codes]
            words = list(known[name])
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words, pa.string()))
    return pa.table([_one(columns[name]) for name in TABLE.names], schema=TABLE)


def word_codes(rows: pa.Table, name: str = "topic") -> tuple[NDArray[np.int32], list[str]]:
    """Each row's topic (or reason) as its number in the sorted list of those there are."""
    column = _one(rows[name].unify_dictionaries())
    words = column.dictionary.to_pylist() if len(column) else []
    codes = column.indices.to_numpy(zero_copy_only=False) if len(column) else np.empty(0, np.int32)
    used = np.flatnonzero(np.bincount(codes, minlength=1))
    present = sorted({words[code] for code in used} if words else ())
    rank = {word: number for number, word in enumerate(present)}
    numbers = np.array([rank.get(word, -1) for word in words] or [0], np.int32)
    return numbers[codes], present


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        )
    return column


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """All rows of tables of TABLE, in the order given."""
    return pa.concat_tables([TABLE.empty_table(), *tables]).unify_dictionaries()


def order(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Row numbers sorted by topic, partition and time (stable), and for each but the first: is it of the same cell as the one before?"""
    codes, _ = word_codes(rows)
    keys = (ints(rows, "timestamp"), ints(rows, "partition"), codes)
    by = np.arange(rows.num_rows) if _ascend(keys) else np.lexsort(keys)
    same = np.ones(max(len(by) - 1, 0), np.bool_)
    for key in keys:
        ordered = key[by]
        same &= ordered[1:] == ordered[:-1]
    return by, same


def _ascend(keys: Sequence[NDArray[np.integer]]) -> bool:
    """Whether rows are sorted by these, the last one first."""
    fine = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        step = np.diff(key)
        fine = (step > 0) | ((step == 0) & fine)
    return bool(fine.all())


def taken(rows: pa.Table, by: NDArray[np.int64]) -> pa.Table:
    """Rows in the order of `by`, which has them all."""
    return rows.combine_chunks() if (np.diff(by) > 0).all() else rows.take(by)
