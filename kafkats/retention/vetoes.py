"""The vetoes: why kafkats keeps segments that Kafka would delete, as a sentence per row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

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

_LARGEST: Final = 2**63 - 1
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


def run_guard(facts: Facts, guard: Guard) -> int:
    """Return how many bytes a run may delete."""
    share = (
        _LARGEST
        if guard.max_share is None
        else int(guard.max_share * int(facts.family_bytes.sum()))
    )
    return min(share, _LARGEST if guard.max_bytes is None else guard.max_bytes)


def spare(facts: Facts, deleted: Flags, most: int, *, at_least: bool = False) -> Ints:
    """Return the deleted rows beyond the first `most` bytes, oldest first over all partitions.

    `at_least` still deletes the row that crosses the limit.
    """
    chosen = np.flatnonzero(deleted)
    largest, mtime = (
        column[chosen] for column in (facts.segments.largest_timestamp, facts.segments.mtime_ms)
    )
    # Rows of a partition are deleted in order, so an old one waits for a younger one before it.
    waits = running_max(np.where(largest >= 0, largest, mtime), facts.rows.of[chosen])
    chosen = chosen[np.argsort(waits, kind="stable")]
    sizes = facts.family_bytes[chosen]
    freed = np.cumsum(sizes)
    return chosen[freed - sizes >= most if at_least else freed > most]
