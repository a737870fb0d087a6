"""Compare two clusters by time, and find where a consumer continues after a fail-over.

This is KIP-33's use case 3. Take the last cell of the first cluster at or below the consumer's
committed offset: unread records have the time of that cell or later, unless they came late. In the
second cluster every record of that time or later is at or after its exact answer. So the second
cluster's answer for a time `margin_ms` earlier misses no record that came at most that late.
Records in between are read twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.errors import BadInput, UsageError
from kafkats.lookup.consumer_groups import Committed
from kafkats.lookup.marks import Mark, settled
from kafkats.plans.rows import grouped

DIFF: Final = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("target_ms", pa.int64()),
    ("first_offset", pa.int64()),  # -1: none; likewise in the other columns
    ("first_reason", pa.string()),
    ("second_offset", pa.int64()),
    ("second_reason", pa.string()),
    ("shift", pa.int64()),         # second - first, 0 unless both have one
    # the second's, for a time `margin_ms` earlier: only deleted records are missed from there on
    ("resume_offset", pa.int64()),
    ("resume_reason", pa.string()),
    # at most this many offsets are read twice, up to the second's own answer
    ("again", pa.int64()),
    ("outcome", pa.string()),      # who has an answer: both, only-first, only-second, neither
])  # fmt: skip
"""One row per partition and time that either cluster has."""

BY_PARTITION: Final = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("times", pa.int64()),        # the next four columns add up to it
    ("both", pa.int64()),
    ("only_first", pa.int64()),
    ("only_second", pa.int64()),
    ("neither", pa.int64()),
    ("unreadable", pa.int64()),   # in either cluster
    ("least_shift", pa.int64()),  # over times with both answers; 0 without any
    ("most_shift", pa.int64()),
    ("most_again", pa.int64()),   # -1: none
])  # fmt: skip
"""One row per partition of a diff."""

_ABSENT: Final = "not-covered"
_COLUMNS: Final = ("topic", "partition", "offset", "reason")
_LIMITS: Final = ("log_start_offset", "log_end_offset")
_WORDS: Final = {"earliest": 0, "latest": 1}
"""Words of a lookup whose answers are these limits."""
_NUMBERS: Final = {
    -1: "latest",
    -2: "earliest",
    -3: "max-timestamp",
    -4: "earliest-local",
    -5: "latest-tiered",
}
"""Rows of older lookups had no column for words: these numbers stand for words in them."""
_OUTCOMES: Final = pa.array(["neither", "only-first", "only-second", "both"])

Ints = NDArray[np.int64]


class _Rows(NamedTuple):
    """Answers sorted by partition (its number in `_Both.partitions`) and time, each of shape (n,).

    `limits` are log start and log end by partition.
    """

    numbers: Ints
    times: Ints
    offsets: Ints
    reasons: pa.Array
    limits: dict[int, tuple[int, int]]

    def of(self, number: int) -> slice:
        """Return the rows of one partition."""
        begin, end = np.searchsorted(self.numbers, [number, number + 1]).tolist()
        return slice(begin, end)


class _Both(NamedTuple):
    partitions: list[tuple[str, int]]
    first: _Rows
    second: _Rows


def diff(first: pa.Table, second: pa.Table, *, margin_ms: int = 0) -> pa.Table:
    """Return rows of DIFF, by partition and time, for rows of tables.TABLE or lookup.LOOKUP.

    Words (latest, earliest, ...) are not compared. Raises UsageError for a margin below 0, BadInput
    for other rows and for two answers of one partition and time.
    """
    _check(margin_ms)
    both = _aligned(first, second)
    times = _union(both.first.times, both.second.times)
    # The key of a row: its partition, and how many times are at or before its own.
    count = len(times) + 1
    one, other = (
        side.numbers * count + np.searchsorted(times, side.times) + 1 for side in both[1:]
    )
    keys = _union(one, other)
    numbers, at = keys // count, times[keys % count - 1]
    a, why_a = _taken(both.first, _equal(one, keys))
    b, why_b = _taken(both.second, _equal(other, keys))
    early = numbers * count + np.searchsorted(times, at - margin_ms, side="right")
    row = np.searchsorted(other, early, side="right") - 1
    resume, why = _taken(
        both.second, np.where((row >= 0) & (_at(both.second.numbers, row) == numbers), row, -1)
    )
    starts = np.array(
        [both.second.limits.get(n, (-1, -1))[0] for n in range(len(both.partitions))], np.int64
    )[numbers]
    gone = (resume >= 0) & (resume < starts)
    resume, why = np.where(gone, starts, resume), pc.if_else(pa.array(gone), "deleted", why)
    has_a, has_b = a >= 0, b >= 0
    topics = pa.array([topic for topic, _ in both.partitions], pa.string())
    columns = [
        topics.take(pa.array(numbers)),
        np.array([number for _, number in both.partitions], np.int32)[numbers]
        if len(numbers)
        else np.empty(0, np.int32),
        at, a, why_a, b, why_b, np.where(has_a & has_b, b - a, 0), resume, why,
        np.where(has_b & (resume >= 0), np.maximum(b - resume, 0), -1),
        _OUTCOMES.take(pa.array(has_a + 2 * has_b.astype(np.int64))),
    ]  # fmt: skip
    return pa.table([pa.array(column) for column in columns], schema=DIFF)


def _union(one: Ints, other: Ints) -> Ints:
    """Return the numbers of both, sorted, each once.

    np.union1d takes ten times as long for millions of nearly sorted numbers.
    """
    both: Ints = np.sort(np.concatenate((one, other)), kind="stable")
    united: Ints = both[np.concatenate((np.ones(min(len(both), 1), np.bool_), np.diff(both) > 0))]
    return united


def by_partition(rows: pa.Table) -> pa.Table:
    """Summarize rows of DIFF as rows of BY_PARTITION, by topic and partition."""
    outcomes = {
        word.replace("-", "_"): pc.equal(rows["outcome"], word) for word in _OUTCOMES.to_pylist()
    }
    unreadable = pc.or_(
        pc.equal(rows["first_reason"], "unreadable"), pc.equal(rows["second_reason"], "unreadable")
    )
    shift = pc.if_else(outcomes["both"], rows["shift"], pa.scalar(None, pa.int64()))
    counted = {
        name: column.cast(pa.int64())
        for name, column in (outcomes | {"unreadable": unreadable}).items()
    }
    columns = (
        {name: rows[name] for name in ("topic", "partition", "again")} | counted | {"shift": shift}
    )
    wanted = [
        ("again", "count"),
        *((name, "sum") for name in counted),
        ("shift", "min"),
        ("shift", "max"),
        ("again", "max"),
    ]
    sums = grouped(pa.table(columns), ["topic", "partition"], wanted)
    found = {name: sums[f"{name}_sum"] for name in counted} | {
        "topic": sums["topic"],
        "partition": sums["partition"],
        "times": sums["again_count"],
        "least_shift": sums["shift_min"].fill_null(0),
        "most_shift": sums["shift_max"].fill_null(0),
        "most_again": sums["again_max"],
    }
    return pa.table(found, schema=BY_PARTITION).sort_by([
        ("topic", "ascending"),
        ("partition", "ascending"),
    ])


def _equal(sorted_keys: Ints, keys: Ints) -> Ints:
    """Return the index of each key, -1 where it is missing."""
    row = np.searchsorted(sorted_keys, keys)
    return np.where(_at(sorted_keys, row) == keys, row, -1)


def _at(values: Ints, rows: Ints) -> Ints:
    """Return the values at `rows`, -1 for rows outside."""
    inside = (rows >= 0) & (rows < len(values))
    return (
        np.where(inside, values[np.where(inside, rows, 0)], -1)
        if len(values)
        else np.full(len(rows), -1)
    )


def _taken(side: _Rows, rows: Ints) -> tuple[Ints, pa.Array]:
    """Return offsets and reasons of `rows`. Row -1 gives -1 and not-covered."""
    reasons = side.reasons.take(pa.array(np.where(rows >= 0, rows, 0), mask=rows < 0)).fill_null(
        _ABSENT
    )
    return _at(side.offsets, rows), reasons


# ---------------------------------------------------------------- fail-over


def failover(
    committed: Iterable[Committed], first: pa.Table, second: pa.Table, *, margin_ms: int
) -> list[Mark]:
    """Return, per committed offset of a group in the first cluster, where the second continues.

    The results are marks for `exports.export`. `target_ms` is the time that was looked up. A mark
    without an offset gives the reason: nothing committed (`no-commit`); a partition that only one
    cluster has, or a time before the first cell (`not-covered`); `past-end`: begin at the log end.
    Raises UsageError (a margin below 0, offsets of several groups), BadInput as diff.
    """
    _check(margin_ms)
    committed = list(committed)
    if len({one.group for one in committed}) > 1:
        raise UsageError("offsets of several groups: one fail-over is of one group")
    both = _aligned(first, second)
    numbers = {key: number for number, key in enumerate(both.partitions)}
    return [
        _resume(one, both, numbers.get((one.topic, one.partition), -1), margin_ms)
        for one in committed
    ]


def _resume(committed: Committed, both: _Both, number: int, margin: int) -> Mark:
    mine, theirs = both.first.of(number), both.second.of(number)
    limits = both.second.limits.get(number, (-1, -1))
    where = Mark(
        committed.topic, committed.partition, -1, -1, -1, _ABSENT, "", *limits, broker=False
    )
    if committed.offset < 0:
        return where._replace(reason="no-commit", evidence="the group has committed nothing there")
    for rows, which in ((mine, "first"), (theirs, "second")):
        if rows.start == rows.stop:
            return where._replace(evidence=f"the {which} cluster does not have it")
    offsets = both.first.offsets[mine]
    closed = np.flatnonzero((offsets >= 0) & (offsets <= committed.offset))
    if not len(closed):
        return where._replace(
            evidence=f"offset {committed.offset} lies before the first cluster's first cell"
        )
    time = int(both.first.times[mine][closed[-1]])
    evidence = f"offset {committed.offset} is of {time} or later, {margin} ms earlier"
    where = where._replace(target_ms=time - margin, evidence=evidence)
    row = int(np.searchsorted(both.second.times[theirs], time - margin, side="right")) - 1
    if row < 0:
        return where
    offset = int(both.second.offsets[theirs][row])
    reason = both.second.reasons[theirs.start + row].as_py()
    return settled(where._replace(offset=offset, reason=reason, broker=offset >= 0))


def _check(margin_ms: int) -> None:
    if margin_ms < 0:
        raise UsageError(f"a margin of {margin_ms} ms: it must not be negative")


# ---------------------------------------------------------------- rows of either kind


def _aligned(first: pa.Table, second: pa.Table) -> _Both:
    one, other = _plain(first), _plain(second)
    keys = pa.concat_tables([one.select(_COLUMNS[:2]), other.select(_COLUMNS[:2])])
    pairs = grouped(keys, _COLUMNS[:2]).sort_by([(name, "ascending") for name in _COLUMNS[:2]])
    partitions = list(zip(pairs["topic"].to_pylist(), pairs["partition"].to_pylist(), strict=True))
    topics = sorted({topic for topic, _ in partitions})
    known = _codes(pairs, topics)
    return _Both(partitions, _sorted(one, topics, known), _sorted(other, topics, known))


def _codes(rows: pa.Table, topics: list[str]) -> Ints:
    """Return topic and partition as one number of the same order."""
    topic = np.asarray(
        pc.index_in(rows["topic"], pa.array(topics, pa.string())).to_numpy(), np.int64
    )
    return (topic << 32) + np.asarray(rows["partition"].to_numpy(), np.int64)


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows with plain topics and reasons, and one name for the time."""
    names = rows.schema.names
    time = "target_ms" if "target_ms" in names else "timestamp"
    if absent := {*_COLUMNS, time} - set(names):
        raise BadInput(f"rows of no lookup and no table: without {', '.join(sorted(absent))}")
    limits = [name for name in _LIMITS if name in names]
    columns = {name: rows[name] for name in (*_COLUMNS, *limits)}
    columns |= {name: rows[name].cast(pa.string()) for name in ("topic", "reason")}
    return pa.table(columns | {"time": rows[time], "word": _words(rows, time)})


def _words(rows: pa.Table, time: str) -> pa.ChunkedArray | pa.Array:
    """Return the word that each row answers, "" for an instant."""
    if "word" in rows.schema.names:
        return rows["word"]
    if time != "target_ms":  # cells of a table
        return pa.array([""] * rows.num_rows, pa.string())
    return pa.array([_NUMBERS.get(number, "") for number in rows[time].to_pylist()], pa.string())


def _sorted(rows: pa.Table, topics: list[str], known: Ints) -> _Rows:
    numbers = np.searchsorted(known, _codes(rows, topics))
    times, offsets = (np.asarray(rows[name].to_numpy(), np.int64) for name in ("time", "offset"))
    limits = _limits(rows, numbers, offsets)
    by = np.lexsort((times, numbers))
    words = np.asarray(pc.equal(rows["word"], "").to_numpy(zero_copy_only=False))
    by = by[words[by]]
    numbers, times = numbers[by], times[by]
    twice = (np.diff(numbers) == 0) & (np.diff(times) == 0)
    if twice.any():
        row = by[int(np.argmax(twice))]
        raise BadInput(
            f"{rows['topic'][row]}-{rows['partition'][row]} has two answers for one time"
        )
    return _Rows(
        numbers, times, offsets[by], rows["reason"].take(pa.array(by)).combine_chunks(), limits
    )


def _limits(rows: pa.Table, numbers: Ints, offsets: Ints) -> dict[int, tuple[int, int]]:
    """Return log start and log end by partition number, from limit columns or answers for words."""
    count = int(numbers.max()) + 1 if len(numbers) else 0
    ends = np.full((2, count), -1, np.int64)
    for side, name in enumerate(_LIMITS):
        if name in rows.schema.names:
            np.maximum.at(ends[side], numbers, np.asarray(rows[name].to_numpy(), np.int64))
    for word, side in _WORDS.items():
        of_word = np.asarray(pc.equal(rows["word"], word).to_numpy(zero_copy_only=False))
        np.maximum.at(ends[side], numbers[of_word], offsets[of_word])
    return dict(enumerate(zip(*ends.tolist(), strict=True)))
