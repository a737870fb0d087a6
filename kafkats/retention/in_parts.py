"""A retention that is decided in parts: some partitions at a time, and then what needs all of them.

A limit of the whole run, its guard or `--free`, deletes the oldest segments of all log directories
first. So each group of partitions hands over when the turn of its segments comes, and how large
they are. From these the bounds of the run are found. Only groups of which a bound keeps something
are decided again, from the facts that they were decided from.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkats.config.given import Given
from kafkats.config.options import MissingRecords
from kafkats.config.policy import Policy
from kafkats.generations import RETENTION_RULES
from kafkats.plans.columns import schema_of
from kafkats.plans.deciding import Decided, Settling, decided_in, hand_over
from kafkats.plans.facts import SEGMENTS, summary
from kafkats.plans.operation import Decide, Joined, Planned, Stages
from kafkats.plans.rows import PartitionKey
from kafkats.plans.units import Unit
from kafkats.retention.expired_heads import check_options
from kafkats.retention.items import Start, own_items
from kafkats.retention.looking import (
    LOOKED_INTO,
    NO_LIMITS,
    over_guard,
    remote_in,
    retain_options,
    suspect_shares,
    without_limits,
)
from kafkats.retention.options import FACTS, TURNS, WORST, Beyond
from kafkats.retention.plan import (
    NOTHING,
    RetainDecision,
    RetainOptions,
    decide_retain,
    plan_of,
)
from kafkats.retention.summary import SummaryRow, summary_rows
from kafkats.retention.vetoes import Bound, Bounds, bounds_of

_SUMMARY: Final = schema_of(SummaryRow)


def prepare(given: Given, policy: Policy) -> Decide:
    """Return the function that decides some partitions of a run."""
    options = _options(given)
    check_options(options, inside_segments=False)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments, remote = stages.ends(units), remote_in(units)
        planned = _planned(segments, policy, options, remote, Bounds())
        if given.reported:
            rows = summary_rows(planned.beside["retention"], options.now_ms)
            worst = pa.Table.from_pylist(_worst(rows), schema=_SUMMARY)
            planned = planned._replace(beside={**planned.beside, WORST: worst})
        if given.of(Beyond).beyond_guard is None:
            return planned
        without = _planned(segments, policy, _lifted(options), remote, Bounds())
        return planned._replace(beyond=without)

    return decide


def _options(given: Given) -> RetainOptions:
    return retain_options(given, given.of(MissingRecords))


def _lifted(options: RetainOptions) -> RetainOptions:
    return replace(options, over_guard=True)


def _planned(
    segments: pa.Table,
    policy: Policy,
    options: RetainOptions,
    remote: set[PartitionKey],
    bounds: Bounds,
) -> Planned:
    """Return the plan of some partitions, and what `settle` needs of it."""
    decision = decide_retain(segments, policy, options, remote=remote, bounds=bounds)
    plan = plan_of(decision, segments, options)
    tables, limited = {"retention": decision.verdicts}, _limited(policy, options)
    if limited:
        turns = {"time": decision.found.time, "bytes": decision.found.bytes}
        tables |= {TURNS: pa.table(turns), FACTS: segments}
    notes: Mapping[str, Any] = {
        "over_guard": over_guard(plan),
        "without_limits": without_limits(segments, policy, options),
        "all_bytes": decision.all_bytes,
        "starts": {log_dir: list(start) for log_dir, start in decision.starts.items()},
        "remote": [list(where) for where in sorted(remote)] if limited else [],
    }
    return Planned(plan, segments, tables, notes=notes)


def _limited(policy: Policy, options: RetainOptions) -> bool:
    """Return whether the run has a limit."""
    guard = policy.guard
    guarded = guard.max_share is not None or guard.max_bytes is not None
    return options.free_bytes is not None or (guarded and not options.over_guard)


def join(given: Given, notes: Sequence[Mapping[str, Any]]) -> Joined:
    """Return what is said of the whole plan."""
    options = _options(given)
    kept = sum(one.get("over_guard", 0) for one in notes)
    more = {"now_ms": options.now_ms, "before_ms": options.before_ms, "over_guard": kept}
    nothing_given = bool(notes) and all(one.get("without_limits", True) for one in notes)
    return Joined(more=more, remarks=[NO_LIMITS] if nothing_given else [])


def settle(work: Settling) -> tuple[list[Decided], list[Decided]]:
    """Return the groups of the plan, and of the one beyond the guards if these keep anything.

    Each has groups for what is not of single partitions. Raises StorageFailed.
    """
    options, whole = _options(work.given), list[Decided]()
    if work.given.reported:
        worst = _worst(chain.from_iterable(one.table(WORST).to_pylist() for one in work.decided))
        shares = suspect_shares(work.executor, worst)
        whole = [_more(work, options, NOTHING, {"suspects": shares})]
    ours = _bounded(work, work.decided, options)
    beyond = list[Decided]()
    if sum(one.notes["over_guard"] for one in ours):
        beyond = _bounded(work, work.beyond, _lifted(options))
    return (
        [*ours, *_own(work, ours, options), *whole],
        beyond and [*beyond, *_own(work, beyond, _lifted(options)), *whole],
    )


def _worst(rows: Any) -> list[Any]:
    """Return the rows of `summary_rows` that keep most, in their order if they keep as much."""
    return heapq.nlargest(LOOKED_INTO, rows, key=lambda row: int(row["pinned_bytes"]))


def _bounded(work: Settling, decided: Sequence[Decided], options: RetainOptions) -> list[Decided]:
    """Return the groups as the limits of the run leave them."""
    if not decided or not _limited(work.policy, options):
        return list(decided)
    log_dir = {group.number: group.log_dir for group in work.groups}
    ordered = sorted(decided, key=lambda one: (log_dir[one.number], one.number))
    turns = [one.table(TURNS) for one in ordered]
    times = [table["time"].to_numpy() for table in turns]
    bounds = bounds_of(
        np.concatenate(times),
        np.concatenate([table["bytes"].to_numpy() for table in turns]),
        sum(one.notes["all_bytes"] for one in ordered),
        None if options.over_guard else work.policy.guard,
        options.free_bytes,
    )
    settled = {}
    for one, time in zip(ordered, times, strict=True):
        own = Bounds(*(bound and _keeps(bound, time) for bound in bounds))
        settled[one.number] = one if own == Bounds() else _again(work, one, options, own)
        bounds = Bounds(*(bound and _after(bound, time) for bound in bounds))
    return [settled[one.number] for one in decided]


def _keeps(bound: Bound, time: Any) -> Bound | None:
    """Return the bound if it keeps one of the segments of a group."""
    kept = (time > bound.time).any() or (time == bound.time).sum() > bound.at_time
    return bound if kept else None


def _after(bound: Bound, time: Any) -> Bound:
    """Return the bound for the groups that follow one."""
    return bound._replace(at_time=max(bound.at_time - int((time == bound.time).sum()), 0))


def _again(work: Settling, one: Decided, options: RetainOptions, bounds: Bounds) -> Decided:
    remote = {PartitionKey(*where) for where in one.notes["remote"]}
    planned = _planned(one.table(FACTS), work.policy, options, remote, bounds)
    tables = {"retention": planned.beside["retention"]}
    args = (one.number, planned.plan, one.summary, planned.notes, tables, work.scratch)
    now = _one(hand_over(*args), work)
    return replace(now, tables={**one.tables, **now.tables}, beyond=one.beyond)


def _own(work: Settling, decided: Sequence[Decided], options: RetainOptions) -> Iterator[Decided]:
    """Yield a group per log directory whose own file of log starts changes."""
    found: dict[str, Start] = {}
    for one in decided:
        for log_dir, start in one.notes["starts"].items():
            first = found.setdefault(log_dir, Start(*start)._replace(partitions=0))
            found[log_dir] = first._replace(partitions=first.partitions + start[2])
    for log_dir, start in found.items():
        items = own_items({log_dir: start}, RETENTION_RULES[options.rule])
        yield _more(work, options, NOTHING._replace(items=items), {})


def _more(
    work: Settling, options: RetainOptions, decision: RetainDecision, tables: Mapping[str, pa.Table]
) -> Decided:
    """Return a group that is not of partitions."""
    nothing = SEGMENTS.empty_table()
    plan = plan_of(decision, nothing, options)
    return _one(hand_over(-1, plan, summary(nothing), {}, tables, work.scratch), work)


def _one(row: pa.RecordBatch, work: Settling) -> Decided:
    (one,) = decided_in(pa.Table.from_batches([row]), work.scratch)
    return one
