"""The differences between the log classes of Kafka's releases, as a frozen table.

Only what no other table of rules says. Source: Log.append, roll, recoverLog, and
ProducerStateManager of Kafka 0.10 to 2.8, UnifiedLog and LogLoader of 3.0 to 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from kafkats_model.broker.error_names import (
    OUT_OF_ORDER,
    OUT_OF_ORDER_SEQUENCE,
    UNEXPECTED_OFFSET,
    UNKNOWN_PRODUCER,
)


@dataclass(frozen=True)
class LogRule:
    """The rule by which the log of one generation appends, rolls and starts."""

    name: str
    kafka: str
    keeps_recovery_point: bool
    """A start after an unclean stop keeps the recovery point; in 1.0 to 2.8 it is the log end."""
    bounds_recovery_point: bool
    """A kept recovery point is at most the log end; up to 0.11 it also stays above."""
    skips_empty_transactions: bool
    """A marker of a producer without an open transaction ends none.

    Before, an ABORT adds an entry of a transaction that begins at the marker to the index.
    """
    unknown_producer: str
    """The error for a sequence above 0 of a producer that is not known; "" accepts it (2.5)."""
    unknown_sequence: str
    """The error for a sequence above 0 after a marker that began the producer's epoch."""
    rolls_before_producers: bool
    """The log rolls before producers are judged, so also for a batch that is rejected then."""
    judges_markers: bool
    """A start judges the markers in the log, and fails at an older epoch (up to 2.4.0)."""
    known_batches: int
    """Batches of a producer that are known again: five from 1.0 on (KAFKA-5494).

    Before, its last one, and a marker becomes that, with the sequence of the batch before.
    """
    marker_timestamp: bool
    """A marker's timestamp becomes the producer's; before, that of its last batch stays."""
    moves_recovery_point: bool
    """The recovery point follows a log start that moves above it (2.4)."""
    keeps_producers: bool
    """A producer whose batches all lie below the log start stays known (KIP-360, 2.4)."""
    keeps_snapshots: bool
    """Producer snapshots below the log start, and those of no segment at a start, are left to the
    deletion of segments and to the start (2.8). Before, the log start deletes what lies below it.
    """
    deletes_own_snapshot: bool
    """A replaced empty segment takes the snapshot at its offset along, also a newer one (2.8)."""
    flush_deletes_snapshots: bool
    """A flush deletes the snapshots below the last two segments (up to 0.11).

    Later brokers do that after they have written the recovery point, which no log does by itself.
    """
    snapshot_before_recovery: bool
    """A recovery writes a snapshot at each segment that it recovers, too, not only after it."""
    deletes_aborted: bool
    """A start after an unclean stop deletes the active segment's transaction index (up to 0.11).

    That segment's index is not cut to its entries, so it is corrupt. A recovery then makes the file
    only for transactions that were aborted; later brokers empty it.
    """
    snapshot_at_end: bool
    """The load of producers writes a snapshot at the log end, and at the last two segments.

    Before 2.0 at each segment that it reads.
    """
    reloads_producers: bool
    """A truncation of all segments loads the producers anew (KAFKA-12153, 2.7.1).

    So the next snapshot is of a higher offset; before, of the same.
    """
    replaces_empty: bool
    """An empty last segment is replaced by one of the same offset; before, an error (KAFKA-6388).
    """
    forgets_epochs: bool
    """A batch of an older format deletes all leader epochs (KAFKA-7897, 2.2)."""
    always_cuts_epochs: bool
    """A truncation to the log end or above deletes the epochs that begin there (2.6.1)."""
    reopens: bool
    """A truncation makes room in the indexes of a closed segment that becomes the last one (1.1).

    Before, only one that cuts records of it does; else the next append begins a segment. From then
    on, too, indexes that are cut to their entries are not cut again.
    """
    searches_end_first: bool
    """An index's last 8 KiB are searched before the rest (KAFKA-6432, 2.1).

    That decides which of several entries of one offset a truncation finds.
    """
    truncates_at_end: bool
    """A truncation to the log end is one, and lowers a recovery point above it (up to 0.10)."""
    below_end: str
    """The error for a follower's batch below the log end."""


_NEWEST: Final = LogRule(
    "3.0",
    "3.0 and later",
    keeps_recovery_point=True,
    bounds_recovery_point=True,
    skips_empty_transactions=True,
    unknown_producer="",
    unknown_sequence=OUT_OF_ORDER_SEQUENCE,
    rolls_before_producers=True,
    judges_markers=False,
    known_batches=5,
    marker_timestamp=True,
    moves_recovery_point=True,
    keeps_producers=True,
    keeps_snapshots=True,
    deletes_own_snapshot=False,
    flush_deletes_snapshots=False,
    snapshot_before_recovery=True,
    deletes_aborted=False,
    snapshot_at_end=True,
    reloads_producers=True,
    replaces_empty=True,
    forgets_epochs=True,
    always_cuts_epochs=True,
    reopens=True,
    searches_end_first=True,
    truncates_at_end=False,
    below_end=UNEXPECTED_OFFSET,
)
_2_8: Final = replace(_NEWEST, name="2.8", kafka="2.8", deletes_own_snapshot=True)
_2_7: Final = replace(
    _2_8,
    deletes_own_snapshot=False,
    name="2.7",
    kafka="2.7.1 and 2.7.2",
    keeps_recovery_point=False,
    skips_empty_transactions=False,
    keeps_snapshots=False,
)
_2_6: Final = replace(_2_7, name="2.6", kafka="2.6.1 to 2.7.0", reloads_producers=False)
_2_5: Final = replace(_2_6, name="2.5", kafka="2.5 and 2.6.0", always_cuts_epochs=False)
_2_4: Final = replace(
    _2_5,
    name="2.4",
    kafka="2.4.1",
    unknown_producer=UNKNOWN_PRODUCER,
    unknown_sequence=UNKNOWN_PRODUCER,
)
_2_4_0: Final = replace(_2_4, name="2.4.0", kafka="2.4.0", judges_markers=True)
_2_2: Final = replace(
    _2_4_0,
    name="2.2",
    kafka="2.2 and 2.3",
    rolls_before_producers=False,
    marker_timestamp=False,
    moves_recovery_point=False,
    keeps_producers=False,
)
_2_1: Final = replace(_2_2, name="2.1", kafka="2.1.1", forgets_epochs=False)
_2_1_0: Final = replace(_2_1, name="2.1.0", kafka="2.1.0", replaces_empty=False)
_2_0: Final = replace(_2_1_0, name="2.0", kafka="2.0", searches_end_first=False)
_1_1: Final = replace(
    _2_0,
    name="1.1",
    kafka="1.1",
    unknown_sequence=OUT_OF_ORDER_SEQUENCE,
    snapshot_at_end=False,
)
_1_0: Final = replace(_1_1, name="1.0", kafka="1.0", reopens=False)
_0_11: Final = replace(
    _1_0,
    name="0.11",
    kafka="0.11",
    keeps_recovery_point=True,
    bounds_recovery_point=False,
    known_batches=1,
    flush_deletes_snapshots=True,
    snapshot_before_recovery=False,
    deletes_aborted=True,
    unknown_producer=OUT_OF_ORDER_SEQUENCE,
    below_end=OUT_OF_ORDER,
)
_0_8: Final = replace(_0_11, name="0.8", kafka="0.8 to 0.10", truncates_at_end=True)
LOG_RULES: Final = {
    r.name: r
    for r in (
        *(_NEWEST, _2_8, _2_7, _2_6, _2_5, _2_4, _2_4_0, _2_2, _2_1, _2_1_0, _2_0),
        *(_1_1, _1_0, _0_11, _0_8),
    )
}
"""By name, newest first. Each rule names only its differences from the next newer one."""
SINCE: Final[tuple[tuple[tuple[int, ...], str], ...]] = (
    ((3, 0), "3.0"),
    ((2, 8), "2.8"),
    ((2, 7, 1), "2.7"),
    ((2, 6, 1), "2.6"),
    ((2, 5), "2.5"),
    ((2, 4, 1), "2.4"),
    ((2, 4), "2.4.0"),
    ((2, 2), "2.2"),
    ((2, 1, 1), "2.1"),
    ((2, 1), "2.1.0"),
    ((2, 0), "2.0"),
    ((1, 1), "1.1"),
    ((1, 0), "1.0"),
    ((0, 11), "0.11"),
)
"""The first release of each rule, newest first."""
