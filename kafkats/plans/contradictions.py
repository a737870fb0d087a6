"""Settings that were given and that the files contradict, as remarks of a plan."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.counts import counted
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.plans.facts import rows_with
from kafkats.plans.plan import Plan
from kafkats.plans.rows import PartitionKey, item_rows, partition_of

KIND: Final = "other-interval"


def interval_remarks(plan: Plan, segments: pa.Table) -> list[str]:
    """Return a remark per index.interval.bytes that makes planned indexes sparser than others.

    `segments` are the facts (facts.SEGMENTS, depth full) from which the plan was made.
    """
    written = _written(plan)
    partitions: defaultdict[tuple[str, str], dict[PartitionKey, str]] = defaultdict(dict)
    for row, finding in rows_with(segments, (KIND,)):
        if (where := partition_of(row)) in written:
            partitions[finding["expected"], finding["found"]].setdefault(where, finding["reason"])
    return [
        f"index.interval.bytes is given as {given}, and indexes of "
        f"{counted(len(of_them), 'partition')} that"
        " this plan writes to have"
        f" {beside} (first {'/'.join(min(of_them))}): what it writes is sparser; leave the key"
        " out, and it is inferred"
        for (given, beside), of_them in sorted(partitions.items())
    ]


def _written(plan: Plan) -> set[PartitionKey]:
    """Return the partitions in which the plan builds an index with a given interval."""
    items = plan.items
    wanted = pc.and_(
        pc.not_equal(items["action"], "blocked"), pc.equal(items["settings_from"], "given")
    )
    built = pc.and_(wanted, pc.is_in(items["action"], pa.array(["add", "replace"])))
    ends = (OFFSET_INDEX, TIME_INDEX)
    rows = item_rows(items.filter(built).select(["log_dir", "partition_dir", "file"]))
    return {partition_of(row) for row in rows if row["file"].endswith(ends)}
