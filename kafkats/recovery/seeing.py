"""Read the segments of log directories for a recovery, and find what each partition needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.config.topics import topic_filter
from kafkats.errors import exists
from kafkats.evidence.claims import ALWAYS_COMPACTED
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.plans.facts import SEGMENTS, unseen_logs
from kafkats.plans.missing import Missing, gaps, missing_records
from kafkats.plans.operation import Stages
from kafkats.plans.rows import (
    FindingRow,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    keys_of,
    partition_of,
    segment_rows,
)
from kafkats.plans.units import Unit
from kafkats.recovery.decide import end_of, log_of
from kafkats.recovery.loading import SWAP
from kafkats.recovery.look import FOUND, Partition, RecoverOptions, look_at_partition
from kafkats.recovery.stopping import stopping_file
from kafkats.recovery.swaps import Building, has_swapped_log
from kafkats.segment.facts import StopReason


class Seen(NamedTuple):
    """The facts for a plan. `segments` are rows of facts.SEGMENTS of `units`."""

    units: Sequence[Unit]
    segments: pa.Table
    evidence: pa.Table
    """Rows of facts.SEGMENTS whose findings say which records are missing. The end of a torn tail
    beside a marker is left out: if it is missing, the marker is removed (`marker`)."""
    lost: Missing


def see(
    stages: Stages,
    units: Sequence[Unit],
    policy: Policy,
    options: RecoverOptions,
    *,
    marked: Collection[str] | None = None,
) -> Seen:
    """Look at the ends of all segments, and read those to recover and those in doubt.

    `marked` are the log directories with a clean-shutdown marker, None for those whose units say
    so. Raises as the stages.
    """
    ends = stages.ends(units)
    doubtful = _in_doubt(ends, units)
    if options.mend_magic:  # no start reads these batches, and no end shows them
        doubtful = [unit for unit in units if unit.base_offset >= 0]
    read = stages.verify(doubtful, rule=options.rule, policy=policy)
    segments = pa.concat_tables([_without(ends, doubtful), read])
    if marked is None:
        marked = {unit.log_dir for unit in units if unit.clean}
    evidence = _without_torn_ends(segments, marked)
    lost = {
        **gaps(evidence, options.accept_loss),
        **missing_records(evidence, options.accept_loss),
        **unseen_logs(segments),
    }
    return Seen(units, segments, evidence, lost)


def _without_torn_ends(segments: pa.Table, marked: Collection[str]) -> pa.Table:
    """Return rows of facts.SEGMENTS without the findings of records that a torn tail may have been.

    Only the ends of logs in the log directories of `marked` are left out.
    """
    beside = pc.is_in(segments["log_dir"], pa.array(sorted(marked), pa.string()))
    stops = pc.is_in(segments["stop"], pa.array([StopReason.TORN_TAIL, StopReason.ZERO_TAIL]))
    torn = pc.fill_null(pc.and_(pc.and_(beside, stops), segments["active"]), False)
    if not marked or not pc.any(torn).as_py():
        return segments
    rows = segment_rows(segments.filter(torn))
    for row in rows:
        row["findings"] = [one for one in row["findings"] if not _is_missing_end(one, row)]
    others = segments.filter(pc.invert(torn))
    return pa.concat_tables([others, pa.Table.from_pylist(rows, schema=SEGMENTS)])


def _is_missing_end(finding: FindingRow, row: SegmentRow) -> bool:
    """Return whether a finding says that the log of a segment ends too early."""
    if finding["kind"] != "missing-records" or finding["file"] != log_of(row):
        return False
    return int(finding["found"]) == end_of(row) < int(finding["expected"])


def find(stages: Stages, partitions: Sequence[Partition], options: RecoverOptions) -> pa.Table:
    """Return what each partition needs: look.FOUND."""
    look = partial(look_at_partition, options=options)
    return stages.executor.map(
        "recover", partitions, look, FOUND, size=lambda one: one.bytes, threads=True
    )


def _in_doubt(segments: pa.Table, units: Collection[Unit]) -> list[Unit]:
    """Return the units whose whole segment must be read, by facts of depth tail.

    A broker recovers these segments, or reads them at its start; or their ends show damage.
    """
    bad = segments.filter(pc.is_in(segments["worst"], pa.array(["damage", "danger"])))
    damaged = {*keys_of(bad), *_half_swapped(units)}
    return [
        unit
        for unit in units
        if unit.base_offset >= 0
        and (unit.recovery or unit.key in damaged or _is_read_at_a_start(unit))
    ]


def _half_swapped(units: Collection[Unit]) -> Iterator[SegmentKey]:
    """Yield the segments beside which a replacement has left `.swap` files.

    The log is the new one, and its index may be that of the old one.
    """
    for unit in units:
        for finding in unit.findings:
            file = paths.parse_segment_file(finding.file)
            if file is not None and file.suffix == SWAP:
                yield SegmentKey(unit.log_dir, unit.partition_dir, file.base_offset)


def _is_read_at_a_start(unit: Unit) -> bool:
    """Return True if the index is empty: a broker then reads the log up to its high watermark."""
    files = dict(zip(paths.SEGMENT_KINDS, unit.files, strict=True))
    log, index = files[paths.LOG], files[paths.OFFSET_INDEX]
    if log is None or index is None or index.size or log.size <= INDEX_INTERVAL_BYTES:
        return False
    above = unit.active or unit.high_watermark < unit.next_base_offset
    return above and unit.base_offset <= unit.high_watermark


def _without(segments: pa.Table, units: Collection[Unit]) -> pa.Table:
    """Return the facts of all other segments than those of `units`."""
    read = {unit.key for unit in units}
    return segments.filter(pa.array([key not in read for key in keys_of(segments)], pa.bool_()))


def partitions_in(seen: Seen, policy: Policy, options: RecoverOptions) -> list[Partition]:
    """Return the partitions to look at, from the facts of all their segments."""
    rows: dict[PartitionKey, list[SegmentRow]] = {}
    own: dict[PartitionKey, SegmentRow] = {}
    for row in segment_rows(seen.segments):
        if row["base_offset"] >= 0:
            rows.setdefault(partition_of(row), []).append(row)
        else:
            own[partition_of(row)] = row
    newer = {row["log_dir"] for of_it in rows.values() for row in of_it if _is_newer(row)}
    newer |= {
        where.log_dir
        for where in {**rows, **own}
        if where.log_dir not in newer and _has_newer_file(where)
    }
    return [
        one._replace(newer=one.log_dir in newer)
        for one in _partitions(seen.units, own, rows, seen.lost, policy, options)
    ]


def _has_newer_file(where: PartitionKey) -> bool:
    """Return whether there is a small file that only brokers of 0.11 or later write.

    Such a broker replays a whole log without a snapshot, also one of magic 0 or 1.
    """
    files = (
        Path(*where, paths.LEADER_EPOCH),
        Path(*where, paths.PARTITION_METADATA),
        Path(where.log_dir, paths.LOG_START),
    )
    return any(exists(file, "looking for files of newer brokers") for file in files)


def _is_newer(row: SegmentRow) -> bool:
    """Return whether a segment's files show a broker of 0.11 or later."""
    return row["snapshot"] is not None or (row["magic_bytes"] or (0, 0, 0))[2] > 0


def _partitions(
    units: Collection[Unit],
    own: Mapping[PartitionKey, SegmentRow],
    rows: Mapping[PartitionKey, list[SegmentRow]],
    lost: Mapping[PartitionKey, str],
    policy: Policy,
    options: RecoverOptions,
) -> Iterator[Partition]:
    wanted = topic_filter(options.topics)
    for unit in units:
        where = PartitionKey(unit.log_dir, unit.partition_dir)
        name = paths.parse_partition(unit.partition_dir)
        if unit.base_offset >= 0 or unit.claims is None or name is None:
            continue
        stops = any(f.kind == "stops-the-broker" for f in unit.findings)
        swapped = has_swapped_log([f.file for f in unit.findings])
        left = where in rows or stops or swapped
        if not left and not (where in own and _is_told(own[where])):
            continue
        if not wanted.matches(name.topic):
            continue
        settings = policy.settings(name.topic)
        remote = settings.remote_storage_enable
        building = Building(
            options.rule, settings.index_interval_bytes, settings.segment_index_bytes
        )
        reason = lost.get(where, "")
        if name.state:
            reason = f"a directory that a broker was moving ({name.state}): it recovers it itself"
        of_it = sorted(rows.get(where, ()), key=lambda row: row["base_offset"])
        here = own.get(where) or of_it[0]
        compacted = _compacted(name.topic, settings)
        yield Partition(
            *where, unit.claims, here, of_it, building, remote, reason, compacted, newer=False
        )


def _is_told(own: SegmentRow) -> bool:
    """Return whether there is something to tell about a partition without any log."""
    kinds = [finding["kind"] for finding in own["findings"]]
    return bool({"missing-records", "end-not-flushed"} & {*kinds}) or (
        stopping_file(Path(own["log_dir"], own["partition_dir"]), ()) is not None
    )


def _compacted(topic: str, settings: TopicSettings) -> bool | None:
    """Return whether a topic is compacted, None if that is not known.

    An entry in the cleaner's checkpoint proves nothing: a topic may have been compacted before.
    """
    if topic in ALWAYS_COMPACTED:
        return True
    policy = settings.cleanup_policy
    return None if policy is None else "compact" in policy
