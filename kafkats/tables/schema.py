"""The rows of a table and their Parquet columns: plain rows that any reader understands.

Rows are sorted by topic, partition and time, so every column repeats or grows, and packs well:
`files` has the encodings. Every cell has its own row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TABLE_VERSION: Final = 1

WORDS: Final = pa.dictionary(pa.int32(), pa.string())

TABLE: Final = pa.schema([
    ("topic", WORDS),
    ("partition", pa.int32()),
    ("timestamp", pa.int64()),         # of the cell, ms: a multiple of the table's step
    ("offset", pa.int64()),            # of the first record of that time or later; -1: open
    ("reason", WORDS),                 # one of search.REASONS, or other-log
    ("record_timestamp", pa.int64()),  # of that record, ms; -1: none
    ("segment", pa.int64()),           # base offset of its segment; -1: none
    ("leader_epoch", pa.int32()),      # of its batch; -1: none
    ("log_start_offset", pa.int64()),  # when the row was built
    ("log_end_offset", pa.int64()),    # when the row was built; -1: unreadable
    ("table_version", pa.int32()),
])  # fmt: skip
"""One row per partition and step."""

OTHER_LOG: Final = "other-log"
OPEN: Final = {
    "unreadable": 0,
    OTHER_LOG: 0,
    "past-end": 1,
    "no-timestamps": 1,
    "above-high-watermark": 1,
}
"""Reasons without an offset and their standing. A new row replaces one of lower standing only."""
CLOSED: Final = 2


class OpenRun(NamedTuple):
    """Adjacent open cells of a partition, from the first to the one after the last (ms)."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int
    reason: str


Ints = NDArray[np.int64]


def closed(rows: pa.Table) -> NDArray[np.bool_]:
    """Return which rows will never change, shape (n,)."""
    return ints(rows, "offset") >= 0


def standing(rows: pa.Table) -> NDArray[np.int8]:
    """Return the standing of each row, shape (n,): see OPEN."""
    column = _one(rows["reason"].unify_dictionaries())
    by_code = np.array(
        [OPEN.get(word, CLOSED) for word in column.dictionary.to_pylist()] or [0], np.int8
    )
    return np.asarray(by_code[column.indices.to_numpy(zero_copy_only=False)])


def ints(rows: pa.Table, name: str) -> Ints:
    """Return a column of numbers as int64, shape (n,)."""
    return np.asarray(rows[name].to_numpy(), np.int64)


def normal(rows: pa.Table, known: Mapping[str, Sequence[str]] | None = None) -> pa.Table:
    """Return the rows with normalized dictionaries: the words in use, sorted.

    `known` are sorted words by column, to use as the dictionaries instead. They must include those
    in use.
    """
    columns = {name: rows[name].combine_chunks() for name in TABLE.names}
    for name in ("topic", "reason"):
        codes, words = word_codes(rows, name)
        if known is not None:
            place = {word: number for number, word in enumerate(known[name])}
            codes = np.array([place[word] for word in words] or [0], np.int32)[codes]
            words = list(known[name])
        columns[name] = pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32()), pa.array(words, pa.string())
        )
    return pa.table([_one(columns[name]) for name in TABLE.names], schema=TABLE)


def word_codes(rows: pa.Table, name: str = "topic") -> tuple[NDArray[np.int32], list[str]]:
    """Return each row's word as a number, and the sorted list of words that the numbers index."""
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
    """Return all rows of tables of TABLE, in the given order."""
    return pa.concat_tables([TABLE.empty_table(), *tables]).unify_dictionaries()


def order(rows: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return row numbers sorted by topic, partition and time (stable), shape (n,).

    Also returns, shape (n - 1,), whether each row but the first is of the same cell as the one
    before.
    """
    codes, _ = word_codes(rows)
    keys = (ints(rows, "timestamp"), ints(rows, "partition"), codes)
    by = np.arange(rows.num_rows) if _ascend(keys) else np.lexsort(keys)
    same = np.ones(max(len(by) - 1, 0), np.bool_)
    for key in keys:
        ordered = key[by]
        same &= ordered[1:] == ordered[:-1]
    return by, same


def _ascend(keys: Sequence[NDArray[np.integer]]) -> bool:
    """Return whether rows are sorted by these keys, of which the last is the primary one."""
    fine = np.ones(max(len(keys[0]) - 1, 0), np.bool_)
    for key in keys:
        step = np.diff(key)
        fine = (step > 0) | ((step == 0) & fine)
    return bool(fine.all())


def taken(rows: pa.Table, by: NDArray[np.int64]) -> pa.Table:
    """Return the rows in the order of `by`, a permutation."""
    return rows.combine_chunks() if (np.diff(by) > 0).all() else rows.take(by)
