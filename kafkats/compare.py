"""Two clusters that hold the same topics, by time: where one stands against the other, and where a consumer of the first goes on in the
second without missing anything (KIP-33's use case 3).

A record that the consumer has not read yet has, in the first cluster, a time not before that of the last cell that lies at or below its
committed offset, unless it came late. Every record of a time or later lies in the second cluster at or behind that time's exact answer.
So the second's answer for `margin_ms` earlier misses nothing that came at most that much too late; what lies between comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.errors import BadInput, UsageError
from kafkats.exports import Mark
from kafkats.groups import Committed

DIFF: Final = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("target_ms", pa.int64()),
    ("first_offset", pa.int64()),   # -1: none, as below
    ("first_reason", pa.string()),
    ("second_offset", pa.int64()),
    ("second_reason", pa.string()),
    ("shift", pa.int64()),          # second - first, 0 without both
    ("resume_offset", pa.int64()),  # the second's, by the margin earlier: from there on nothing is missed
    ("resume_reason", pa.string()),
    ("again", pa.int64()),          # offsets from there to the second's own answer: what comes twice, at most
    ("outcome", pa.string()),       # both, only-first, only-second, neither: who has an answer
])  # fmt: skip
"""One row per partition and time that either of them has."""

_ABSENT: Final = "not-covered"
_KEYS: Final = ("topic", "partition")


class _Cells(NamedTuple):
    """Of one partition, ascending in time."""

    times: NDArray[np.int64]
    offsets: NDArray[np.int64]
    reasons: list[str]
    log_start: int
    log_end: int

    def at(self, time: int) -> tuple[int, str]:
        """The answer for just that time."""
        row = int(np.searchsorted(self.times, time))
        found = row < len(self.times) and self.times[row] == time
        return (int(self.offsets[row]), self.reasons[row]) if found else (-1, _ABSENT)

    def before(self, time: int) -> tuple[int, str]:
        """The answer for the last time there is at or before: all records of `time` or later are there or behind it."""
        row = int(np.searchsorted(self.times, time, side="right")) - 1
        return (int(self.offsets[row]), self.reasons[row]) if row >= 0 else (-1, _ABSENT)


def diff(first: pa.Table, second: pa.Table, *, margin_ms: int = 0) -> pa.Table:
    """Rows of DIFF for rows of tables.TABLE or operations.lookup.LOOKUP, by topic, partition and time; special times are left aside.

    Raises UsageError for a margin below 0, BadInput for rows of neither kind and for two answers of one partition and time.
    """
    _check(margin_ms)
    one, other = _cells(first), _cells(second)
    none = _Cells(np.empty(0, np.int64), np.empty(0, np.int64), [], -1, -1)
    rows = [
        dict(zip(_KEYS, key, strict=True)) | row
        for key in sorted(one.keys() | other.keys())
        for row in _differences(one.get(key, none), other.get(key, none), margin_ms)
    ]
    return pa.Table.from_pylist(rows, DIFF)


def _differences(first: _Cells, second: _Cells, margin: int) -> Iterator[dict[str, Any]]:
    for time in np.union1d(first.times, second.times).tolist():
        (a, why_a), (b, why_b) = first.at(time), second.at(time)
        resume, why = second.before(time - margin)
        outcome = ("neither", "only-first", "only-second", "both")[(a >= 0) + 2 * (b >= 0)]
        yield {
            "target_ms": time,
            "first_offset": a,
            "first_reason": why_a,
            "second_offset": b,
            "second_reason": why_b,
            "shift": b - a if outcome == "both" else 0,
            "resume_offset": resume,
            "resume_reason": why,
            "again": b - resume if b >= 0 and resume >= 0 else -1,
            "outcome": outcome,
        }


def failover(committed: Iterable[Committed], first: pa.Table, second: pa.Table, *, margin_ms: int) -> list[Mark]:
    """Where to go on in the second cluster for each committed offset of one group in the first: marks for `exports.export`.

    `target_ms` is the time that was looked for. Where there is no answer the mark says why: nothing committed (`no-commit`), a
    partition that only one of them has, a time before the first cell (`not-covered`); `past-end`: begin at the log end.
    Raises UsageError (a margin below 0, offsets of several groups), BadInput as diff.
    """
    _check(margin_ms)
    committed = list(committed)
    if len({one.group for one in committed}) > 1:
        raise UsageError("offsets of several groups: one fail-over is of one group")
    one, other = _cells(first), _cells(second)
    return [
        _resume(c, one.get((c.topic, c.partition)), other.get((c.topic, c.partition)), margin_ms) for c in committed
    ]


def _resume(committed: Committed, first: _Cells | None, second: _Cells | None, margin: int) -> Mark:
    where = Mark(committed.topic, committed.partition, -1, reason=_ABSENT, broker=False)
    if second is not None:
        where = where._replace(log_start=second.log_start, log_end=second.log_end)
    if committed.offset < 0:
        return where._replace(reason="no-commit", evidence="the group has committed nothing there")
    if first is None or second is None:
        return where._replace(evidence=f"the {'first' if first is None else 'second'} cluster does not have it")
    closed = np.flatnonzero((first.offsets >= 0) & (first.offsets <= committed.offset))
    if not len(closed):
        return where._replace(evidence=f"offset {committed.offset} lies before the first cluster's first cell")
    time = int(first.times[closed[-1]])
    target = time - margin
    offset, reason = second.before(target)
    evidence = f"offset {committed.offset} is of {time} or later, {margin} ms earlier"
    return where._replace(target_ms=target, offset=offset, reason=reason, evidence=evidence, broker=offset >= 0)


def _check(margin_ms: int) -> None:
    if margin_ms < 0:
        raise UsageError(f"a margin of {margin_ms} ms: it must not be negative")


def _cells(rows: pa.Table) -> dict[tuple[str, int], _Cells]:
    """Rows of either kind, by partition."""
    lookup = "target_ms" in rows.schema.names
    try:
        times, offsets, numbers = (
            np.asarray(rows[name].to_numpy(), np.int64)
            for name in ("target_ms" if lookup else "timestamp", "offset", "partition")
        )
        topics = rows["topic"].cast(pa.string()).to_pylist()
        reasons = rows["reason"].cast(pa.string()).to_pylist()
        limits = [
            np.full(len(times), -1) if lookup else np.asarray(rows[name].to_numpy(), np.int64)
            for name in ("log_start_offset", "log_end_offset")
        ]
    except KeyError as e:
        raise BadInput(f"rows of no lookup and no table: {e.args[0]}") from e
    by_partition: dict[tuple[str, int], list[int]] = {}
    for row, key in enumerate(zip(topics, numbers.tolist(), strict=True)):
        by_partition.setdefault(key, []).append(row)
    return {key: _of(key, np.array(rows), times, offsets, reasons, limits) for key, rows in by_partition.items()}


def _of(
    key: tuple[str, int],
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    offsets: NDArray[np.int64],
    reasons: list[str],
    limits: list[NDArray[np.int64]],
) -> _Cells:
    bounds = [int(column[rows].max()) for column in limits]
    for word, side in ((-2, 0), (-1, 1)):  # a lookup may have asked for them
        asked = rows[times[rows] == word]
        if len(asked):
            bounds[side] = int(offsets[asked].max())
    rows = rows[times[rows] >= 0]
    rows = rows[np.argsort(times[rows], kind="stable")]
    if (np.diff(times[rows]) == 0).any():
        raise BadInput(f"{key[0]}-{key[1]} has two answers for one time")
    return _Cells(times[rows], offsets[rows], [reasons[row] for row in rows], *bounds)
