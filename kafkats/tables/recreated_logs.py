"""Detect logs that replaced the log of a table: a topic was created again, or a log was truncated.

Within one log offsets never fall with time and are never used again. Two signs show another log: a
cell that would be closed with an offset below that of an earlier closed cell, and a log that ends
at or below a closed offset. Answers from another log must not be mixed with the others, so these
cells stay open with the reason `other-log`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.tables.runs import Run, Scratch, joined, merged
from kafkats.tables.schema import (
    OTHER_LOG,
    TABLE,
    Ints,
    closed,
    ints,
    order,
    together,
    word_codes,
)
from kafkats.tables.store import Part

_ANSWER = ("offset", "record_timestamp", "segment", "leader_epoch")


def without_other_logs(
    new: Run, parts: Sequence[Part], read: Callable[[Part], Run], scratch: Scratch
) -> tuple[Run, list[str]]:
    """Return the `new` rows of TABLE, with cells of other logs opened, and the reasons.

    `parts` are the table's files in order. `read` returns the rows of one file. It is called for
    the files next to the new rows and for the last.
    """
    beside = [read(part) for part in _beside(new, parts)]
    if not beside:
        return new, []
    watch = _Watch()
    old = joined(beside, scratch)
    for before, after in merged([old, new]):
        watch.see(before, after)
    recreated = watch.end()
    if not recreated:
        return new, []
    return Run(
        new.rows, lambda: (_opened(chunk, _is_of(chunk, recreated)) for chunk in new.chunks())
    ), [f"{topic}-{number}: {why}" for (topic, number), why in sorted(recreated.items())]


def _is_of(rows: pa.Table, keys: Collection[tuple[str, int]]) -> pa.Array:
    return pa.array([
        key in keys
        for key in zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True)
    ])


def _beside(new: Run, parts: Sequence[Part]) -> list[Part]:
    """Return the files that the new rows belong to, the files before these, and the last file."""
    if not parts or not new.rows:
        return []
    begins = [part.from_ms for part in parts]
    at: set[int] = set()
    for chunk in new.chunks():
        at.update(
            np.unique(np.searchsorted(begins, ints(chunk, "timestamp"), side="right") - 1).tolist()
        )
    wanted = {*at, *(number - 1 for number in at), len(parts) - 1} - {-1, -2}
    return [parts[number] for number in sorted(wanted)]


@dataclass
class _Log:
    """The answers of one partition seen so far. Rows come in order of time."""

    offset: int = -1
    """The offset of the last closed cell, old or new."""
    newest: int = -1
    """The largest offset in the table."""
    end: int = -1
    """The log end offset in the new rows."""
    falls: bool = False
    """Whether a new offset is below the one before it in time."""


class _Watch:
    """Finds the partitions whose new rows cannot come from the log of the old rows."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], _Log] = {}
        self.found: dict[tuple[str, int], str] = {}

    def see(self, old: pa.Table, new: pa.Table) -> None:
        """Take the old and new rows of the next cells, in order."""
        old = old.filter(pa.array(closed(old)))
        rows = together([old, new])
        by, _ = order(rows)
        codes, topics = word_codes(rows)
        codes, numbers, offsets = codes[by], ints(rows, "partition")[by], ints(rows, "offset")[by]
        ends, fresh = ints(rows, "log_end_offset")[by], by >= old.num_rows
        changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(numbers) != 0)) + 1
        edges = [0, *changes.tolist(), len(by)] if len(by) else []
        for begin, end in pairwise(edges):
            some = slice(begin, end)
            self._add(
                (topics[codes[begin]], int(numbers[begin])), offsets[some], ends[some], fresh[some]
            )

    def _add(
        self, key: tuple[str, int], offsets: Ints, ends: Ints, fresh: NDArray[np.bool_]
    ) -> None:
        log = self.logs.get(key)
        if log is None:
            self._judge()
            log = self.logs[key] = _Log()
        known = offsets >= 0
        values = np.concatenate(([log.offset], offsets[known]))
        log.falls |= bool(((np.diff(values) < 0) & fresh[known]).any())
        log.offset = int(values[-1])
        log.newest = max(log.newest, int(offsets[~fresh].max(initial=-1)))
        log.end = max(log.end, int(ends[fresh].max(initial=-1)))

    def _judge(self) -> None:
        """Judge all partitions seen so far. Rows are sorted, so nothing more of them follows."""
        for key, log in self.logs.items():
            if 0 <= log.end <= log.newest:
                self.found[key] = (
                    f"its log ends at {log.end}, and the table has offset {log.newest} of an"
                    " earlier one"
                )
            elif log.falls:
                self.found[key] = (
                    f"its offsets begin again below {log.newest}, which the table has of an"
                    " earlier log"
                )
        self.logs.clear()

    def end(self) -> dict[tuple[str, int], str]:
        self._judge()
        return self.found


def _opened(rows: pa.Table, which: pa.Array) -> pa.Table:
    """Return the rows, with the answer removed from those that `which` selects."""
    words = pc.if_else(which, pa.scalar(OTHER_LOG), rows["reason"].cast(pa.string()))
    opened = {
        name: pc.if_else(which, pa.scalar(-1, rows[name].type), rows[name]) for name in _ANSWER
    }
    opened["reason"] = words.dictionary_encode().cast(TABLE.field("reason").type)
    return pa.table([opened.get(name, rows[name]) for name in TABLE.names], schema=TABLE)
