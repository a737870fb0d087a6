"""Plan in parts: tasks decide groups of partition directories, the driver adds up what they found.

The first round lists, reads and decides each group where its files are. Remarks and totals of the
whole plan are made from the aggregates of the groups. The second round writes the rows of the plan
and the tables beside it, one group at a time (docs/decisions/plans.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import pyarrow as pa

from kafkats.config.given import Given
from kafkats.config.policy import Policy
from kafkats.execution.executor import Executor
from kafkats.execution.local import LocalExecutor
from kafkats.flow.apply import refuse_unpermitted
from kafkats.flow.looking import LogStages
from kafkats.logdir.volume import refuse_copies
from kafkats.logdir.workarea import ROOT
from kafkats.operations import OPERATIONS
from kafkats.plans.deciding import (
    DECIDED,
    ITEMS_TABLE,
    Decided,
    Settling,
    decided_in,
    hand_over,
    move_part,
    sums_of,
)
from kafkats.plans.dialects import read_as
from kafkats.plans.directories import Directories, divide
from kafkats.plans.facts import Summary, sum_of_summaries, summary, write_segments
from kafkats.plans.holes import holes_of, keep_holes
from kafkats.plans.listed import check_listed
from kafkats.plans.operation import Joined, Parts, Planned, Stages
from kafkats.plans.parts import PlanInParts, commit_plan, plan_in_parts
from kafkats.plans.plan import ITEMS, AnyPlan, Plan, make_plan, make_sealed, write_plan
from kafkats.plans.replacing import part_file

if TYPE_CHECKING:
    from kafkats.plans.rows import Totals

_OF_REPORTS: Final = ("segments", "holes")
LARGE: Final = 100_000
"""The most segments that are decided at once."""
TABLE_ROWS: Final = 100_000
"""The most rows that a plan keeps in one table after it was decided in parts."""
PART_SEGMENTS: Final = 10_000
"""Segments of a part: about 40 MB where it is decided."""
_SEGMENT_BYTES: Final = 64 * 1024
"""Read of a segment, about, where only its ends are read."""


class Asked(NamedTuple):
    """The facts that a task needs to decide a group.

    `scratch` is the folder for its tables; `reported`: facts of each segment are among them.
    """

    operation: str
    given: Given
    policy: Policy
    dialect: str | None
    scratch: Path
    reported: bool


class InParts(NamedTuple):
    """A plan that was decided in parts, and is not in its folder yet."""

    plan: Plan | PlanInParts
    groups: Sequence[Decided]
    said: Joined
    seen: Summary
    held: Collection[str] = ()
    beyond: InParts | None = None

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield a table of each group that has it. Raises CorruptPlan, StorageFailed."""
        for one in self.groups:
            if name in one.tables:
                yield one.table(name)

    def write(self, folder: Path) -> AnyPlan:
        """Write the plan into its folder. Raises as `write_plan`; CorruptPlan."""
        plan, names = self.plan, set[str]().union(*(one.tables for one in self.groups))
        names -= {ITEMS_TABLE, *_OF_REPORTS, *self.held}
        beside = {name: self.tables(name) for name in sorted(names)}
        if isinstance(plan, Plan):
            write_plan(plan, folder, beside)
            return plan
        make_sealed(folder, "plan")
        for one in self.groups:
            if one.part is not None:
                move_part(one, part_file(folder, one.part.digest))
        placed = replace(plan, folder=folder)
        commit_plan(placed, beside)
        return placed

    def report(self, folder: Path) -> None:
        """Write what was seen into the folder of a report. Raises CorruptPlan, StorageFailed."""
        write_segments(folder, self.tables("segments"), self.seen)
        keep_holes(pa.concat_tables(self.tables("holes")), folder)


def groups_of(
    operation: str, given: Given, log_dirs: Sequence[str], topics: str, policy: Policy
) -> list[Directories]:
    """Return the groups in which an operation decides log directories, none if it does not.

    Raises as `divide`; Refused for copies of a log directory that the policy does not name.
    """
    parts = OPERATIONS[operation].parts
    if parts is None or not parts.allowed(given):
        return []
    return large_groups(log_dirs, topics, policy)


def large_groups(log_dirs: Sequence[str], topics: str, policy: Policy) -> list[Directories]:
    """Return the groups of log directories with so many segments that no process holds all facts,
    else none.

    Raises as `divide`; Refused for copies of a log directory that the policy does not name.
    """
    groups = divide(log_dirs, topics, most=PART_SEGMENTS)
    if sum(group.segments for group in groups) <= LARGE:
        return []
    refuse_copies(sorted({group.log_dir for group in groups}), policy.named_paths())
    return groups


def decide_groups(executor: Executor, groups: Sequence[Directories], asked: Asked) -> InParts:
    """Decide all groups.

    Raises as the operation's planning; CorruptPlan for a table that changed after its task,
    NotPermitted, StorageFailed.
    """
    parts = OPERATIONS[asked.operation].parts
    assert parts is not None
    if parts.by_ends(asked.given):
        do = partial(decide_group, asked=asked)
        rows = executor.map("decide", groups, do, DECIDED, size=size_of, least=lambda _: 1)
    else:
        stages = LogStages(executor)
        batches = (_decided(group, asked, stages) for group in groups)
        rows = pa.Table.from_batches(batches, DECIDED)
    every = list(decided_in(rows, asked.scratch))
    decided: Sequence[Decided] = [one for one in every if not one.beyond]
    beyond: Sequence[Decided] = [one for one in every if one.beyond]
    if parts.settle is not None:
        settling = Settling(
            executor, asked.given, asked.policy, groups, decided, beyond, asked.scratch
        )
        decided, beyond = parts.settle(settling)
    plan = _joined(asked, parts, decided)
    return plan._replace(beyond=_joined(asked, parts, beyond)) if beyond else plan


def _joined(asked: Asked, parts: Parts, decided: Sequence[Decided]) -> InParts:
    return InParts(
        _plan_of(asked.operation, decided, asked.scratch),
        decided,
        parts.join(asked.given, [one.notes for one in decided]),
        sum_of_summaries([one.summary for one in decided]),
        parts.held,
    )


def size_of(group: Directories) -> int:
    """Return about how many bytes are read of a group, where its ends are read."""
    return group.segments * _SEGMENT_BYTES


def decide_group(group: Directories, *, asked: Asked) -> pa.RecordBatch:
    """Return the row of DECIDED of a group, all of it in this thread.

    Raises Refused where its logs are others than the listed ones.
    """
    check_listed(group.samples)
    return _decided(group, asked, LogStages(LocalExecutor(1)))


def _decided(group: Directories, asked: Asked, stages: Stages) -> pa.RecordBatch:
    operation = OPERATIONS[asked.operation]
    assert operation.parts is not None
    decide = (operation.parts.prepare or operation.prepare)(asked.given, asked.policy)
    units = list(read_as(group.units(), asked.dialect))
    planned = decide(stages, units)
    more = {"segments": planned.segments, "holes": holes_of(units)} if asked.reported else {}
    rows = [_handed_over(group, planned, more, asked.scratch)]
    if planned.beyond is not None:
        rows.append(_handed_over(group, planned.beyond, {}, asked.scratch, beyond=True))
    return pa.concat_batches(rows)


def _handed_over(
    group: Directories,
    planned: Planned,
    more: Mapping[str, pa.Table],
    scratch: Path,
    *,
    beyond: bool = False,
) -> pa.RecordBatch:
    refuse_unpermitted(planned.plan)
    tables, seen = {**planned.beside, **more}, summary(planned.segments)
    plan, notes = planned.plan, planned.notes
    return hand_over(group.number, plan, seen, notes, tables, scratch, beyond=beyond)


def _plan_of(operation: str, groups: Sequence[Decided], scratch: Path) -> Plan | PlanInParts:
    """Return the plan of all groups: in one table if it has few rows."""
    options = groups[0].options
    totals = cast("Totals", sums_of(one.totals for one in groups))
    parts = [one.part for one in groups if one.part is not None]
    for one in groups:
        if one.part is not None and one.part.first == ROOT:  # no task has made it
            items = one.table(ITEMS_TABLE)
            refuse_unpermitted(make_plan(operation, options, one.totals, items))
    if sum(part.rows for part in parts) > TABLE_ROWS:
        return plan_in_parts(operation, options, totals, parts, scratch)
    tables = [one.table(ITEMS_TABLE) for one in groups if one.part is not None]
    return make_plan(operation, options, totals, pa.concat_tables([ITEMS.empty_table(), *tables]))
