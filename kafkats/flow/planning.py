"""Plans: look at the units, decide, and write the plan's folder. One function per operation that
makes plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats.config import Policy
from kafkats.execution import Executor
from kafkats.flow import looking
from kafkats.flow.apply import refuse_unpermitted
from kafkats.flow.contradictions import interval_remarks
from kafkats.inspect.verify import VerifyOptions
from kafkats.migration.forecast import target_of
from kafkats.migration.plan import MigrateOptions, plan_migrate
from kafkats.plans.plan import Plan
from kafkats.plans.units import Unit, refuse_parts
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild
from kafkats.reserving import Planning
from kafkats.retention.expired_heads import check_options, look_at, plan_inside
from kafkats.retention.implausible_timestamps import SHARES, look_into
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.summary import BoardRow, suspects
from kafkats.rolling.plan import RollOptions, plan_roll
from kafkats.split.parts import PARTS, SplitOptions
from kafkats.split.parts import look as look_for_parts
from kafkats.split.plan import plan_split

_GUARDS: Final = ("over the guard", "over the run's guard")


class Planned(NamedTuple):
    """A plan; what was seen for it (facts.SEGMENTS); and the tables that are written beside it, by
    name.

    `remarks` are about settings that the files contradict. They are no part of the plan.
    """

    plan: Plan
    segments: pa.Table
    beside: Mapping[str, pa.Table]
    remarks: Sequence[str] = ()


def write(planned: Planned, planning: Planning, folder: Path) -> None:
    """Write the plan's folder. Raises NotPermitted where its files could not be given their
    attributes, StorageFailed.
    """
    refuse_unpermitted(planned.plan)
    planning.write(planned.plan, folder, **planned.beside)


def rebuild(
    executor: Executor, units: Sequence[Unit], options: RebuildOptions, policy: Policy
) -> Planned:
    """Plan which index files to rebuild."""
    segments = looking.verify(executor, units, VerifyOptions(rule=options.rule, policy=policy))
    plan = plan_rebuild(segments, options)
    return Planned(plan, segments, {}, interval_remarks(plan, segments))


def migrate(
    executor: Executor, units: Sequence[Unit], options: MigrateOptions, policy: Policy
) -> Planned:
    """Plan which segments to convert to another message format; `forecast` is written beside the
    plan.
    """
    target = target_of(options.to_magic, options.compression_type)
    segments = looking.verify(executor, units, VerifyOptions(rule=options.rule, policy=policy))
    forecast = looking.forecast(executor, units, target)
    plan = plan_migrate(segments, forecast, options)
    return Planned(plan, segments, {"forecast": forecast}, interval_remarks(plan, segments))


def retain(
    executor: Executor,
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
        segments = looking.look_at_ends(executor, units)
    if not inside_segments:
        plan, verdicts = plan_retain(segments, policy, options)
        return Planned(plan, segments, {"retention": verdicts})
    verified: list[pa.Table] = []

    def verify(chosen: Sequence[Unit]) -> pa.Table:
        verified.append(looking.verify(executor, chosen, VerifyOptions(policy=policy)))
        return verified[-1]

    plan, verdicts = plan_inside(
        units,
        segments,
        policy,
        options,
        look=lambda targets: executor.map(
            "heads", targets, look_at, PARTS, size=lambda target: target[0].bytes
        ),
        verify=verify,
    )
    remarks = [remark for table in verified for remark in interval_remarks(plan, table)]
    return Planned(plan, segments, {"retention": verdicts}, remarks)


def over_guard(plan: Plan) -> int:
    """Return how many segments only a guard keeps."""
    return sum(
        count for veto, count in plan.header["totals"]["vetoes"].items() if veto.startswith(_GUARDS)
    )


def suspect_shares(executor: Executor, rows: Sequence[BoardRow]) -> pa.Table:
    """Count the implausible timestamps in the segments that keep others: SHARES, for rows of
    `retention.summary.board`.
    """
    return executor.map(
        "suspects", suspects(rows), look_into, SHARES, size=lambda suspect: suspect.bytes
    )


def roll(
    executor: Executor, units: Sequence[Unit], options: RollOptions, policy: Policy
) -> Planned:
    """Plan which active segments to roll; `due` is written beside the plan."""
    segments = looking.look_at_ends(executor, units)
    plan, due = plan_roll(segments, policy, options)
    return Planned(plan, segments, {"due": due})


def split(
    executor: Executor, units: Sequence[Unit], options: SplitOptions, policy: Policy
) -> Planned:
    """Plan which segments to cut, and where; `parts` is written beside the plan."""
    segments = looking.verify(executor, units, VerifyOptions(rule=options.rule, policy=policy))
    do = partial(look_for_parts, options=options)
    parts = executor.map("parts", units, do, PARTS, size=lambda unit: unit.bytes)
    plan = plan_split(segments, parts, options)
    return Planned(plan, segments, {"parts": parts}, interval_remarks(plan, segments))
