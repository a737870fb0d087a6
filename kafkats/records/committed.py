"""Filter records for isolation level read_committed.

The filter removes the records of aborted transactions, and all records from the first offset of the
oldest open transaction on. A consumer's last stable offset is never above the high watermark; here
the log counts up to its end, as everywhere in this source (docs/spark-source.md).

As for brokers, the .txnindex files name the aborted transactions. If the log holds an ABORT marker
of a transaction that they lack, its aborted records would appear as committed. This is an error; it
is detected when records and marker lie in the same piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats import paths
from kafkats.errors import CorruptIndex, Vanished
from kafkats.formats.control import ControlType
from kafkats.formats.v2 import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkats.index import txn_index
from kafkats.logdir.producers import producers_at
from kafkats.segment.columns import Columns


class Aborted(NamedTuple):
    """An aborted transaction: its producer id, its first offset, and the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


def aborted_transactions(directory: Path, bases: Iterable[int]) -> Iterator[Aborted]:
    """Yield the aborted transactions in the .txnindex files of these segments.

    Raises CorruptIndex, StorageFailed.
    """
    for base in bases:
        try:
            entries = txn_index.read(directory / paths.segment_file(base, paths.TXN_INDEX))
        except Vanished:
            continue  # a segment without aborted transactions has no such file
        for entry in entries.tolist():
            yield Aborted(*entry[1:4])


def last_stable_offset(directory: Path) -> int | None:
    """Return the first offset of the oldest open transaction, or None if none is open.

    Reads the last producer snapshot and the log after it. Raises CorruptBatch, Changed,
    StorageFailed.
    """
    firsts = [
        p.txn_first_offset
        for p in producers_at(directory, 2**63 - 1).values()
        if p.txn_first_offset >= 0
    ]
    return min(firsts, default=None)


class Transactions:
    """The transaction filter for one piece; the caller passes its chunks in order."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._aborted = np.array(list(aborted), np.int64).reshape(-1, 3)
        self._known = {(producer, last) for producer, _, last in self._aborted.tolist()}
        self._open: dict[int, int] = {}
        """Producer id -> first offset seen of its transaction, until its marker is seen."""

    def committed(self, chunk: Columns, *, control: bool) -> NDArray[np.bool_]:
        """Return which rows to keep; `control` keeps all control records, otherwise none.

        Raises CorruptIndex for an abort that no index names.
        """
        assert chunk.batch is not None
        attributes, producers = chunk.batch.attributes, chunk.batch.producer_id
        marker = (attributes & CONTROL_BIT) != 0
        keep = np.ones(chunk.rows, np.bool_) if control else ~marker
        inside = (attributes & TRANSACTIONAL_BIT) != 0
        if not inside.any():
            return keep
        data = inside & ~marker
        low, high = int(chunk.offset[0]), int(chunk.offset[-1])
        here = (self._aborted[:, 1] <= high) & (self._aborted[:, 2] >= low)
        for producer, begin, end in self._aborted[here].tolist():
            first, behind = np.searchsorted(chunk.offset, [begin, end + 1])
            keep[first:behind] &= ~(data[first:behind] & (producers[first:behind] == producer))
        self._hold_markers(chunk, data, np.flatnonzero(inside & marker))
        return keep

    def _hold_markers(
        self, chunk: Columns, data: NDArray[np.bool_], markers: NDArray[np.int64]
    ) -> None:
        """Raise CorruptIndex unless every ABORT marker with records before it is in an index."""
        assert chunk.batch is not None
        producers = chunk.batch.producer_id
        began = 0
        for row in markers.tolist():
            self._see(chunk, data, began, row)
            producer, offset = int(producers[row]), int(chunk.offset[row])
            first = self._open.pop(producer, None)
            if (
                first is not None
                and (producer, offset) not in self._known
                and _is_abort(chunk, row)
            ):
                raise CorruptIndex(
                    f"the log aborts the transaction of producer {producer} with offset"
                    f" {first} at offset {offset}, and no "
                    ".txnindex knows of it: what was committed cannot be told"
                )
            began = row + 1
        self._see(chunk, data, began, chunk.rows)

    def _see(self, chunk: Columns, data: NDArray[np.bool_], began: int, behind: int) -> None:
        assert chunk.batch is not None
        rows = began + np.flatnonzero(data[began:behind])
        if rows.size:
            producers, first = np.unique(chunk.batch.producer_id[rows], return_index=True)
            for producer, at in zip(producers.tolist(), first.tolist(), strict=True):
                self._open.setdefault(producer, int(chunk.offset[rows[at]]))


def _is_abort(chunk: Columns, row: int) -> bool:
    assert chunk.key is not None
    begin, end = chunk.key.offsets[row], chunk.key.offsets[row + 1]
    key = chunk.key.data[begin:end].tobytes()
    return len(key) >= 4 and int.from_bytes(key[2:4], "big") == ControlType.ABORT
