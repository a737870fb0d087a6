"""The plan of a recovery: what a broker's recovery would do, and a log end that starts at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config import Policy
from kafkats.config.settings import TopicSettings
from kafkats.config.topics import topic_filter
from kafkats.counts import counted
from kafkats.errors import Refused, exists
from kafkats.evidence.claims import ALWAYS_COMPACTED
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.plans.contradictions import interval_remarks
from kafkats.plans.facts import unseen_logs
from kafkats.plans.missing import (
    Missing,
    gaps,
    missing_records,
    options_of,
    with_blocked,
)
from kafkats.plans.operation import Planned, Stages
from kafkats.plans.plan import ITEMS, Plan, make_plan, sum_of, totals_of
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    Totals,
    keys_of,
    partition_of,
    segment_rows,
)
from kafkats.plans.units import Unit, refuse_parts
from kafkats.recovery.checkpoints import OFFSETS, read_failure
from kafkats.recovery.loading import SWAP
from kafkats.recovery.log_end import checkpoint_item
from kafkats.recovery.look import (
    FOUND,
    RECOVERY,
    Partition,
    RecoverOptions,
    look_at_partition,
)
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.stopping import stopping_file
from kafkats.recovery.swaps import Building, has_swapped_log
from kafkats.segment.plain_budget import expect

OPERATION: Final = "recover"
_SHOWN: Final = 20
"""Logs with lost records that are named."""
_INSTEAD: Final = {
    paths.RECOVERY_POINT: "every log is recovered from its start, as by a broker",
    paths.HIGH_WATERMARK: "no log end is compared with it",
    paths.LOG_START: "each log starts at its first segment, as for a broker",
    paths.CLEANER: "a broker cleans these logs from their start",
}
"""What holds where a checkpoint cannot be read."""


def look_and_plan(
    stages: Stages, units: Sequence[Unit], policy: Policy, options: RecoverOptions
) -> Planned:
    """Look at the ends of all segments and into those to recover, and plan.

    Raises UsageError for single segments, Refused for a log directory that a broker holds.
    """
    refuse_parts(units)
    _refuse_not_a_log_dir(units)
    expect(sum(unit.bytes for unit in units if unit.recovery))
    ends = stages.ends(units)
    doubtful = _in_doubt(ends, units)
    read = stages.verify(doubtful, rule=options.rule, policy=policy)
    segments = pa.concat_tables([_without(ends, doubtful), read])
    partitions = _partitions_in(units, segments, policy, options)
    look = partial(look_at_partition, options=options)
    found = stages.executor.map(
        "recover", partitions, look, FOUND, size=lambda one: one.bytes, threads=True
    )
    plan = plan_recover(found, segments, options)
    beside = {"recovery": found.select(RECOVERY.names)}
    remarks = [
        *_unreadable_checkpoints(segments),
        *_losses(found),
        *interval_remarks(plan, segments),
    ]
    return Planned(plan, segments, beside, remarks)


def _losses(found: pa.Table) -> Iterator[str]:
    """Yield a remark per log, from rows of look.FOUND, that will lack records at its end."""
    losing = found.filter(pc.not_equal(found["lost"], ""))
    for row in losing.slice(0, _SHOWN).select(RECOVERY.names).to_pylist():
        yield f"{row['log_dir']}/{row['partition_dir']}: {_loss(row)}"
    if losing.num_rows > _SHOWN:
        yield (
            f"and {counted(losing.num_rows - _SHOWN, 'more log')} with lost records:"
            " recovery.parquet in the plan's folder lists all"
        )


def _loss(row: Mapping[str, Any]) -> str:
    """Return what a log lacks, and what that means for its replicas.

    A high watermark above all that is known is likely wrong itself.
    """
    if not row["behind_high_watermark"] or row["known_end"] < row["high_watermark"]:
        return str(row["lost"])
    ends = "a broker's start ends the log" if row["blocked"] else "the log ends"
    return (
        f"{ends} at {row['log_end']}, below its high watermark {row['high_watermark']}: do not"
        " force leadership here"
    )


def _unreadable_checkpoints(segments: pa.Table) -> Iterator[str]:
    """Yield a remark per checkpoint that cannot be read, from facts (facts.SEGMENTS)."""
    reported: set[tuple[str, str]] = set()
    found = segments.filter(pc.not_equal(segments["worst"], ""))
    for row in found.select(["log_dir", "findings"]).to_pylist():
        for finding in row["findings"]:
            where = row["log_dir"], finding["file"]
            instead = _INSTEAD.get(finding["file"])
            if instead and finding["kind"] == "unreadable" and where not in reported:
                reported.add(where)
                yield f"{'/'.join(where)}: {finding['reason']}: {instead}"


def _refuse_not_a_log_dir(units: Collection[Unit]) -> None:
    """Raise Refused for a directory that a broker holds, or whose checkpoints are not known."""
    for unit in units:
        if unit.live:
            raise Refused("a broker holds this log directory: stop it first", path=unit.log_dir)
        if unit.claims is not None and not unit.claims.rooted:
            raise Refused(
                "not in a log directory: the recovery points of its partitions are not known",
                path=f"{unit.log_dir}/{unit.partition_dir}",
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


def _partitions_in(
    units: Collection[Unit], segments: pa.Table, policy: Policy, options: RecoverOptions
) -> list[Partition]:
    """Return the partitions to look at, from the facts (facts.SEGMENTS) of all their segments."""
    rows: dict[PartitionKey, list[SegmentRow]] = {}
    own: dict[PartitionKey, SegmentRow] = {}
    for row in segment_rows(segments):
        if row["base_offset"] >= 0:
            rows.setdefault(partition_of(row), []).append(row)
        else:
            own[partition_of(row)] = row
    lost = {
        **gaps(segments, options.accept_loss),
        **missing_records(segments, options.accept_loss),
        **unseen_logs(segments),
    }
    newer = {row["log_dir"] for of_it in rows.values() for row in of_it if _is_newer(row)}
    newer |= {
        where.log_dir
        for where in {**rows, **own}
        if where.log_dir not in newer and _has_newer_file(where)
    }
    return [
        one._replace(newer=one.log_dir in newer)
        for one in _partitions(units, own, rows, lost, policy, options)
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


def plan_recover(found: pa.Table, segments: pa.Table, options: RecoverOptions) -> Plan:
    """Return the plan from what each partition needs (look.FOUND), and from the facts."""
    items = pa.Table.from_pylist(
        [item for row in found["items"].to_pylist() for item in row], schema=ITEMS
    )
    items = with_blocked(items, segments, _missing(segments, options), options.rule)
    points = items.filter(pc.equal(items["file"], paths.RECOVERY_POINT))
    by_log_dir: dict[str, list[str]] = {}
    for row in points.select(PartitionKey._fields).to_pylist():
        by_log_dir.setdefault(row["log_dir"], []).append(row["partition_dir"])
    roots = [
        checkpoint_item(log_dir, partitions, options.rule)
        for log_dir, partitions in by_log_dir.items()
    ]
    stops = [
        row for log_dir in _newer_roots(found) for row in _unread(log_dir, by_log_dir, options)
    ]
    items = pa.concat_tables([items, pa.Table.from_pylist([*roots, *stops], schema=ITEMS)])
    return make_plan(OPERATION, options_of(options), _totals(items, found, segments), items)


def _newer_roots(found: pa.Table) -> list[str]:
    """Return the log directories, from rows of look.FOUND, that have checkpoints of log starts.

    Brokers of 0.11 and later write them; to older ones an unreadable checkpoint is an empty one.
    """
    log_dirs = dict.fromkeys(found["log_dir"].to_pylist())
    return [
        one for one in log_dirs if exists(Path(one, paths.LOG_START), "looking for the log starts")
    ]


def _unread(log_dir: str, recovered: Collection[str], options: RecoverOptions) -> Iterator[Item]:
    """Yield a blocked row per checkpoint for which a broker leaves the log directory out.

    `recovered` are the log directories whose recovery points the plan writes again.
    """
    for file, instead in _INSTEAD.items():
        if (file == paths.RECOVERY_POINT and log_dir in recovered) or file == paths.CLEANER:
            continue
        failure = read_failure(NEWEST, Path(log_dir, file), OFFSETS)
        if failure is not None:
            words = f"Error while reading checkpoint file {Path(log_dir, file)}: {failure.words}"
            reason = (
                f"a broker does not load this log directory: {words}; move the file away, and"
                f" {instead}"
            )
            row = checkpoint_item(log_dir, [log_dir], options.rule)
            yield row | {"file": file, "action": "blocked", "reason": reason}


def _missing(segments: pa.Table, options: RecoverOptions) -> Missing:
    """Return the partitions with missing records, also those without any log."""
    wanted = topic_filter(options.topics)
    missing = missing_records(segments, options.accept_loss)
    return {
        where: why
        for where, why in missing.items()
        if (name := paths.parse_partition(where.partition_dir)) and wanted.matches(name.topic)
    }


def _totals(items: pa.Table, found: pa.Table, segments: pa.Table) -> Totals:
    writes = items.filter(pc.not_equal(items["action"], "blocked"))
    logs = writes.filter(pc.ends_with(writes["file"], paths.LOG))
    planned = found.filter(pc.equal(found["blocked"], ""))
    whole = writes.filter(pc.not_equal(writes["action"], "truncate"))
    saved = sum_of(planned["cut_bytes"])
    totals = totals_of(
        items,
        segments,
        changed=sum_of(planned["segments"]),
        read_bytes=sum_of(found["bytes"]),
        write_bytes=sum_of(pc.max_element_wise(whole["after_bytes"], 0)) + saved,
    )
    copied = sum_of(found["copied_bytes"])
    if copied:  # so the digests of other plans do not change
        totals["copied_bytes"] = copied
    added = pc.and_(pc.equal(logs["action"], "add"), pc.equal(logs["after_bytes"], 0))
    return {
        **totals,
        "segments_added": sum_of(added),
        "recovery_segments": sum_of(found["segments"]),
        "recovery_bytes": sum_of(found["bytes"]),
        "cut_bytes": saved,
        "zero_bytes": sum_of(planned["zero_bytes"]),
        "dropped_segments": sum_of(planned["dropped_segments"]),
        "dropped_bytes": sum_of(planned["dropped_bytes"]),
        "behind_high_watermark": sum_of(pc.greater(found["behind_high_watermark"], 0)),
    }
