"""The vetoes: why kafkats keeps segments that Kafka would delete, as a sentence per row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkats.config.policy import Guard, Policy
from kafkats.config.settings import TopicSettings
from kafkats.plans.rows import PartitionKey
from kafkats.retention.columns import Flags, running_max
from kafkats.retention.evidence import Facts
from kafkats.retention.reasons import Ints

Sentences: TypeAlias = NDArray[np.object_]
"""An array of str."""

_LAST: Final = "the last "


def keeps_last(veto: str) -> bool:
    """Return whether a veto says only that the last segments of a partition stay."""
    return veto.startswith(_LAST)


def refusals(
    facts: Facts, policy: Policy, elsewhere: Mapping[PartitionKey, str], *, limit_given: bool
) -> Sentences:
    """Return, per partition, why nothing may be deleted, or "".

    `elsewhere` has further reasons.
    """
    why = {
        topic: "legal hold"
        if settings.kafkats_legal_hold
        else policy.why_kept(topic, limit_given=limit_given)
        for topic, settings in facts.settings.items()
    }
    where = map(PartitionKey, facts.log_dir, facts.partition_dir)
    return _texts(
        why[topic] or elsewhere.get(partition, "")
        for topic, partition in zip(facts.topic, where, strict=True)
    )


def lasting(facts: Facts, refused: Sentences, *, last_segment: bool) -> Sentences:
    """Return, per row, why it is never deleted at any age, or "".

    Its partition is refused, or it is one of the last segments.
    """
    rows = facts.rows
    counts = [
        facts.settings[topic].kafkats_keep_segments or int(not last_segment)
        for topic in facts.topic
    ]
    stay = _texts(
        f"{_LAST}{count} segments stay" if count > 1 else f"{_LAST}segment stays"
        for count in counts
    )
    last = np.arange(len(rows.of)) >= (rows.ends - np.array(counts, np.int64))[rows.of]
    return np.where((refused == "")[rows.of] & last, stay[rows.of], refused[rows.of])


def unnamed(facts: Facts, policy: Policy) -> Sentences:
    """Return, per partition, which of the broker's limits are not explicit for its topic, or ""."""
    why = {topic: policy.not_explicit(topic) for topic in facts.settings}
    return _texts(why[topic] for topic in facts.topic)


def vetoes(
    facts: Facts,
    deletes: Flags,
    allowed: Flags,
    lasts: Sentences,
    missing: Sentences,
    *,
    over_guard: bool,
) -> Sentences:
    """Return, per row, why it is kept although Kafka deletes it; later rows are kept with it.

    `allowed` is what Kafka would delete by explicit limits alone. `lasts` and `missing` are the
    results of `lasting` and `unnamed`.
    """
    rows, of, row = facts.rows, facts.rows.of, np.arange(len(deletes))
    settings = [facts.settings[topic] for topic in facts.topic]
    freed = rows.running_sum(facts.family_bytes)
    totals = zip(settings, freed[rows.ends - 1].tolist(), strict=True)
    guards = [(np.inf, np.inf) if over_guard else _guard(one, total) for one, total in totals]
    share, most = np.array(guards, float).reshape(-1, 2)[of].T
    last = row == (rows.ends - 1)[of]
    causes: dict[str, Flags] = {
        "its log start offset lies above its log end": (
            facts.log_start_offset > facts.segments.end_offset[rows.ends - 1]
        )[of],
        "its log end is not known": last & ~(facts.end_known[of] & facts.segments.trusted),
        "its log end lies below the high watermark": last
        & (facts.segments.end_offset < facts.high_watermark[of]),
        "the broker was not stopped cleanly, and recovers this segment first": facts.recovery,
        "the active segment goes only after a clean stop": last & ~facts.clean[of],
    }
    flags: list[Flags] = [lasts != "", ~allowed, *causes.values(), freed > share, freed > most]
    begin = rows.first(deletes & np.logical_or.reduce(flags))
    at = np.minimum(begin, len(row) - 1)
    words: list[Sentences] = [
        lasts[at],
        missing,
        *(_texts([cause]) for cause in causes),
        _texts(
            f"over the guard: more than {one.kafkats_guard_max_share or 0:.0%} of the partition"
            for one in settings
        ),
        _texts(
            f"over the guard: more than {one.kafkats_guard_max_bytes} bytes of the partition"
            for one in settings
        ),
    ]
    why = np.select([flag[at] for flag in flags], words, "")
    return np.where(deletes & (row >= begin[of]), why[of], "")


def _guard(settings: TopicSettings, total: int) -> tuple[float, float]:
    """Return how many bytes of a partition of `total` may be deleted, by share and by number."""
    share, most = settings.kafkats_guard_max_share, settings.kafkats_guard_max_bytes
    return np.inf if share is None else share * total, np.inf if most is None else most


def _texts(texts: Iterable[str]) -> Sentences:
    # numpy would convert a list of str to its own text type
    return np.array([*texts, ""], object)[:-1]


class Candidates(NamedTuple):
    """Rows that a run deletes, unless that is more than the run may: row numbers, ascending."""

    row: Ints
    time: Ints
    """When a row's turn comes (epoch ms), oldest first over all partitions."""
    bytes: Ints


_NONE: Final = np.empty(0, np.int64)
NO_CANDIDATES: Final = Candidates(_NONE, _NONE, _NONE)


class Bound(NamedTuple):
    """The candidates that are deleted: those before `time`, and the first `at_time` of it."""

    time: int
    at_time: int


class Bounds(NamedTuple):
    """The limits of a run: by its guard, and by the bytes asked for. None is no limit."""

    guard: Bound | None = None
    free: Bound | None = None


def candidates(facts: Facts, deleted: Flags) -> Candidates:
    """Return the rows to delete, each with its turn."""
    chosen = np.flatnonzero(deleted)
    largest, mtime = (
        column[chosen] for column in (facts.segments.largest_timestamp, facts.segments.mtime_ms)
    )
    # Rows of a partition are deleted in order, so an old one waits for a younger one before it.
    waits = running_max(np.where(largest >= 0, largest, mtime), facts.rows.of[chosen])
    return Candidates(chosen, waits, facts.family_bytes[chosen])


def bounds_of(
    time: Ints, size: Ints, all_bytes: int, guard: Guard | None, free_bytes: int | None
) -> Bounds:
    """Return the bounds of a run from all its candidates, in the order of their rows.

    `all_bytes` are those of all segments, `guard` is the run's, None if it is lifted.
    """
    most = None if guard is None else _run_guard(all_bytes, guard)
    return Bounds(
        None if most is None else _bound(time, size, most),
        None if free_bytes is None else _bound(time, size, free_bytes, at_least=True),
    )


def _run_guard(all_bytes: int, guard: Guard) -> int | None:
    """Return how many bytes a run may delete, None without a limit."""
    shares = [] if guard.max_share is None else [int(guard.max_share * all_bytes)]
    return min([*shares, *([] if guard.max_bytes is None else [guard.max_bytes])], default=None)


def _bound(time: Ints, size: Ints, most: int, *, at_least: bool = False) -> Bound | None:
    """Return the bound of the first `most` bytes. `at_least` includes the row that crosses it."""
    order = np.argsort(time, kind="stable")
    freed = np.cumsum(size[order])
    spared = np.flatnonzero(freed - size[order] >= most if at_least else freed > most)
    if not len(spared):
        return None
    last = int(time[order[spared[0]]])
    return Bound(last, int(spared[0]) - int((time < last).sum()))


def beyond(found: Candidates, bound: Bound | None) -> Ints:
    """Return the rows that a bound keeps."""
    if bound is None:
        return found.row[:0]
    at_time = found.time == bound.time
    kept = (found.time > bound.time) | (at_time & (np.cumsum(at_time) > bound.at_time))
    rows: Ints = found.row[kept]
    return rows
