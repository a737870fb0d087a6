"""The report of one DAG run: what its applications wrote, put together in one folder.

report.json         what was found, done and proved, in numbers, and where the plans and runs are
overview.json       the same per log directory, for pages (kafkats_airflow.reports.overview)
segments.parquet    kafkats.plans.facts.SEGMENTS before the change, one row per segment
after.parquet       the same for the segments that were changed, after it
actions.parquet     kafkats.plans.facts.ACTIONS, one row per file
health.png          time-index health, partitions x segments, before and after (rebuild)

A migration's folder has its own pages: kafkats_airflow.reports.migration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar, cast

from airflow.providers.common.compat.sdk import Asset, Context

from kafkats.counts import counted
from kafkats.operations import OPERATIONS
from kafkats.plans.operation import Operation
from kafkats_airflow import checks
from kafkats_airflow.approvals.stakes import on_disk
from kafkats_airflow.failing import UNFINISHED, Ended, failures, in_our_words, unfinished
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.reports import overview, unreachable
from kafkats_airflow.reports.failed import unless_planned, with_report
from kafkats_airflow.results import (
    Arguments,
    FormatResult,
    JobResult,
    PlanResult,
    Rates,
    Reserved,
)
from kafkats_airflow.runs import tries
from kafkats_airflow.runs.folders import folder_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plans.facts import Summary
    from kafkats.plans.rows import Totals

R = TypeVar("R")
Plans: TypeAlias = Sequence[PlanResult]
Results: TypeAlias = Sequence[JobResult]

PARTITION = ("log_dir", "partition_dir")
SEGMENT = ("log_dir", "partition_dir", "base_offset")
"""The columns of facts.SEGMENTS that name a segment."""
UNSAFE = "DANGER is left"
"""Something that no rebuild repairs, and with which a broker must not be started."""


class ReportedPlan(TypedDict):
    """A plan in report.json. `on_disk` is that of stakes.Stake; earlier versions lack it."""

    plan: str
    digest: str
    totals: Totals
    on_disk: int | None


class Common(tries.TryFields):
    """The fields of report.json that every run with plans has."""

    volumes: list[str]
    plans: list[ReportedPlan]
    reserved: list[Reserved]
    files_planned: int
    files_blocked: int
    rates: dict[str, list[Rates]]


class Remarked(Ended):
    """The fields of report.json that every run has."""

    remarks: list[str]


class OperationReport(Common, Remarked):
    """report.json of one operation."""

    seen: Summary
    files_proved_equal: int


class StageXComs(TypedDict):
    """The XComs of the tasks that ran jobs; None for tasks that failed or were skipped."""

    plan: Plans | None
    apply: Results | None
    verify: Results | None


@in_our_words
@with_report
def report(
    context: Context,
    operation: str,
    asked: Sequence[Arguments] | None,
    stages: StageXComs,
    asset: Asset | None = None,
    picture: Callable[[Path, pa.Table, pa.Table], None] | None = None,
) -> OperationReport:
    """Write the report of a run of one operation, and the asset's event. Fails if the run must not
    count as a success.

    `picture` draws the segments before and after the change into the report's folder.
    """
    plans = list(stages["plan"] or [])
    unless_planned(context, asked, plans)
    folder, params = folder_of(context), params_of(context)
    whole = len(plans) == len(asked or [])
    end = outcome(folder, params, operation, plans) if whole else UNFINISHED
    content = write_report(
        folder,
        plans,
        results_of(stages),
        outcome=end,
        topics=params["topics"],
        failures=[*failures(context), *unreachable.causes(plans)],
        picture=picture,
        context=context,
    )
    close(context, content, asset)
    return content


def outcome(folder: Path, params: RunParams, operation: str, plans: Plans) -> str:
    """Return how this run ended, in words. A final UNFINISHED or UNSAFE marks a failure."""
    left = {
        word: sum(plan["totals"].get("not_repaired", {}).get(word, 0) for plan in plans)
        for word in ("danger", "damage")
    }
    words = _ending(folder, params, OPERATIONS[operation], plans)
    if left["damage"] and words != UNFINISHED:
        words += f", damage not repaired: {counted(left['damage'], 'finding')}"
    if words != UNFINISHED:
        words += left_out(plans)
    return f"{words}, {UNSAFE}" if left["danger"] else words


def _ending(folder: Path, params: RunParams, operation: Operation, plans: Plans) -> str:
    todo = [plan for plan in plans if plan["totals"]["files"]]
    if not plans:
        return UNFINISHED
    if params["dry_run"]:
        return "dry run" if todo else operation.nothing
    return ended(folder, operation, plans)


def ended(folder: Path, operation: Operation, plans: Plans, left: str = "") -> str:
    """Return how the tries of a run ended, in words. `left` follows what is done or not needed."""
    words = {
        "nothing": f"{operation.nothing}{left}",
        "proved": f"{operation.done} and proved{left}",
        "rejected": "rejected",
    }
    return words.get(tries.ending(folder, plans, rejected=tries.rejected(folder)), UNFINISHED)


def results_of(stages: StageXComs) -> dict[str, Results]:
    """Return the results of plan, apply and verify; none for tasks that failed or were skipped."""
    return {
        "plan": list(stages["plan"] or []),
        "apply": list(stages["apply"] or []),
        "verify": list(stages["verify"] or []),
    }


def write_report(
    folder: Path,
    plans: Plans,
    stages: Mapping[str, Results],
    *,
    outcome: str,
    topics: str,
    failures: Sequence[str] = (),
    picture: Callable[[Path, pa.Table, pa.Table], None] | None = None,
    context: Context | None = None,
) -> OperationReport:
    """Write the folder of a run; returns the content of report.json. Repeating it writes the same
    again. Only a run of Airflow has a `context`, and with it an overview.json.
    """
    from kafkats.plans.facts import ACTIONS, SEGMENTS, summary, write_table
    from kafkats.plans.files import write_json

    checks.writable(folder)
    if context is not None:
        overview.labels_in(context, folder)
    before = segments_of(plan["seen"]["report"] for plan in plans)
    after = after_of(folder)
    content: OperationReport = {
        "outcome": outcome,
        "failures": list(failures),
        "remarks": [*no_topic(topics, before), *of_reservations(plans)] if plans else [],
        **common(folder, plans, stages),
        "seen": summary(before),
        "files_proved_equal": tries.fields_of(folder)["files_proved"],
        "report": str(folder),
    }
    write_table(folder / "segments.parquet", before.cast(SEGMENTS))
    write_table(folder / "after.parquet", after.cast(SEGMENTS))
    write_table(folder / "actions.parquet", actions_of(folder).cast(ACTIONS))
    if picture is not None:
        picture(folder, before, after)
    write_json(folder / "report.json", content)
    if context is not None:
        seen = overview.at_the_end(before, after, SEGMENT)
        volumes = overview.volumes_of(
            content["volumes"], seen, looks=plans, params=params_of(context)
        )
        failed = outcome.endswith((UNFINISHED, UNSAFE))
        overview.write(context, folder, outcome, volumes, failed=failed, failures=failures)
    return content


def health(folder: Path, before: pa.Table, after: pa.Table) -> None:
    """Draw the health of the time indexes before and after a rebuild."""
    from kafkats.rebuild.plot import plot_health

    panels = {"before": before}
    if after.num_rows:
        panels["after"] = overview.at_the_end(before, after, SEGMENT)
    plot_health(panels, folder / "health.png")


def no_topic(glob: str, seen: pa.Table) -> list[str]:
    """The remark that nothing was there to look at; `seen` is a table of what was, with a column
    `topic`.
    """
    return [] if any(seen["topic"].unique().to_pylist()) else nothing(glob)


def nothing(glob: str) -> list[str]:
    """The remark itself."""
    what = (
        f"no topic on these volumes comes under {glob!r}"
        if glob != "*"
        else "there is no topic on these volumes"
    )
    return [f"{what}: nothing was looked at"]


def of_reservations(plans: Plans) -> list[str]:
    """The remarks of the plans on their log directories: taken over, left out, or held by a broker
    while nothing is written.
    """
    return [remark for plan in plans for remark in plan.get("reservation_remarks", ())]


def log_remarks(remarks: Sequence[str]) -> None:
    """The remarks of a report in the task's log, too."""
    for remark in remarks:
        logging.getLogger(__name__).warning("remark: %s", remark)


def close(
    context: Context, content: Remarked, asset: Asset | None = None, *more: str, left: str = UNSAFE
) -> None:
    """Log the remarks of a report, and write the asset's event, with `more` fields of the report.

    Raises for an outcome that ends with UNFINISHED or with `left`.
    """
    log_remarks(content["remarks"])
    if asset is not None:
        told = ("volumes", "outcome", "report", *more)
        fields: dict[str, Any] = {**content}
        context["outlet_events"][asset].extra = {name: fields[name] for name in told}
    if content["outcome"].endswith((UNFINISHED, left)):
        raise unfinished(content["outcome"], content)


def left_out(plans: Plans) -> str:
    """For an outcome: which volumes the plans left to another run or person; "" where they left
    none. It ends with UNFINISHED if volumes could not be read.
    """
    skipped = [one for plan in plans for one in plan.get("reserved", ())]
    dead = unreachable.words(plans)
    if not skipped:
        return dead
    holders = ", ".join(dict.fromkeys(str(one["holder"]) for one in skipped))
    return f", {counted(len(skipped), 'volume')} left out: reserved by {holders}{dead}"


def common(folder: Path, plans: Plans, stages: Mapping[str, Results]) -> Common:
    """Return the fields of every report: the plans of the last try, the RUNs of all tries, and the
    speed of each stage.
    """
    return {
        "volumes": sorted(one for plan in plans for one in log_dirs_of(plan, plan["plan"])),
        "plans": [
            {
                "plan": plan["plan"],
                "digest": plan["digest"],
                "totals": plan["totals"],
                "on_disk": None if plan.get("undo") else on_disk(Path(plan["plan"])),
            }
            for plan in plans
        ],
        "reserved": [one for plan in plans for one in plan.get("reserved", ())],
        **tries.fields_of(folder),
        "files_planned": sum(plan["totals"]["files"] for plan in plans),
        "files_blocked": sum(plan["totals"]["blocked"] for plan in plans),
        "rates": {
            stage: [result["rates"] for result in results] for stage, results in stages.items()
        },
    }


def actions_of(folder: Path, *more: Path) -> pa.Table:
    """Every file that a try touched or was refused, facts.ACTIONS; also of `more` RUNs."""
    from kafkats.plans.facts import ACTIONS
    from kafkats.plans.run import read_actions

    runs = [*more, *(one.run for one in tries.tries_of(folder))]
    some = [run for run in runs if (run / "report.parquet").exists()]
    return concat([overview.labelled(read_actions(run), run) for run in some], ACTIONS)


def after_of(folder: Path) -> pa.Table:
    """The segments that the last proof of each application has seen, facts.SEGMENTS."""
    return segments_of(seen.parent for seen in sorted(folder.glob("*/after/segments.parquet")))


def segments_of(folders: Iterable[str | Path]) -> pa.Table:
    """The segments of several reports, facts.SEGMENTS."""
    from kafkats.plans.facts import SEGMENTS

    return rows_of((Path(folder) / "segments.parquet" for folder in folders), SEGMENTS)


def rows_of(paths: Iterable[Path], schema: pa.Schema) -> pa.Table:
    """Return the tables of several applications as one: files in folders of their folders."""
    from kafkats.plans.facts import read_table

    return concat(
        [overview.labelled(read_table(path, schema), path.parent) for path in paths], schema
    )


def log_dirs_of(one: FormatResult, place: str) -> list[str]:
    """Return the labels of a result's log directories; `place` lies in its application's folder."""
    labels = overview.labels_at(Path(place))
    return [labels.get(log_dir, log_dir) for log_dir in one["log_dirs"]]


def part_of(row: type[R], content: Mapping[str, object]) -> R:
    """Return the fields of `content` that a TypedDict has."""
    return cast("R", {name: content[name] for name in row.__annotations__ if name in content})


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """All of them as one table, also when there is none."""
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else schema.empty_table()
