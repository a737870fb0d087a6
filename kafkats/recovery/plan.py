"""The plan of a recovery: what a broker's recovery would do, and a log end that starts at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.config.topics import topic_filter
from kafkats.counts import counted
from kafkats.errors import Refused, exists
from kafkats.plans.contradictions import interval_remarks
from kafkats.plans.missing import (
    Missing,
    missing_records,
    options_of,
    with_blocked,
)
from kafkats.plans.operation import Planned, Stages
from kafkats.plans.plan import ITEMS, Plan, make_plan, sum_of, totals_of
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    Totals,
)
from kafkats.plans.units import Unit, refuse_parts
from kafkats.recovery.checkpoints import OFFSETS, read_failure
from kafkats.recovery.items import checkpoint_item
from kafkats.recovery.look import (
    RECOVERY,
    RecoverOptions,
)
from kafkats.recovery.marker import Untrue, marker_item, without_untrue
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.seeing import Seen, find, partitions_in, see

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
    seen, untrue = without_untrue(stages, see(stages, units, policy, options), policy, options)
    found = find(stages, partitions_in(seen, policy, options), options)
    segments = seen.segments
    plan = plan_recover(found, seen, untrue, options)
    beside = {"recovery": found.select(RECOVERY.names)}
    remarks = [
        *_unreadable_checkpoints(segments),
        *_losses(found),
        *_not_true(untrue),
        *interval_remarks(plan, segments),
    ]
    return Planned(plan, segments, beside, remarks)


def of_log_dirs(planned: Planned) -> Iterator[tuple[str, Planned]]:
    """Yield the log directories of a plan, each with the part of the plan in it."""

    def own(table: pa.Table) -> pa.Table:
        return table.filter(pc.equal(table["log_dir"], log_dir))

    found, options = planned.beside["recovery"], planned.plan.header["options"]
    for log_dir in found["log_dir"].unique().to_pylist():
        items, segments, rows = own(planned.plan.items), own(planned.segments), own(found)
        plan = make_plan(OPERATION, options, _totals(items, rows, segments), items)
        yield log_dir, Planned(plan, segments, {"recovery": rows})


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


def _not_true(markers: Sequence[Untrue]) -> Iterator[str]:
    """Yield a remark per log that is cut below an offset which was written, by its marker."""
    missing = [item for marker in markers for item in marker.missing.items()]
    for where, why in missing[:_SHOWN]:
        yield f"{'/'.join(where)}: {why}; the clean-shutdown marker is removed"
    if len(missing) > _SHOWN:
        yield f"and {counted(len(missing) - _SHOWN, 'more log')} that a marker is not true of"


def plan_recover(
    found: pa.Table, seen: Seen, untrue: Sequence[Untrue], options: RecoverOptions
) -> Plan:
    """Return the plan from what each partition needs (look.FOUND), and from the facts.

    `untrue` are the clean-shutdown markers to remove.
    """
    items = pa.Table.from_pylist(
        [item for row in found["items"].to_pylist() for item in row], schema=ITEMS
    )
    items = with_blocked(items, seen.evidence, _missing(seen.evidence, options), options.rule)
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
    roots += [marker_item(marker, options.rule) for marker in untrue]
    items = pa.concat_tables([items, pa.Table.from_pylist([*roots, *stops], schema=ITEMS)])
    totals = _totals(items, found, seen.segments)
    if untrue:  # so the digests of other plans do not change
        totals["markers_removed"] = len(untrue)
    return make_plan(OPERATION, options_of(options), totals, items)


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
