"""Look at one partition directory and list every change that its recovery makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats.errors import BadInput, CorruptBatch, CorruptFile, StorageFailed
from kafkats.evidence.borders import (
    behind_high_watermark,
    end_findings,
    first_findings,
    gap_findings,
)
from kafkats.evidence.claims import Claims
from kafkats.evidence.looking import epochs_of, was_compacted
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.logdir.partition import PartitionDir, scan_partition
from kafkats.plans.columns import batch_of
from kafkats.plans.missing import GAP_CURE, MISSING_CURE, Accepting, blocked_row
from kafkats.plans.plan import ITEMS
from kafkats.plans.rows import Item, PartitionKey, SegmentRow
from kafkats.recovery.ahead import recoveries
from kafkats.recovery.copying import copy_readable, place_of
from kafkats.recovery.decide import (
    Blocked,
    Decision,
    Gap,
    decide,
    end_blocked,
    end_of,
    gap_of,
    is_recovered,
    log_bytes,
    log_of,
    partition_blocked,
    valid_bytes,
)
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.items import (
    cut_items,
    dropped,
    empty_segment,
    index_items,
    leftovers,
    recovery_point,
    small_items,
)
from kafkats.recovery.judging import lost_at_end
from kafkats.recovery.mending import mended_log
from kafkats.recovery.partition_start import predict
from kafkats.recovery.readable import batch_behind
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.stopping import refused_names, stopping_file, stops_after
from kafkats.recovery.swaps import (
    Building,
    Swap,
    left_by,
    left_to_a_broker,
    read_swaps,
    releases_differ,
    rows_after,
    swap_items,
)
from kafkats.segment.broker_walk import unknown_magics
from kafkats.segment.reader import open_source

RECOVERY: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("recovery_point", pa.int64()),    # in the checkpoint; -1: none
    ("high_watermark", pa.int64()),
    ("log_start", pa.int64()),
    ("log_end", pa.int64()),           # after the recovery; of a blocked partition: as a broker's
                                       # start leaves it, -1: no broker loads it
    ("behind_high_watermark", pa.int64()),  # offsets below it that the log then lacks
    ("known_end", pa.int64()),         # the largest offset that files know of; not that of a
                                       # checkpoint that is likely wrong itself
    ("lost", pa.string()),             # which records the log then lacks at its end at least, or ""
    ("segments", pa.int64()),          # that a broker would recover
    ("bytes", pa.int64()),             # of their logs
    ("cut_bytes", pa.int64()),         # behind the last good batch, but for zeros
    ("zero_bytes", pa.int64()),        # of zeros there, as preallocate leaves them
    ("dropped_segments", pa.int64()),
    ("dropped_bytes", pa.int64()),
    ("copied_bytes", pa.int64()),      # of good batches behind a corrupt place
    ("blocked", pa.string()),          # why nothing is done, or ""
])  # fmt: skip
"""One row per partition."""

FOUND: Final = pa.schema([*RECOVERY, ("items", pa.list_(pa.struct(list(ITEMS))))])
"""RECOVERY, and the changes of each partition: rows of plan.ITEMS."""


@dataclass(frozen=True)
class RecoverOptions(Accepting):
    """Options of a recovery. `topics` is a filter; `like_kafka` loses what Kafka loses."""

    rule: str = "last-offset"
    topics: str = "*"
    like_kafka: bool = False
    copy_readable: str = ""
    """The folder for copies of good batches behind a corrupt place, "" for no copies."""
    mend_magic: bool = False
    """Write magic 2 into whole batches with a magic above 2."""
    credit: bool = False
    """Before a start: raise the recovery points of the recovered partitions also where others are
    not recovered, and keep gaps where the cleaner has left traces.
    """


class Partition(NamedTuple):
    """A partition directory to look at: its facts (facts.SEGMENTS, in order), and its state."""

    log_dir: str
    partition_dir: str
    claims: Claims
    own: SegmentRow
    """The row of the directory itself, or of its first segment."""
    rows: Sequence[SegmentRow]
    building: Building
    """By what indexes are built that a broker had not finished."""
    remote: bool | None
    """remote.storage.enable of the topic, None if it is not known."""
    lost: str
    """Why records are missing, "" if they are not or the loss is accepted."""
    compacted: bool | None
    """Whether the topic's settings say that it is compacted, None if they are not known."""
    newer: bool
    """Whether brokers of 0.11 or later wrote here, which have snapshots and epochs."""

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.log_dir, self.partition_dir)

    @property
    def directory(self) -> Path:
        return Path(*self.key)

    @property
    def bytes(self) -> int:
        """Bytes of the logs to read."""
        return sum(log_bytes(row) for row in self.rows if is_recovered(row))


def look_at_partition(partition: Partition, options: RecoverOptions) -> pa.RecordBatch:
    """Return the partition's row of FOUND. Raises Vanished, Changed, StorageFailed."""
    start = None
    try:
        listed = scan_partition(partition.directory)
        start = _start(partition, listed)
        found, copied, items = _found(partition, listed, start, options)
    except (CorruptBatch, CorruptFile) as e:
        file = Path(e.path or partition.directory).name
        why = f"{file}: {e.reason}; a broker does not load this partition"
        found, copied, items = Blocked(file, why), 0, []
    except (BadInput, StorageFailed) as e:
        if not e.path or not Path(e.path).is_relative_to(partition.directory):
            raise  # such as a folder for copies
        file = Path(e.path).name
        found, copied, items = Blocked(file, f"{file}: {e.reason}"), 0, []
    twice = [file for file, n in Counter(item["file"] for item in items).items() if n > 1]
    if twice and not isinstance(found, Blocked):
        found = Blocked(twice[0], f"{twice[0]}: kafkats found two changes for it; report this")
    if isinstance(found, Blocked) and not items:
        rows = [*partition.rows, partition.own]
        row = next((r for r in partition.rows if log_of(r) == found.file), rows[0])
        items = [blocked_row(row, found.file, found.reason, options.rule)]
    summary = _summary(partition, found, start)
    row_of_it = summary | {"copied_bytes": copied, "items": items}
    return batch_of([row_of_it], FOUND)


def _start(partition: Partition, listed: PartitionDir) -> PartitionStart:
    """Return what a broker of the newest release makes of the partition, from the facts."""
    return predict(
        listed,
        partition.claims,
        NEWEST,
        log_dir=partition.log_dir,
        interval=partition.building.index_interval_bytes or INDEX_INTERVAL_BYTES,
        ahead=recoveries(partition.directory, partition.rows),
    )


def _found(
    partition: Partition, listed: PartitionDir, start: PartitionStart, options: RecoverOptions
) -> tuple[Decision | Blocked | None, int, list[Item]]:
    """Return the decision, the bytes copied (see _copied), and the changes. Raises KafkatsError.

    There is no decision about a partition without any log, which a broker begins.
    """
    swaps = read_swaps(partition.directory, listed.others, partition.building)
    left = left_to_a_broker(swaps)
    rows = partition.rows
    if not left:
        rows = rows_after(swaps, rows, partition.own, partition.claims)
    refused = refused_names(listed)
    if not rows:
        left = refused or left or stopping_file(partition.directory, ())
        lost = Blocked(partition.partition_dir, partition.lost) if partition.lost else None
        return left or lost, 0, []
    found = refused or _decided(partition, start, rows, options)
    if isinstance(found, Decision):
        found = releases_differ(found, listed.others) or found
    copied = _copied(partition, found, options)
    if isinstance(found, Blocked):
        return found, copied, _mends(partition, found, options)
    gap = gap_of(found)
    if gap and not _is_compacted(partition, options) and not options.accept_loss:
        left = left or Blocked(gap.file, _gap_reason(gap, partition.compacted))
    left = left or left_by(found, swaps) or end_blocked(partition.claims, found.log_end)
    if partition.claims.unsettled and not options.accept_loss:
        left = left or _missing(partition, found)
    if left:
        return left, copied, []
    items = list(_items(partition, listed, swaps, rows, found, options))
    stops = None
    if partition.newer:
        stops = stops_after(partition.directory, start, {item["file"] for item in items}, rows)
    return stops or found, copied, [] if stops else items


def _is_compacted(partition: Partition, options: RecoverOptions) -> bool:
    """Return whether gaps are taken to be the cleaner's. Raises StorageFailed.

    Before a start its traces are enough where settings do not tell: the broker keeps the gap, too.
    """
    if partition.compacted is None and options.credit:
        return partition.claims.compacted or was_compacted(partition.directory) is True
    return bool(partition.compacted)


def _mends(partition: Partition, found: Blocked, options: RecoverOptions) -> list[Item]:
    """Return the change that mends the log of a blocked partition, if it is asked for."""
    if found.unknown is None or not options.mend_magic:
        return []
    return [mended_log(partition.directory, found.unknown, options.rule)]


def _missing(partition: Partition, decision: Decision) -> Blocked | None:
    """Return which records are missing once the replacements are finished.

    Before that the evidence tells nothing (`Claims.unsettled`). A gap below the recovery point may
    be the cleaner's, if the log has other traces of it. Raises StorageFailed.
    """
    claims = partition.claims._replace(
        unsettled=False, end_settled=True, first_base=decision.kept[0]["base_offset"]
    )
    epochs = epochs_of(partition.directory)
    found = list(first_findings(claims, epochs, log_of(decision.kept[0])))
    found += end_findings(claims, epochs, log_of(decision.kept[-1]), decision.log_end)
    for row, following in pairwise(decision.kept):
        compacted = partition.compacted
        if end_of(row) < following["base_offset"] and compacted is None:
            compacted = was_compacted(partition.directory)
        found += gap_findings(
            claims, log_of(row), end_of(row), following["base_offset"], compacted=compacted
        )
    for finding in found:
        if finding.kind == "missing-records":
            return Blocked(finding.file, f"records are missing: {finding.reason}; {MISSING_CURE}")
    return None


def _gap_reason(gap: Gap, compacted: bool | None) -> str:
    """Return why a gap that a start would keep blocks a partition."""
    said = f"{gap.offsets} missing behind {gap.file}"
    if compacted is None:
        return (
            f"{said}: compacted away, or lost in the unclean stop. cleanup.policy of the topic"
            f" tells: give it by --config, the policy or its export; if they are lost: {GAP_CURE}"
        )
    return f"{said}, lost in the unclean stop, as the topic is not compacted: {GAP_CURE}"


def _copied(partition: Partition, found: Decision | Blocked, options: RecoverOptions) -> int:
    """Copy the good batches that Kafka's recovery drops, if it is asked. Return their bytes."""
    if isinstance(found, Blocked):
        rows, reason = found.corrupt, found.reason
    else:
        rows = [*found.cuts, *found.dropped] if found.cuts and options.like_kafka else ()
        reason = "deleted by a recovery that was planned with --like-kafka"
    if not rows or not options.copy_readable:
        return 0
    place = place_of(options.copy_readable, partition.log_dir, partition.partition_dir)
    return copy_readable(rows, reason, place)


def _decided(
    partition: Partition,
    start: PartitionStart,
    rows: Sequence[SegmentRow],
    options: RecoverOptions,
) -> Decision | Blocked:
    whole = partition_blocked(partition.claims, rows, remote=partition.remote)
    if whole is not None:
        return whole
    if partition.lost:
        return Blocked(log_of(rows[-1]), partition.lost)

    def behind(row: SegmentRow) -> int:
        if valid_bytes(row) == log_bytes(row):
            return -1
        with open_source(partition.directory / log_of(row)) as source:
            return batch_behind(source, valid_bytes(row), row["base_offset"])

    def unknown(row: SegmentRow) -> Sequence[tuple[int, int]]:
        with open_source(partition.directory / log_of(row)) as source:
            return unknown_magics(source, row["base_offset"])

    return decide(
        rows,
        behind,
        unknown,
        like_kafka=options.like_kafka,
        flushed=partition.claims.recovery_point,
        alone={one.base_offset for one in start.recovered if one.why == "corrupt-index"},
    )


def _summary(
    partition: Partition, found: Decision | Blocked | None, start: PartitionStart | None
) -> dict[str, object]:
    recovered = [row for row in partition.rows if is_recovered(row)]
    claims = partition.claims
    decision = found if isinstance(found, Decision) else None
    ends = start.log_end_offset if start and start.outcome == "loads" else -1
    log_end = decision.log_end if decision else ends
    return {
        "log_dir": partition.log_dir,
        "partition_dir": partition.partition_dir,
        "recovery_point": claims.recovery_point,
        "high_watermark": claims.high_watermark,
        "log_start": claims.log_start,
        "log_end": log_end,
        "behind_high_watermark": behind_high_watermark(log_end, claims.high_watermark),
        "known_end": start.known_end if start else -1,
        "lost": lost_at_end(start, log_end) if start else "",
        "segments": len(recovered),
        "bytes": sum(map(log_bytes, recovered)),
        "cut_bytes": decision.cut_bytes - decision.zero_bytes if decision else 0,
        "zero_bytes": decision.zero_bytes if decision else 0,
        "dropped_segments": len(decision.dropped) if decision else 0,
        "dropped_bytes": decision.dropped_bytes if decision else 0,
        "blocked": found.reason if isinstance(found, Blocked) else "",
    }


def _items(
    partition: Partition,
    listed: PartitionDir,
    swaps: Sequence[Swap],
    rows: Sequence[SegmentRow],
    decision: Decision,
    options: RecoverOptions,
) -> Iterator[Item]:
    """Yield the changes; none for a partition that is as its recovery would leave it.

    `rows` are its segments once the replacements are finished.
    """
    rule = options.rule
    recovered = any(map(is_recovered, rows))
    there = listed.files
    ending = []
    if recovered and decision.added:
        ending = list(empty_segment(decision, there, rule, newer=partition.newer))
    swapped = swap_items(swaps, partition.rows, decision, partition.building, there)
    replaced = {item["file"] for item in (*ending, *swapped)}
    changes = [
        *cut_items(partition.directory, decision, rule),
        *index_items(decision, rule, lambda base: any(swap.covers(base) for swap in swaps)),
        *swapped,
        *(item for item in leftovers(listed, decision, rule) if item["file"] not in replaced),
        *(item for item in dropped(decision, rule) if item["file"] not in replaced),
        # Without a segment to recover there is no recovery point, and no broker reads them again.
        *(small_items(listed, swaps, decision, rule) if partition.newer and recovered else ()),
        *ending,
    ]
    yield from changes
    before = partition.claims.recovery_point
    if recovered and (changes or max(before, 0) != decision.log_end):
        yield recovery_point(decision, before, rule)
