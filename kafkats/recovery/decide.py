"""Decide what recovery does to the segments of one partition: cut, drop, keep, or leave alone.

A broker recovers the segment that contains the recovery point and all later ones. It cuts a log at
its first bad batch, and deletes every later segment (LogLoader.recoverLog; before 3.0
Log.recoverLog). Where that would lose good batches, kafkats does nothing without `like_kafka`. The
same holds for a corrupt batch that had been flushed: no hard failure tears it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkats import paths
from kafkats.evidence.borders import missing_offsets
from kafkats.evidence.claims import Claims, shows_remote_storage
from kafkats.plans.rows import SegmentRow
from kafkats.segment.facts import StopReason
from kafkats.text import PLAN_LIKE_KAFKA, PLAN_MENDING

Unknown = Callable[[SegmentRow], Sequence[tuple[int, int]]]
"""Returns position and magic of the batches with a magic above 2 that a broker keeps in a log."""
Behind = Callable[[SegmentRow], int]
"""Returns the position of the first good batch behind the place where a log's reading stopped; -1
for none."""


class Blocked(NamedTuple):
    """The reason why a partition is left as it is, and the file that gives it."""

    file: str
    reason: str
    corrupt: Sequence[SegmentRow] = ()
    """The corrupt segment and all later ones, if good batches lie behind its corrupt place."""
    unknown: SegmentRow | None = None
    """The segment with batches of an unknown magic, if these are the reason."""


class Gap(NamedTuple):
    """Offsets that are missing between two segments: `offsets` in words, behind the log `file`."""

    file: str
    offsets: str


class Decision(NamedTuple):
    """The segments of a partition after its recovery."""

    kept: Sequence[SegmentRow]
    """In order. The last one is the active segment."""
    cuts: Sequence[SegmentRow]
    """Those of `kept` with bytes behind their last good batch."""
    dropped: Sequence[SegmentRow]
    log_end: int
    first: int
    """The base offset of the first segment that a broker would recover, `log_end` for none."""

    @property
    def cut_bytes(self) -> int:
        return sum(map(bytes_behind, self.cuts))

    @property
    def zero_bytes(self) -> int:
        """Return the cut bytes of logs that end with zeros only."""
        zeros = (row for row in self.cuts if row["stop"] == StopReason.ZERO_TAIL)
        return sum(map(bytes_behind, zeros))

    @property
    def dropped_bytes(self) -> int:
        return sum(map(log_bytes, self.dropped))

    @property
    def added(self) -> bool:
        """Return whether the log end is no base offset yet: an empty segment can begin there."""
        return bool(self.kept) and self.kept[-1]["base_offset"] != self.log_end


def decide(
    rows: Sequence[SegmentRow],
    behind: Behind,
    unknown: Unknown,
    *,
    like_kafka: bool,
    flushed: int = -1,
    alone: Collection[int] = (),
) -> Decision | Blocked:
    """Decide from facts (facts.SEGMENTS, in order) of all segments of a partition.

    Those that a broker recovers have depth full. `flushed` is the recovery point. `alone` are base
    offsets of segments that a broker recovers while it loads them, for their indexes: it keeps the
    later ones. Raises as `behind` and `unknown`.
    """
    recovered = [n for n, row in enumerate(rows) if is_recovered(row)]
    first = recovered[0] if recovered else len(rows)
    cuts: list[SegmentRow] = []
    for n, row in enumerate(rows):
        if row["valid_bytes"] is None:
            return Blocked(log_of(row), f"{log_of(row)} could not be read")
        if row["blocked"]:
            return Blocked(log_of(row), row["blocked"])
        if not row["stop"] or row["depth"] == "tail":
            continue
        if row["stop"] == StopReason.BAD_MAGIC and (magics := unknown(row)):
            return Blocked(log_of(row), _unknown_magic(*magics[0]), unknown=row)
        if n < first:
            why = f"{_corrupt(row)}, below the recovery point, where no recovery reads: restore it"
            return Blocked(log_of(row), f"{why} from a replica")
        by_itself = row["index"] is None or row["base_offset"] in alone
        rest = rows[n : n + 1] if by_itself else rows[n:]
        lost = _lost(rest, behind) or _lost_batch(row, flushed)
        if lost and not like_kafka:
            return Blocked(log_of(row), _refused(row, lost), rows[n:])
        cuts.append(row)
        if not by_itself:
            return _decision(rows[: n + 1], cuts, rows[n + 1 :], first)
    return _decision(rows, cuts, (), first)


def gap_of(decision: Decision) -> Gap | None:
    """Return the first gap between segments that a broker recovers, None without one."""
    for row, following in pairwise(decision.kept):
        end, base = end_of(row), following["base_offset"]
        if row["base_offset"] >= decision.first and end < base:
            return Gap(log_of(row), missing_offsets(end, base))
    return None


def _decision(
    kept: Sequence[SegmentRow],
    cuts: Sequence[SegmentRow],
    dropped: Sequence[SegmentRow],
    first: int,
) -> Decision:
    log_end = end_of(kept[-1])
    base = kept[first]["base_offset"] if first < len(kept) else log_end
    return Decision(kept, cuts, dropped, log_end, base)


def is_recovered(row: SegmentRow) -> bool:
    """Return whether the segment must be recovered.

    Beside a clean-shutdown marker no broker recovers it; an active segment with a torn tail needs
    it all the same.
    """
    return row["recovery"] or (row["active"] and bool(row["stop"]))


def _lost(rows: Sequence[SegmentRow], behind: Behind) -> str:
    """Return which good batches a broker's recovery loses that cuts the first of `rows`, or ""."""
    at = behind(rows[0])
    later = [row for row in rows[1:] if valid_bytes(row) or behind(row) >= 0]
    lost = []
    if at >= 0:
        lost.append(f"good batches follow at byte {at}")
    if later:
        count = f"{len(later)} later segments" if len(later) > 1 else "a later segment"
        lost.append(f"{count} ({sum(map(valid_bytes, later))} bytes) would be deleted")
    return ", and ".join(lost)


def _lost_batch(row: SegmentRow, flushed: int) -> str:
    """Return why a corrupt last batch is no torn tail of the last stop, "" if it can be one."""
    if row["stop"] in (StopReason.TORN_TAIL, StopReason.ZERO_TAIL):
        return ""  # the evidence tells whether records are missing
    if not row["recovery"]:
        return "beside a clean-shutdown marker no broker recovers it"
    return f"it had been flushed up to offset {flushed}" if end_of(row) < flushed else ""


def _unknown_magic(position: int, magic: int) -> str:
    return (
        f"the batch at byte {position} has magic {magic}, which no release knows, and a correct"
        " checksum: a broker keeps it, and followers and consumers fail there; restore the"
        f" partition from a replica, or {PLAN_MENDING}"
    )


def _corrupt(row: SegmentRow) -> str:
    return f"the log is corrupt at byte {valid_bytes(row)} ({row['stop']})"


def _refused(row: SegmentRow, what: str) -> str:
    cut = log_bytes(row) - valid_bytes(row)
    return (
        f"{_corrupt(row)}: Kafka's recovery would cut {cut} bytes, but {what}; restore it from a"
        f" replica, or {PLAN_LIKE_KAFKA}"
    )


def partition_blocked(
    claims: Claims, rows: Sequence[SegmentRow], *, remote: bool | None
) -> Blocked | None:
    """Return why a partition directory is left to the broker as a whole, None if it is not.

    `remote` is the topic's remote.storage.enable, None if it is not known.
    """
    log = log_of(rows[0])
    if claims.unsettled and not claims.replacing:
        return Blocked(log, "a log is a link or could not be examined, so its end is not known")
    if remote or (remote is None and shows_remote_storage(claims)):
        return Blocked(log, "the topic has remote storage, which only a broker can compare")
    return end_blocked(claims, max(end_of(row) for row in rows))


def end_blocked(claims: Claims, log_end: int) -> Blocked | None:
    """Return why a partition with this log end is left to the broker, None if it is not."""
    if claims.log_start > log_end:
        return Blocked(
            paths.LOG_START,
            f"{paths.LOG_START} says {claims.log_start}, and the log ends at {log_end}: a broker"
            " would delete the whole log",
        )
    return None


def end_of(row: SegmentRow) -> int:
    """Return the offset after a segment's last good batch, its base offset if it has none."""
    last = row["last_offset"]
    return max(row["base_offset"], -1 if last is None else last + 1)


def valid_bytes(row: SegmentRow) -> int:
    """Return the size of the log's good part."""
    return row["valid_bytes"] or 0


def bytes_behind(row: SegmentRow) -> int:
    """Return the bytes behind a log's good part."""
    return log_bytes(row) - valid_bytes(row)


def log_bytes(row: SegmentRow) -> int:
    """Return the size of the .log, 0 without one."""
    return row["log"]["size"] if row["log"] else 0


def log_of(row: SegmentRow) -> str:
    """Return the name of the segment's .log."""
    return paths.segment_file(row["base_offset"])
