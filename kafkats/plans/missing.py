"""Partitions with missing records: no plan changes them until somebody accepts the loss.

Other files of the log directory show that these records existed. A change would match the remaining
records and destroy the evidence of the missing ones. So every plan has a blocked row for such a
partition and leaves it unchanged, for a recovery from a replica or a backup. `--accept-loss
offsets` accepts the loss.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import UsageError
from kafkats.generations import OFFSETS_LOSS
from kafkats.plans.plan import ITEMS, item_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

KIND: Final = "missing-records"
_PREFIX: Final = "records are missing: "
_NOT_KNOWN: Final = dict.fromkeys(
    ("log_valid_bytes", "index_interval_bytes", "segment_index_bytes"), -1
)

Missing = Mapping[tuple[str, str], str]
"""Why a partition is left unchanged, by (log_dir, partition_dir)."""


def check_accepted(accepted: Collection[str]) -> None:
    """Raise UsageError for a loss other than missing records."""
    unknown = sorted(set(accepted) - {OFFSETS_LOSS})
    if unknown:
        raise UsageError(f"no loss is called {unknown[0]!r} here; known is {OFFSETS_LOSS}")


def missing_records(segments: pa.Table, accepted: Collection[str] = ()) -> Missing:
    """Return partitions of report.SEGMENTS with missing records, {} if `accepted` has offsets."""
    return (
        {}
        if OFFSETS_LOSS in accepted
        else {where: why for where, (_, why) in _lacking(segments).items()}
    )


def with_blocked(items: pa.Table, segments: pa.Table, missing: Missing, rule: str) -> pa.Table:
    """Return `items` (plan.ITEMS) with a blocked row for each partition of `missing`."""
    blocked = (
        items
        .filter(pc.equal(items["action"], "blocked"))
        .select(["log_dir", "partition_dir"])
        .to_pylist()
    )
    told = {(row["log_dir"], row["partition_dir"]) for row in blocked}
    lacking = _lacking(segments) if missing else {}
    rows = [
        _row(lacking[where][0], why, rule) for where, why in missing.items() if where not in told
    ]
    return (
        pa.concat_tables([items.cast(ITEMS), pa.Table.from_pylist(rows, schema=ITEMS)])
        if rows
        else items
    )


def options_of(options: DataclassInstance) -> dict[str, Any]:
    """Return a plan's options, with `accept_loss` only if not empty.

    So the digests of other plans do not change.
    """
    return {
        name: value for name, value in asdict(options).items() if name != "accept_loss" or value
    }


def _lacking(segments: pa.Table) -> dict[tuple[str, str], tuple[dict[str, Any], str]]:
    """Return the first row of report.SEGMENTS with such a finding, and the reason, by partition."""
    found = pc.list_flatten(segments["findings"])
    ours = pc.equal(pc.struct_field(found, "kind"), KIND)
    rows = segments.take(pc.list_parent_indices(segments["findings"]).filter(ours))
    lacking: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}
    for row, finding in zip(rows.to_pylist(), found.filter(ours).to_pylist(), strict=True):
        lacking.setdefault(
            (row["log_dir"], row["partition_dir"]), (row, f"{_PREFIX}{finding['reason']}")
        )
    return lacking


def _row(segment: Mapping[str, Any], why: str, rule: str) -> dict[str, Any]:
    file = next(finding["file"] for finding in segment["findings"] if finding["kind"] == KIND)
    return blocked_row(segment, file, why, rule)


def blocked_row(segment: Mapping[str, Any], file: str, why: str, rule: str) -> dict[str, Any]:
    """Return a blocked row of plan.ITEMS for a file of a segment of which little may be known."""
    item = item_of(segment, segment["base_offset"], file, rule)
    known = {
        name: value
        for name, value in item.items()
        if value is not None or name in ("before", "log")
    }
    return (
        {"directory_ctime_ns": 0, "next_base_offset": -1}
        | known
        | _NOT_KNOWN
        | {"action": "blocked", "reason": why, "before": segment["log"]}
    )
