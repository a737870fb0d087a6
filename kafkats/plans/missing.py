"""Partitions that no plan changes: with missing records, or that cannot be listed.

Other files of the log directory show that these records existed. A change would match the remaining
records and destroy the evidence of the missing ones. So every plan has a blocked row for such a
partition and leaves it unchanged, for a recovery from a replica or a backup. `--accept-loss
offsets` accepts the loss. Of a partition whose directory cannot be listed nothing is known: its
blocked row tells that the plan is not of the whole log directory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import UsageError
from kafkats.generations import OFFSETS_LOSS
from kafkats.plans.facts import rows_with
from kafkats.plans.plan import ITEMS, item_of
from kafkats.plans.rows import (
    FindingRow,
    Item,
    Options,
    PartitionKey,
    SegmentRow,
    partition_of,
    partitions_of,
    segment_rows,
)
from kafkats.text import PLAN_WITHOUT_OFFSETS, Flag

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

KIND: Final = "missing-records"
UNREADABLE: Final = "unreadable"

Missing: TypeAlias = Mapping[PartitionKey, str]
"""Why a partition is left unchanged."""


@dataclass(frozen=True, kw_only=True)
class Accepting:
    """Options of an operation that leaves partitions with missing records alone.

    With the loss `offsets` it changes them, too. Raises UsageError for another loss.
    """

    accept_loss: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.accept_loss) - {OFFSETS_LOSS})
        if unknown:
            raise UsageError(
                Flag("--accept-loss"), f" takes only {OFFSETS_LOSS} here, not {unknown[0]!r}"
            )


def missing_records(segments: pa.Table, accepted: Collection[str] = ()) -> Missing:
    """Return partitions of facts.SEGMENTS with missing records, {} if `accepted` has offsets."""
    return (
        {}
        if OFFSETS_LOSS in accepted
        else {where: _reason(finding) for where, (_, finding) in _lacking(segments).items()}
    )


def with_blocked(items: pa.Table, segments: pa.Table, missing: Missing, rule: str) -> pa.Table:
    """Return `items` (plan.ITEMS) with a blocked row for each partition of `missing`.

    Each partition of `segments` (facts.SEGMENTS) that could not be listed has one, too.
    """
    blocked = partitions_of(items.filter(pc.equal(items["action"], "blocked")))
    lacking = _lacking(segments) if missing else {}
    rows = [
        blocked_row(lacking[where][0], lacking[where][1]["file"], why, rule)
        for where, why in missing.items()
        if where not in blocked
    ]
    rows += _unlisted(segments, rule)
    return (
        pa.concat_tables([items.cast(ITEMS), pa.Table.from_pylist(rows, schema=ITEMS)])
        if rows
        else items
    )


def options_of(options: DataclassInstance) -> Options:
    """Return a plan's options, with those that came later only if not empty.

    So the digests of other plans do not change.
    """
    later = ("accept_loss", "copy_readable", "credit", "mend_magic")
    return {name: value for name, value in asdict(options).items() if name not in later or value}


GAP_CURE: Final = (
    "if another in-sync replica leads, set the directory aside, so that the broker fetches it"
    f" again; on the only replica, {PLAN_WITHOUT_OFFSETS}"
)


MISSING_CURE: Final = f"restore it from a replica, or {PLAN_WITHOUT_OFFSETS}"


def gaps(segments: pa.Table, accepted: Collection[str] = ()) -> Missing:
    """Return partitions of facts.SEGMENTS of which an unclean stop lost records between segments.

    A start recovers the later segment and keeps it; a follower fetches from the log end, so the gap
    is never filled. {} if `accepted` has offsets.
    """
    if OFFSETS_LOSS in accepted:
        return {}
    return {
        where: f"records are missing: {finding['reason']}; {GAP_CURE}"
        for where, (row, finding) in _lacking(segments, "gap-not-flushed").items()
        if not row["stop"]
    }


def _lacking(
    segments: pa.Table, kind: str = KIND
) -> dict[PartitionKey, tuple[SegmentRow, FindingRow]]:
    """Return the first row of facts.SEGMENTS with such a finding, and the finding, by partition."""
    lacking: dict[PartitionKey, tuple[SegmentRow, FindingRow]] = {}
    for row, finding in rows_with(segments, (kind,), segments.column_names):
        lacking.setdefault(partition_of(row), (row, finding))
    return lacking


def _unlisted(segments: pa.Table, rule: str) -> Iterator[Item]:
    """Yield a blocked row per partition directory that could not be listed."""
    of_partitions = segments.filter(
        pc.and_(pc.less(segments["base_offset"], 0), pc.not_equal(segments["worst"], ""))
    )
    for row in segment_rows(of_partitions):
        for finding in row["findings"]:
            if finding["kind"] == UNREADABLE and finding["file"] == row["partition_dir"]:
                yield blocked_row(row, finding["file"], finding["reason"], rule)


def _reason(finding: FindingRow) -> str:
    return f"records are missing: {finding['reason']}; {MISSING_CURE}"


def blocked_row(segment: SegmentRow, file: str, reason: str, rule: str) -> Item:
    """Return a blocked row of plan.ITEMS for a file of a segment of which little may be known."""
    following = segment["next_base_offset"]
    return item_of(segment, file, rule, "blocked", reason) | {
        "directory_ctime_ns": segment["directory_ctime_ns"] or 0,
        "next_base_offset": -1 if following is None else following,
        "before": segment["log"],
        "log_valid_bytes": -1,
        "index_interval_bytes": -1,
        "segment_index_bytes": -1,
    }
