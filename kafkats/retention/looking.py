"""A plan of retention, what its guards keep, and the plan without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from kafkats.config.given import Given, stored
from kafkats.config.option import Options
from kafkats.config.policy import Policy
from kafkats.evidence.claims import shows_remote_storage
from kafkats.execution.executor import Executor
from kafkats.paths import parse_partition
from kafkats.plans.contradictions import interval_remarks
from kafkats.plans.operation import Planned, Stages
from kafkats.plans.plan import Plan
from kafkats.plans.rows import PartitionKey
from kafkats.plans.units import Unit, refuse_parts
from kafkats.retention.expired_heads import check_options, look_at, plan_inside
from kafkats.retention.implausible_timestamps import SHARES, look_into
from kafkats.retention.options import Retain
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.summary import SummaryRow, summary_rows, suspects
from kafkats.split.parts import PARTS
from kafkats.text import Flag, Text

_GUARDS: Final = ("over the guard", "over the run's guard")
NO_LIMITS: Final = Text(
    "no retention settings were given, so nothing is deleted: give cleanup.policy and retention.ms"
    " or retention.bytes of the topics in the policy (",
    Flag("--policy"),
    "); ",
    Flag("--config"),
    " alone does not count, it changes only what the policy gives for a topic",
)
LOOKED_INTO: Final = 200
"""Segments with implausible timestamps: all of each is read."""


def retain_options(given: Given, *more: Options) -> RetainOptions:
    """Return the options of a retention, from those of Retain and of `more` models."""
    model = given.of(Retain)
    return stored(RetainOptions, model, *more, now_ms=given.at(model.now))


def retain(
    stages: Stages,
    units: Sequence[Unit],
    options: RetainOptions,
    policy: Policy,
    *,
    inside_segments: bool = False,
    segments: pa.Table | None = None,
) -> Planned:
    """Plan which segments to delete; `retention` (the decision on every segment) is written beside
    the plan.

    With `inside_segments` also expired heads of segments that are kept. `segments` are the facts,
    where they are known already.
    """
    refuse_parts(units)
    check_options(options, inside_segments=inside_segments)
    if segments is None:
        segments = stages.ends(units)
    remote = remote_in(units)
    nothing_given = [NO_LIMITS] if without_limits(segments, policy, options) else []
    if not inside_segments:
        plan, verdicts = plan_retain(segments, policy, options, remote=remote)
        return Planned(plan, segments, {"retention": verdicts}, nothing_given)
    verified: list[pa.Table] = []

    def verify(chosen: Sequence[Unit]) -> pa.Table:
        verified.append(stages.verify(chosen, policy=policy))
        return verified[-1]

    plan, verdicts = plan_inside(
        units,
        segments,
        policy,
        options,
        look=lambda targets: stages.executor.map(
            "heads", targets, look_at, PARTS, size=lambda target: target[0].bytes
        ),
        verify=verify,
        remote=remote,
    )
    remarks = [remark for table in verified for remark in interval_remarks(plan, table)]
    return Planned(plan, segments, {"retention": verdicts}, [*nothing_given, *remarks])


def without_limits(segments: pa.Table, policy: Policy, options: RetainOptions) -> bool:
    """Return whether nothing says when to delete: no retention limit of any topic, no time."""
    names = map(parse_partition, segments["partition_dir"].unique().to_pylist())
    settings = [policy.settings(name.topic) for name in names if name is not None]
    limits = {limit for one in settings for limit in (one.retention_ms, one.retention_bytes)}
    return options.before_ms is None and limits == {None}


def remote_in(units: Iterable[Unit]) -> set[PartitionKey]:
    """Return the partitions that show remote storage."""
    return {
        unit.key.partition for unit in units if unit.claims and shows_remote_storage(unit.claims)
    }


def retain_and_beyond(
    stages: Stages,
    units: Sequence[Unit],
    options: RetainOptions,
    policy: Policy,
    *,
    inside_segments: bool,
    beyond: bool,
    suspects: bool,
) -> Planned:
    """Plan which segments to delete, and count those that only a guard keeps.

    With `beyond` also plan without the policy's guards, from the same facts, where a guard keeps
    something. With `suspects` a table of implausible timestamps is written beside the plans. Raises
    as `retain`.
    """
    decide = partial(retain, stages, units, policy=policy, inside_segments=inside_segments)
    planned = decide(options)
    kept = over_guard(planned.plan)
    without = None
    if beyond and kept:
        without = decide(replace(options, over_guard=True), segments=planned.segments)
    if suspects:
        rows = summary_rows(planned.beside["retention"], options.now_ms)
        worst = sorted(rows, key=lambda row: -int(row["pinned_bytes"]))[:LOOKED_INTO]
        shares = suspect_shares(stages.executor, worst)
        planned = _beside(planned, shares)
        without = _beside(without, shares) if without else None
    more = {"now_ms": options.now_ms, "before_ms": options.before_ms, "over_guard": kept}
    return planned._replace(more=more, beyond=without)


def over_guard(plan: Plan) -> int:
    """Return how many segments only a guard keeps."""
    return sum(
        count for veto, count in plan.header["totals"]["vetoes"].items() if veto.startswith(_GUARDS)
    )


def suspect_shares(executor: Executor, rows: Sequence[SummaryRow]) -> pa.Table:
    """Count the implausible timestamps in the segments that keep others: SHARES, for rows of
    `retention.summary.summary_rows`.
    """
    return executor.map(
        "suspects", suspects(rows), look_into, SHARES, size=lambda suspect: suspect.bytes
    )


def _beside(planned: Planned, shares: pa.Table) -> Planned:
    return planned._replace(beside={**planned.beside, "suspects": shares})
