"""Look at one partition directory and list every change that its recovery makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats import paths
from kafkats.errors import BadInput, CorruptBatch, CorruptFile, StorageFailed
from kafkats.evidence.borders import end_findings, first_findings, gap_findings
from kafkats.evidence.claims import Claims
from kafkats.evidence.looking import epochs_of, was_compacted
from kafkats.logdir.partition import PartitionDir, scan_partition
from kafkats.plans.missing import GAP_CURE, blocked_row, check_accepted
from kafkats.plans.plan import ITEMS
from kafkats.plans.rows import Item, SegmentRow
from kafkats.recovery.checkpoints import EPOCHS, read_failure
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
from kafkats.recovery.items import (
    cut_items,
    dropped,
    index_items,
    leftovers,
    small_items,
)
from kafkats.recovery.log_end import empty_segment, recovery_point
from kafkats.recovery.mending import mended_log
from kafkats.recovery.partition_start import predict
from kafkats.recovery.readable import batch_behind
from kafkats.recovery.reading import Stops, transactions_defect
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.swaps import (
    Building,
    Swap,
    left_by,
    left_to_a_broker,
    read_swaps,
    rows_after,
    swap_items,
)
from kafkats.recovery.topic_id import read_topic_id
from kafkats.segment.broker_walk import unknown_magics
from kafkats.segment.reader import open_source

RECOVERY: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("recovery_point", pa.int64()),    # in the checkpoint; -1: none
    ("high_watermark", pa.int64()),
    ("log_start", pa.int64()),
    ("log_end", pa.int64()),           # after the recovery; of a blocked partition: now
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
class RecoverOptions:
    """Options of a recovery. `topics` is a filter; `like_kafka` loses what Kafka loses."""

    rule: str = "last-offset"
    topics: str = "*"
    like_kafka: bool = False
    accept_loss: tuple[str, ...] = ()
    """`offsets`: recover partitions with missing records too."""
    copy_readable: str = ""
    """The folder for copies of good batches behind a corrupt place, "" for no copies."""
    mend_magic: bool = False
    """Write magic 2 into whole batches with a magic above 2."""

    def __post_init__(self) -> None:
        check_accepted(self.accept_loss)


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
    def directory(self) -> Path:
        return Path(self.log_dir, self.partition_dir)

    @property
    def bytes(self) -> int:
        """Bytes of the logs to read."""
        return sum(log_bytes(row) for row in self.rows if is_recovered(row))


def look_at_partition(partition: Partition, options: RecoverOptions) -> pa.RecordBatch:
    """Return the partition's row of FOUND. Raises Vanished, Changed, StorageFailed."""
    found, copied, items = _found(partition, options)
    twice = [file for file, n in Counter(item["file"] for item in items).items() if n > 1]
    if twice and not isinstance(found, Blocked):
        found = Blocked(twice[0], f"{twice[0]}: kafkats found two changes for it; report this")
    if isinstance(found, Blocked) and not items:
        rows = [*partition.rows, partition.own]
        row = next((r for r in partition.rows if log_of(r) == found.file), rows[0])
        items = [blocked_row(row, found.file, found.reason, options.rule)]
    row_of_it = _summary(partition, found) | {"copied_bytes": copied, "items": items}
    return pa.RecordBatch.from_pylist([row_of_it], schema=FOUND)


def _found(
    partition: Partition, options: RecoverOptions
) -> tuple[Decision | Blocked, int, list[Item]]:
    """Return the decision, the bytes copied (see _copied), and the changes. Raises as
    `look_at_partition`.
    """
    try:
        listed = scan_partition(partition.directory)
        swaps = read_swaps(partition.directory, listed.others, partition.building)
        left = left_to_a_broker(swaps)
        rows = partition.rows
        if not left:
            rows = rows_after(swaps, rows, partition.own, partition.claims)
        refused = _not_loaded(listed)
        if not rows:
            none = Blocked(partition.partition_dir, "there is no log")
            return refused or left or stopping_file(partition.directory, ()) or none, 0, []
        found = refused or _decided(partition, rows, options)
        copied = _copied(partition, found, options)
        if isinstance(found, Blocked):
            return found, copied, _mends(partition, found, options)
        gap = gap_of(found)
        if gap and not partition.compacted and not options.accept_loss:
            left = left or Blocked(gap.file, _gap_reason(gap, partition.compacted))
        left = left or left_by(found, swaps) or end_blocked(partition.claims, found.log_end)
        if partition.claims.unsettled and not options.accept_loss:
            left = left or _missing(partition, found)
        if left:
            return left, copied, []
        items = list(_items(partition, listed, swaps, rows, found, options))
        stops = _stops(partition, listed, {item["file"] for item in items}, rows)
        return stops or found, copied, [] if stops else items
    except (CorruptBatch, CorruptFile) as e:
        file = Path(e.path or partition.directory).name
        why = f"{file}: {e.reason}; a broker does not load this partition"
        return Blocked(file, why), 0, []
    except (BadInput, StorageFailed) as e:
        if not e.path or not Path(e.path).is_relative_to(partition.directory):
            raise  # such as a folder for copies
        file = Path(e.path).name
        return Blocked(file, f"{file}: {e.reason}"), 0, []


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
            return Blocked(finding.file, f"records are missing: {finding.reason}")
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


def _not_loaded(listed: PartitionDir) -> Blocked | None:
    """Return what keeps a broker from loading the directory, or the plan from reading it."""
    for finding in listed.findings:
        if finding.kind in ("stops-the-broker", "unreadable"):
            return Blocked(finding.file, f"{finding.file}: {finding.reason}")
    return None


def _stops(
    partition: Partition,
    listed: PartitionDir,
    changed: Collection[str],
    rows: Sequence[SegmentRow],
) -> Blocked | None:
    """Return what keeps a broker from loading the partition though the plan is applied.

    `changed` are the files of the plan. The words are those of preflight for the newest release. A
    partition without a segment to recover is read as a broker would read it. Raises StorageFailed.
    """
    if not partition.newer:
        return None
    directory = partition.directory
    stops = stopping_file(directory, changed)
    if stops is not None:
        return stops
    for row in rows:
        file = paths.segment_file(row["base_offset"], paths.TXN_INDEX)
        if row["txnindex"] and row["txnindex"]["size"] and file not in changed:
            try:
                transactions_defect(directory / file, row["base_offset"])
            except Stops as e:
                return Blocked(file, f"{_NOT_LOADED}: {e.words}; restore it from a replica")
    if not any(map(is_recovered, rows)) and not changed:
        start = predict(listed, partition.claims, NEWEST, log_dir=partition.log_dir)
        if start.outcome in ("stops", "offline"):
            return Blocked(log_of(rows[-1]), f"{_NOT_LOADED}: {start.words}")
    return None


def stopping_file(directory: Path, changed: Collection[str]) -> Blocked | None:
    """Return the leader epochs or the topic id for which a broker does not load a partition.

    `changed` are files that the plan writes again. Raises StorageFailed.
    """
    epochs = None
    if paths.LEADER_EPOCH not in changed:
        epochs = read_failure(NEWEST, directory / paths.LEADER_EPOCH, EPOCHS)
    if epochs is not None:
        return Blocked(paths.LEADER_EPOCH, f"{_NOT_LOADED}: {epochs.words}")
    topic = read_topic_id(directory, NEWEST)
    if topic.outcome != "loads":
        cure = "write the topic's id into it again, as it is in the topic's other partitions"
        return Blocked(paths.PARTITION_METADATA, f"{_NOT_LOADED}: {topic.words}; {cure}")
    return None


_NOT_LOADED: Final = "a broker does not load this partition"


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
    partition: Partition, rows: Sequence[SegmentRow], options: RecoverOptions
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

    flushed = partition.claims.recovery_point
    return decide(rows, behind, unknown, like_kafka=options.like_kafka, flushed=flushed)


def _summary(partition: Partition, found: Decision | Blocked) -> dict[str, object]:
    recovered = [row for row in partition.rows if is_recovered(row)]
    claims = partition.claims
    decision = found if isinstance(found, Decision) else None
    return {
        "log_dir": partition.log_dir,
        "partition_dir": partition.partition_dir,
        "recovery_point": claims.recovery_point,
        "high_watermark": claims.high_watermark,
        "log_start": claims.log_start,
        "log_end": decision.log_end if decision else max(map(end_of, partition.rows), default=0),
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
    there = {f.name: f for f in listed.others}
    there |= {f.name: f for segment in listed.segments for f in segment.files.values()}
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
