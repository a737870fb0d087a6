"""Settings that were given and that the files contradict, as remarks of a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.counts import counted
from kafkats.logdir.strict_json import Json
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.plans.facts import rows_with
from kafkats.plans.plan import Plan
from kafkats.plans.rows import PartitionKey, item_rows, partition_of

KIND: Final = "other-interval"
_NOTE: Final = "sparser"


class Sparser(NamedTuple):
    """Partitions whose planned indexes are sparser than others: `given` and `beside` are the two
    index.interval.bytes. `first` is the path of the first partition.
    """

    given: str
    beside: str
    partitions: int
    first: str


def interval_remarks(plan: Plan, segments: pa.Table) -> list[str]:
    """Return a remark per index.interval.bytes that makes planned indexes sparser than others.

    `segments` are the facts (facts.SEGMENTS, depth full) from which the plan was made.
    """
    return sparser_remarks(sparser(plan, segments))


def noted(plan: Plan, segments: pa.Table) -> Mapping[str, Json]:
    """Return `sparser` as a note of a plan, of which `noted_remarks` makes remarks."""
    return {_NOTE: [list(one) for one in sparser(plan, segments)]}


def noted_remarks(notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the remarks of `interval_remarks`, from the notes of groups in their order."""
    return sparser_remarks(Sparser(*found) for one in notes for found in one[_NOTE])


def sparser(plan: Plan, segments: pa.Table) -> list[Sparser]:
    """Return where a plan writes indexes that are sparser than others; arguments as above."""
    written = _written(plan)
    partitions: defaultdict[tuple[str, str], set[PartitionKey]] = defaultdict(set)
    for row, finding in rows_with(segments, (KIND,)):
        if (where := partition_of(row)) in written:
            partitions[finding["expected"], finding["found"]].add(where)
    return [
        Sparser(*intervals, len(of_them), "/".join(min(of_them)))
        for intervals, of_them in partitions.items()
    ]


def sparser_remarks(found: Iterable[Sparser]) -> list[str]:
    """Return a remark per pair of intervals. `found` are of different partitions, in order."""
    together: dict[tuple[str, str], Sparser] = {}
    for one in found:
        before = together.setdefault((one.given, one.beside), one._replace(partitions=0))
        together[one.given, one.beside] = before._replace(
            partitions=before.partitions + one.partitions
        )
    return [
        f"index.interval.bytes is given as {given}, and indexes of"
        f" {counted(partitions, 'partition')} that this plan writes to have {beside}"
        f" (first {first}): what it writes is sparser; leave the key out, and it is inferred"
        for _, (given, beside, partitions, first) in sorted(together.items())
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
