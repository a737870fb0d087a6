"""The report of a run of recover_log_dirs: what was recovered, and what was left to the brokers.

report.json         in numbers, and where the plans and runs are
overview.json       the same per log directory, for pages (kafkats_airflow.reports.overview)
recovery.parquet    kafkats.recovery.look.RECOVERY, one row per partition
starts.parquet      kafkats.recovery.rows.STARTS, one row per partition: what a broker would have
                    done with it; only if the form names the release
actions.parquet     kafkats.plans.facts.ACTIONS, one row per file
segments.parquet    kafkats.plans.facts.SEGMENTS at the end of the run, one row per segment
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import Context

from kafkats.counts import counted
from kafkats.operations import OPERATIONS
from kafkats_airflow.failing import UNFINISHED, failures, in_our_words
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.jobs.applications import START
from kafkats_airflow.reports import common, overview, unreachable
from kafkats_airflow.reports.common import PARTITION
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import Arguments, PlanResult

LEFT = "NOT recovered"
"""Partitions that the plan refused: a broker that starts recovers them with what that loses."""


class RecoverReport(common.Common, common.Remarked):
    """report.json of a recovery."""

    recovery_segments: int
    recovery_bytes: int
    cut_bytes: int
    dropped_segments: int
    behind_high_watermark: int
    starts: list[Mapping[str, Any]]
    """What each broker would have done: kafkats.recovery.sentences.summary."""


@in_our_words
@with_report
def report(
    context: Context,
    asked: Sequence[Arguments] | None,
    stages: common.Stages,
) -> RecoverReport:
    """Write the report of a recovery. Fails if the run must not count as a success, also if a plan
    had blocked rows.

    `asked` is None if its task failed.
    """
    from kafkats.plans.facts import ACTIONS, SEGMENTS, write_table
    from kafkats.recovery.look import RECOVERY
    from kafkats.recovery.rows import STARTS

    stages = common.finished(stages)
    plans, params = stages["plan"], params_of(context)
    folder = common.begin(context, asked, plans)
    whole = len(plans) == len(asked or [])
    totals = [plan["totals"] for plan in plans]
    # a recovery is decided at once: its rows fit into memory
    reports = (plan["seen"]["report"] for plan in plans)
    seen = common.concat([*common.segments_of(reports)], SEGMENTS)
    content: RecoverReport = {
        "outcome": outcome(folder, params, plans) if whole else UNFINISHED,
        "failures": [*failures(context), *unreachable.causes(plans)],
        "remarks": common.remarks_of(params["topics"], plans, seen["topic"].unique().to_pylist()),
        **common.common(folder, plans, stages),
        "recovery_segments": sum(one["recovery_segments"] for one in totals),
        "recovery_bytes": sum(one["recovery_bytes"] for one in totals),
        "cut_bytes": sum(one["cut_bytes"] for one in totals),
        "dropped_segments": sum(one["dropped_segments"] for one in totals),
        "behind_high_watermark": sum(one["behind_high_watermark"] for one in totals),
        "starts": starts_of(folder),
        "report": str(folder),
    }
    paths = [Path(plan["plan"], "recovery.parquet") for plan in plans]
    write_table(folder / "recovery.parquet", common.rows_of(paths, RECOVERY))
    common.write_rows(folder / "actions.parquet", common.actions_of(folder), ACTIONS)
    if content["starts"]:
        paths = sorted(folder.glob(f"*/{START}/starts.parquet"))
        write_table(folder / "starts.parquet", common.rows_of(paths, STARTS))
    after = common.concat([*common.after_of(folder)], SEGMENTS)
    seen = overview.at_the_end(seen, after, PARTITION)
    write_table(folder / "segments.parquet", seen.cast(SEGMENTS))
    volumes = overview.volumes_of(content["volumes"], [seen], looks=plans, params=params)
    common.close(context, content, volumes, left=LEFT)
    return {**content, "starts": [_without_words(one) for one in content["starts"]]}


def starts_of(folder: Path) -> list[Mapping[str, Any]]:
    """Return what preflight reported in the folder of a run, one summary per broker."""
    found = sorted(folder.glob(f"*/{START}/report.json"))
    return [json.loads(one.read_text()) for one in found]


def _without_words(start: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a start for an XCom, which is small: pages read the words in report.json."""
    return {name: value for name, value in start.items() if name != "said"}


def outcome(folder: Path, params: RunParams, plans: Sequence[PlanResult]) -> str:
    """Return how the run with this folder ended, in words; UNFINISHED or LEFT at their end if it
    must not count as a success.
    """
    if not plans:
        return UNFINISHED
    blocked = sum(plan["totals"]["blocked"] for plan in plans)
    left = common.left_out(plans)
    if blocked:
        left += f", {counted(blocked, 'partition')} {LEFT}"
    if params["dry_run"]:
        of = f" of a plan with {counted(blocked, 'blocked row')}" if blocked else ""
        return f"dry run{of}{unreachable.words(plans)}"
    return common.ended(folder, OPERATIONS["recover"], plans, left)
