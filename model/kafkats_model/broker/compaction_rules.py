"""The differences between the log cleaners of Kafka's releases, as a frozen table.

Source: kafka.log.LogCleaner of Kafka 0.9 to 3.9, storage.internals.log.Cleaner of 4.0 to 4.3, and
MemoryRecords.filterTo. 0.10.0 also converted messages to message.format.version while it cleaned
(KAFKA-4298); that is not played.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class CleaningRule:
    """The rule by which one generation's cleaner compacts a partition by key."""

    name: str
    kafka: str
    delete_horizon: bool
    """Magic 2: the first cleaning writes the time of deletion into batches with tombstones.

    Without it, and in magic 0 and 1, the mtimes of segments decide (KIP-534, 3.1).
    """
    writes_magic_2: bool
    """Magic 0 and 1 become magic 2 (KIP-724)."""
    keeps_last_batch: bool
    """The last batch of the cleaned section stays, if need be empty (KAFKA-17076)."""
    skips_to_segment_end: bool
    """The section ends at the next segment even where offsets are missing (KAFKA-8764)."""
    by_sequence: bool
    """A producer's last batch is known by its last sequence, not by its last offset."""
    follows_on: bool
    """Transactions are followed over all segments of a cleaning, not segment by segment."""
    transactions: bool
    """There are control batches and producers (0.11)."""
    lag: bool
    """There is min.compaction.lag.ms (0.10.1)."""
    oldest: bool
    """max.compaction.lag.ms makes a log dirty enough (2.3)."""
    encodes_messages: bool
    """Rebuilt wrappers are encoded anew; before 0.11 their messages keep their bytes."""
    rebuilds_wrappers: bool
    """A wrapper is rebuilt even if all of its messages stay (0.9)."""
    deletes_snapshots: bool
    """The producer snapshots of replaced segments are deleted (2.8)."""
    producer_expiry_ms: int
    """After this time without a batch a producer is forgotten. Kafka's default."""
    merges: bool = False
    """Neighbouring wrappers become one (KIP-31's text; no release does it)."""


_NEWEST: Final = CleaningRule(
    "4.0",
    "4.0 and later",
    delete_horizon=True,
    writes_magic_2=True,
    keeps_last_batch=True,
    skips_to_segment_end=True,
    by_sequence=False,
    follows_on=True,
    transactions=True,
    lag=True,
    oldest=True,
    encodes_messages=True,
    rebuilds_wrappers=False,
    deletes_snapshots=True,
    producer_expiry_ms=DAY_MS,
)
_3_4: Final = replace(
    _NEWEST, name="3.4", kafka="3.4 to 3.9", writes_magic_2=False, keeps_last_batch=False
)
_3_1: Final = replace(_3_4, name="3.1", kafka="3.1 to 3.3", producer_expiry_ms=7 * DAY_MS)
_2_8: Final = replace(_3_1, name="2.8", kafka="2.8 and 3.0", delete_horizon=False)
_2_5: Final = replace(_2_8, name="2.5", kafka="2.5 to 2.7", deletes_snapshots=False)
_2_3: Final = replace(_2_5, name="2.3", kafka="2.3 and 2.4", skips_to_segment_end=False)
_0_11: Final = replace(
    _2_3,
    name="0.11",
    kafka="0.11 to 2.2",
    by_sequence=True,
    follows_on=False,
    oldest=False,
)
_0_10: Final = replace(_0_11, name="0.10", kafka="0.10", transactions=False, encodes_messages=False)
_0_8: Final = replace(_0_10, name="0.8", kafka="0.8 and 0.9", lag=False, rebuilds_wrappers=True)
CLEANING_RULES: Final = {
    r.name: r
    for r in (
        _NEWEST,
        _3_4,
        _3_1,
        _2_8,
        _2_5,
        _2_3,
        _0_11,
        _0_10,
        _0_8,
        replace(_0_10, name="kip31", kafka="KIP-31's text", merges=True),
    )
}
SINCE: Final[tuple[tuple[tuple[int, ...], str], ...]] = (
    ((4, 0), "4.0"),
    ((3, 4), "3.4"),
    ((3, 1), "3.1"),
    ((2, 8), "2.8"),
    ((2, 5), "2.5"),
    ((2, 3), "2.3"),
    ((0, 11), "0.11"),
    ((0, 10), "0.10"),
    ((0, 8), "0.8"),
)
"""The first release of each rule, newest first."""
