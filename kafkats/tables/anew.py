"""Logs that are not those a table tells of: a topic was deleted and made anew, or a log was cut below what is closed.

Offsets of one log never fall with time, and never come again: a cell that would be closed below an earlier closed one, and a log that
ends at or below a closed offset, are another log's. Its answers do not belong between the others; the cells stay open, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.tables.schema import OTHER_LOG, TABLE, closed, ints, order, together, word_codes
from kafkats.tables.store import Part

_ANSWER = ("offset", "record_timestamp", "segment", "leader_epoch")


def without_other_logs(
    new: pa.Table, parts: Sequence[Part], read: Callable[[Part], pa.Table]
) -> tuple[pa.Table, list[str]]:
    """`new` rows of TABLE with those of other logs open, as `other-log`; and these partitions, with why.

    `parts` are the table's, in order; of them `read` gives the rows of those that lie next to the new ones, and of the last.
    """
    found: dict[tuple[str, int], str] = {}
    for part in _beside(new, parts):
        for key, why in _of_others(read(part), new).items():
            found.setdefault(key, why)
    if not found:
        return new, []
    keys = zip(new["topic"].to_pylist(), new["partition"].to_pylist(), strict=True)
    return _opened(new, pa.array([key in found for key in keys])), [
        f"{topic}-{number}: {why}" for (topic, number), why in sorted(found.items())
    ]


def _beside(new: pa.Table, parts: Sequence[Part]) -> list[Part]:
    """The files that new rows fall into, the ones before these, and the last."""
    if not parts or not new.num_rows:
        return []
    times = np.unique(ints(new, "timestamp"))
    at = np.unique(np.searchsorted([part.from_ms for part in parts], times, side="right") - 1)
    wanted = {*at.tolist(), *(at - 1).tolist(), len(parts) - 1} - {-1, -2}
    return [parts[number] for number in sorted(wanted)]


def _of_others(old: pa.Table, new: pa.Table) -> dict[tuple[str, int], str]:
    """The partitions whose new rows cannot be of the log that the old rows are of."""
    old = old.filter(pa.array(closed(old)))
    rows = together([old, new])
    by, _ = order(rows)
    codes, topics = word_codes(rows)
    codes, numbers, offsets = codes[by], ints(rows, "partition")[by], ints(rows, "offset")[by]
    ends, fresh = ints(rows, "log_end_offset")[by], by >= old.num_rows
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(numbers) != 0)) + 1
    begins = np.concatenate(([0], changes)) if len(by) else changes
    group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(by))))
    falls = _falls(group, offsets, fresh)
    newest = np.maximum.reduceat(np.where(fresh, -1, offsets), begins) if len(by) else offsets
    end = np.maximum.reduceat(np.where(fresh, ends, -1), begins) if len(by) else offsets
    found = {}
    for number in np.flatnonzero(((end >= 0) & (end <= newest)) | falls[: len(begins)]).tolist():
        where = begins[number]
        why = f"its log ends at {end[number]}, and the table has offset {newest[number]} of an earlier one"
        if end[number] > newest[number]:
            why = f"its offsets begin again below {newest[number]}, which the table has of an earlier log"
        found[topics[codes[where]], int(numbers[where])] = why
    return found


def _falls(group: NDArray[np.int64], offsets: NDArray[np.int64], fresh: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each group whether a fresh answer lies below the one before it in time."""
    known = np.flatnonzero(offsets >= 0)
    group_of, values = group[known], offsets[known]
    below = (group_of[1:] == group_of[:-1]) & (values[1:] < values[:-1]) & fresh[known][1:]
    found = np.zeros(int(group[-1]) + 1 if len(group) else 0, np.bool_)
    found[group_of[1:][below]] = True
    return found


def _opened(rows: pa.Table, which: pa.Array) -> pa.Table:
    """Those rows without their answers."""
    for name in _ANSWER:
        kind = TABLE.field(name).type
        rows = rows.set_column(
            TABLE.get_field_index(name), TABLE.field(name), pc.if_else(which, pa.scalar(-1, kind), rows[name])
        )
    words = pc.if_else(which, pa.scalar(OTHER_LOG), rows["reason"].cast(pa.string()))
    field = TABLE.field("reason")
    return rows.set_column(TABLE.get_field_index("reason"), field, words.dictionary_encode().cast(field.type))
