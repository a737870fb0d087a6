"""Settings that were given and that the files contradict, as remarks of a plan."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.counts import counted
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.plans.plan import Plan

KIND: Final = "other-interval"


def interval_remarks(plan: Plan, segments: pa.Table) -> list[str]:
    """Return a remark per index.interval.bytes that makes planned indexes sparser than others.

    `segments` are the facts (facts.SEGMENTS, depth full) from which the plan was made.
    """
    found = pc.list_flatten(segments["findings"])
    ours = pc.equal(pc.struct_field(found, "kind"), KIND)
    rows = segments.select(["log_dir", "partition_dir"]).take(
        pc.list_parent_indices(segments["findings"]).filter(ours)
    )
    written = _written(plan)
    partitions: defaultdict[tuple[str, str], dict[tuple[str, str], str]] = defaultdict(dict)
    for row, finding in zip(rows.to_pylist(), found.filter(ours).to_pylist(), strict=True):
        where = row["log_dir"], row["partition_dir"]
        if where in written:
            partitions[finding["expected"], finding["found"]].setdefault(where, finding["reason"])
    return [
        f"index.interval.bytes is given as {given}, and indexes of "
        f"{counted(len(of_them), 'partition')} that"
        " this plan writes to have"
        f" {beside} (first {'/'.join(min(of_them))}): what it writes is sparser; leave the key"
        " out, and it is inferred"
        for (given, beside), of_them in sorted(partitions.items())
    ]


def _written(plan: Plan) -> set[tuple[str, str]]:
    """Return the partitions in which the plan builds an index with a given interval."""
    items = plan.items
    wanted = pc.and_(
        pc.not_equal(items["action"], "blocked"), pc.equal(items["settings_from"], "given")
    )
    built = pc.and_(wanted, pc.is_in(items["action"], pa.array(["add", "replace"])))
    rows = items.filter(built).select(["log_dir", "partition_dir", "file"]).to_pylist()
    return {
        (row["log_dir"], row["partition_dir"])
        for row in rows
        if row["file"].endswith((OFFSET_INDEX, TIME_INDEX))
    }
