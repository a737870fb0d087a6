"""The clean-shutdown marker beside a torn tail: whether a recovery removes it.

A marker says that all records were written. A torn tail beside it is cut. If a file names an offset
past the cut, a written batch is lost, and the marker is untrue: a broker that starts would tell the
controller of a clean stop, and its replica would stay eligible as a leader. So the plan removes the
marker, before it cuts the log.

Without a marker a broker recovers all partitions of the log directory. So the plan is then that of
an unclean stop. If a broker's own recovery of a partition that the plan leaves alone would lose
more than with the marker, the marker stays, and with it the torn tail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.errors import BadInput
from kafkats.evidence.borders import end_findings
from kafkats.evidence.claims import claims_of, is_tiered
from kafkats.evidence.looking import epochs_of, index_witnesses
from kafkats.logdir.identity import FileIdentity, identify, listed_row
from kafkats.logdir.partition import scan_partition
from kafkats.logdir.root import LogDir, first_recovered, list_root, read_root
from kafkats.plans.columns import batch_of
from kafkats.plans.operation import Stages
from kafkats.plans.rows import Item, PartitionKey, partition_of, partitions_of
from kafkats.plans.units import Unit
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.items import checkpoint_item
from kafkats.recovery.look import RECOVERY, Partition, RecoverOptions
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.seeing import Seen, find, partitions_in, see
from kafkats.recovery.words import UNMARKED

_LOST: Final = pa.schema([("partition_dir", pa.string()), ("why", pa.string())])


class Untrue(NamedTuple):
    """The marker of a log directory to remove: its file, and by partition what contradicts it."""

    log_dir: str
    file: FileIdentity
    missing: Mapping[PartitionKey, str]


def without_untrue(
    stages: Stages, seen: Seen, policy: Policy, options: RecoverOptions
) -> tuple[Seen, Sequence[Untrue]]:
    """Return the facts to plan from, and the markers that the plan removes.

    The partitions of their log directories are seen as without a marker. Where a marker cannot be
    removed, the torn partitions are among `lost`. Raises StorageFailed.
    """
    trial = replace(options, copy_readable="")
    untrue: list[Untrue] = []
    for log_dir, missing in _past_cuts(stages, seen, policy, trial).items():
        marker = Path(log_dir, paths.CLEAN_SHUTDOWN)
        unmarked = _unmarked(stages, seen, log_dir, policy, options)
        file, why = _regular(marker)
        # What is missing beside the marker was flushed: it was not lost in an unclean stop.
        unmarked = unmarked._replace(lost={**unmarked.lost, **seen.lost})
        why = why or _obstacle(stages, unmarked, log_dir, missing, policy, trial)
        if file is None or why:
            lost = {
                where: f"records are missing: {of_it}; {why}" for where, of_it in missing.items()
            }
            seen = seen._replace(lost={**seen.lost, **lost})
        else:
            untrue.append(Untrue(log_dir, file, missing))
            seen = _merged(seen, unmarked, log_dir)
    return seen, untrue


def marker_item(marker: Untrue, rule: str) -> Item:
    """Return the item that removes a marker."""
    (_, first), *others = marker.missing
    more = f", and {len(others)} more" if others else ""
    reason = f"it is not true of {first}{more}, whose torn tail is cut; without it {UNMARKED}"
    return checkpoint_item(marker.log_dir, [first], rule) | {
        "file": paths.CLEAN_SHUTDOWN,
        "action": "remove",
        "reason": reason,
        "before": listed_row(marker.file),
    }


def _past_cuts(
    stages: Stages, seen: Seen, policy: Policy, options: RecoverOptions
) -> dict[str, dict[PartitionKey, str]]:
    """Return by log directory the partitions that a plan would cut beside a marker below an offset
    that a file names, and which files do.
    """
    past: dict[str, dict[PartitionKey, str]] = {}
    beside = pc.and_(seen.segments["clean"], seen.segments["active"])
    ends = pc.fill_null(pc.not_equal(seen.segments["stop"], ""), False)
    stopped = partitions_of(seen.segments.filter(pc.and_(beside, ends)))
    if not stopped:
        return past
    torn = [one for one in partitions_in(seen, policy, options) if one.key in stopped]
    rows = _looked(stages, torn, options)
    for one in torn:
        row = rows[one.key]
        cut = not row["blocked"] and row["cut_bytes"] + row["zero_bytes"]
        why = _named_past(one, row["log_end"]) if cut else ""
        if why:
            past.setdefault(one.log_dir, {})[one.key] = why
    return past


def _looked(
    stages: Stages, partitions: Sequence[Partition], options: RecoverOptions
) -> dict[PartitionKey, dict[str, Any]]:
    """Return the rows of look.RECOVERY by partition."""
    found = find(stages, partitions, options).select(RECOVERY.names)
    return {partition_of(row): row for row in found.to_pylist()}


def _named_past(partition: Partition, log_end: int) -> str:
    """Return which files name offsets past the end of a log, "" for none."""
    base = max(row["base_offset"] for row in partition.rows)
    log = paths.segment_file(base)
    indexes = tuple(index_witnesses(partition.directory, base, log_end))
    claims = partition.claims._replace(end_settled=True)
    epochs = epochs_of(partition.directory)
    return next((f.reason for f in end_findings(claims, epochs, log, log_end, indexes)), "")


def _unmarked(
    stages: Stages, seen: Seen, log_dir: str, policy: Policy, options: RecoverOptions
) -> Seen:
    """Return the facts of one log directory as without its marker."""
    units = [unit for unit in seen.units if unit.log_dir == log_dir]
    bases: dict[str, list[int]] = {}
    for unit in units:
        if unit.base_offset >= 0:
            bases.setdefault(unit.partition_dir, []).append(unit.base_offset)
    again = [_without_marker(unit, bases.get(unit.partition_dir, [])) for unit in units]
    return see(stages, again, policy, options, marked=(log_dir,))


def _without_marker(unit: Unit, bases: Sequence[int]) -> Unit:
    """Return a unit as it is listed without a marker. `bases` are those of its partition."""
    if unit.claims is None:
        return unit
    first = first_recovered(bases, max(unit.claims.recovery_point, 0))
    recovery = unit.base_offset >= first
    claims = unit.claims._replace(clean=False)
    return unit._replace(clean=False, claims=claims, recovery=recovery)


def _merged(seen: Seen, unmarked: Seen, log_dir: str) -> Seen:
    """Return the facts with those of one log directory as without its marker."""
    others = pa.array([one != log_dir for one in seen.segments["log_dir"].to_pylist()], pa.bool_())
    return Seen(
        [*(unit for unit in seen.units if unit.log_dir != log_dir), *unmarked.units],
        pa.concat_tables([seen.segments.filter(others), unmarked.segments]),
        seen.evidence,
        unmarked.lost,
    )


def _regular(marker: Path) -> tuple[FileIdentity | None, str]:
    """Return the file of a marker, or why it cannot be removed. Raises StorageFailed."""
    try:
        file = identify(marker)
    except BadInput as e:
        return None, f"{marker.name} is untrue, and {e.reason}: remove it yourself, and plan again"
    return file, "" if file else f"{marker.name} is gone: plan again"


def _obstacle(
    stages: Stages,
    unmarked: Seen,
    log_dir: str,
    missing: Mapping[PartitionKey, str],
    policy: Policy,
    options: RecoverOptions,
) -> str:
    """Return why a marker cannot be removed, "" if it can.

    The plan must recover the partitions of `missing`, and a broker must lose nothing more in those
    that the plan leaves to it.
    """
    rows = _looked(stages, partitions_in(unmarked, policy, options), options)
    for where in missing:
        if blocked := rows[where]["blocked"]:
            return f"without the marker: {blocked}"
    names = list_root(log_dir)
    planned = {where.partition_dir for where, row in rows.items() if not row["blocked"]}
    left = [PartitionKey(log_dir, one) for one in names.loaded if one not in planned]
    look = partial(_lost_without, tiered=is_tiered(names))
    lost = stages.executor.map("recover", left, look, _LOST, size=lambda _: 1, threads=True)
    for row in lost.to_pylist():
        if row["why"]:
            return (
                f"the marker is not true, but without it a broker recovers {row['partition_dir']},"
                f" too, which this plan does not: {row['why']}. Recover or restore that one first"
            )
    return ""


def _lost_without(where: PartitionKey, *, tiered: bool) -> pa.RecordBatch:
    """Return a row of _LOST: what a broker's start loses in a partition only without a marker."""
    log_dir, name = where
    parsed = paths.parse_partition(name)
    path = Path(log_dir, name)
    why = ""
    if path.is_symlink():
        why = "a symbolic link, which kafkats does not follow"
    elif parsed is None or parsed.state not in ("delete", "stray"):
        root = read_root(log_dir)
        with_it, without = (
            _start(path, replace(root, clean_shutdown=clean), tiered=tiered)
            for clean in (True, False)
        )
        why = next(_worse(with_it, without), "")
    return batch_of([{"partition_dir": name, "why": why}], _LOST)


def _start(path: Path, root: LogDir, *, tiered: bool) -> PartitionStart:
    partition = scan_partition(path)
    claims = claims_of(partition, root, live=False, tiered=tiered)
    return predict(partition, claims, NEWEST, log_dir=str(root.path))


def _worse(before: PartitionStart, after: PartitionStart) -> Iterator[str]:
    """Yield what is wrong `after`, and was not before."""
    if after.outcome not in ("loads", before.outcome):
        yield after.words
    known = {finding.kind for finding in before.findings}
    for finding in after.findings:
        if finding.severity in ("damage", "danger") and finding.kind not in known:
            yield f"{finding.file}: {finding.reason}"
    if after.lost_offsets > before.lost_offsets:
        yield f"the log would end at offset {after.log_end_offset}"
