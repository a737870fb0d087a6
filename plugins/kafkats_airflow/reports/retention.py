"""The reports of apply_retention and roll_segments, each put together in one folder.

report.json         outcome, the moment it was decided for, plans, runs, bytes freed and kept, what
                    was purged, remarks on the policy
overview.json       the same per log directory, for pages (kafkats_airflow.reports.overview)
segments.parquet    kafkats.plans.facts.SEGMENTS (depth tail) before the change
after.parquet       the same for the partitions that were changed, after it
actions.parquet     kafkats.plans.facts.ACTIONS, one row per file
retention.parquet   kafkats.retention.plan.RETENTION, one row per segment: verdict, veto, reason,
                    from when on
board.json          per topic and per partition: bytes that go now, in a day, in a week; what keeps
                    the others, until when, and which share of a suspect segment's batches is in
                    which unit; retention lines; bytes of each topic by state
basis.json          the policy and the options of the plans, to try another retention.ms on
reclaimable.png     bytes per topic by what becomes of them
timeline.png        segments from first to largest timestamp, and the retention line
due.parquet         kafkats.rolling.plan.DUE, one row per active segment (roll_segments)
simulation.json     kafkats.rolling.by_topic.Sums: the segments of each topic, as is and simulated
                    (roll_segments with simulate)
simulation-days.parquet
                    kafkats.rolling.by_topic.TOPIC_DAYS, the same per topic and day
parts.parquet       kafkats.split.parts.PARTS, one row per part of a segment (roll_segments with
                    split)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from airflow.sdk import Context

from kafkats.config.policy import Policy
from kafkats.counts import counted
from kafkats.operations import OPERATIONS
from kafkats_airflow import checks
from kafkats_airflow.failing import UNFINISHED, failures, in_our_words
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.forms.wording import in_form
from kafkats_airflow.reports import common, holes, overview, unreachable
from kafkats_airflow.reports.common import Plans
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import Arguments, PurgeResult, Work
from kafkats_airflow.runs.moment import moment
from kafkats_airflow.runs.plans import chosen, planned_by, unfinished
from kafkats_airflow.runs.volumes import listed

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.sdk import Asset

    from kafkats.plans.facts import Summary
    from kafkats.retention.summary import SummaryRow


class Stages(common.Stages):
    """The results of the tasks that ran jobs."""

    purge: Sequence[PurgeResult]


class Deleted(TypedDict):
    """The fields of report.json that only a deletion has, in bytes and segments."""

    bytes: int
    now_bytes: int
    day_bytes: int
    week_bytes: int
    pinned_bytes: int
    vetoed_bytes: int
    freed_bytes: int
    kafka_bytes: int
    over_guard: int


class Rolled(TypedDict):
    """The fields of report.json that only roll_segments has."""

    active_segments: int
    due_segments: int


class WasSplit(TypedDict):
    """The fields of report.json that only a split has."""

    split_segments: int
    segments_added: int


class RunSummary(TypedDict):
    """The result of the task `report`."""

    outcome: str
    as_of: str
    runs: list[str]
    files_planned: int
    purged_bytes: int
    report: str
    freed_bytes: NotRequired[int]
    over_guard: NotRequired[int]
    pinned_bytes: NotRequired[int]


class RunReport(common.Common, common.Remarked):
    """The fields of report.json that both operations have."""

    as_of: str
    purged: list[str]
    purged_bytes: int
    seen: Summary


@in_our_words
@with_report
def report(
    context: Context,
    operation: str,
    inventory: Asset,
    asked: Sequence[Arguments] | None,
    work: Sequence[Work] | None,
    stages: Stages,
) -> RunSummary:
    """The last word on a run, and the inventory's event; fails when the run must not count as a
    success.

    `stages` are the results of plan, apply, verify and purge. Any of the rest may be None: what
    comes of tasks that failed or were skipped.
    """
    params, stages = params_of(context), common.finished(stages)
    operation, purged = planned_by(operation, params), stages["purge"]
    folder = common.begin(context, asked, stages["plan"])
    plans = chosen(stages["plan"], list(work or []))
    lost = work is None or unfinished(asked, plans)
    change = common.write_report_tables(folder, plans, keys=common.PARTITION)
    content: RunReport = {
        "outcome": outcome(folder, params, operation, plans, lost=lost),
        "failures": [*failures(context), *unreachable.causes(plans)],
        "as_of": moment(context),
        "report": str(folder),
        **common.common(folder, plans, stages),
        "purged": [run for one in purged for run in one["runs"]],
        "purged_bytes": sum(one["freed_bytes"] for one in purged),
        "seen": change.seen,
        "remarks": _remarks(change.topics, params, plans, operation),
    }
    verdicts = _write_verdicts(folder, plans) if operation == "retain" else None
    rows = None if verdicts is None else _board(folder, params, plans, verdicts)
    deleted = None if rows is None else _deleted(rows, plans)
    more = deleted or (_split if operation == "split" else _rolled)(folder, plans)
    left = None if verdicts is None else _left(verdicts, plans, change)
    seen = change.at_the_end(common.PARTITION)
    volumes = overview.volumes_of(
        content["volumes"], seen, verdicts=left, looks=plans, params=params
    )
    common.close(context, {**content, **more}, volumes, inventory, "as_of")
    return common.part_of(RunSummary, {**content, **(deleted or {})})


def outcome(folder: Path, params: RunParams, operation: str, plans: Plans, *, lost: bool) -> str:
    """Return how the run of this folder ended, in words. A final UNFINISHED marks a failure.

    `lost`: an application did not get as far as its plan.
    """
    if lost:
        return UNFINISHED
    kept = sum(plan.get("over_guard", 0) for plan in plans)
    left = f", {counted(kept, 'segment')} kept by a guard" if kept else ""
    if blocked := sum(plan["totals"]["blocked"] for plan in plans):
        left += f", {counted(blocked, 'segment')} left as before"
    left += common.left_out(plans)
    if params["dry_run"]:
        return f"dry run{left}"
    return common.ended(folder, OPERATIONS[operation], plans, left)


def _remarks(topics: Collection[str], params: RunParams, plans: Plans, operation: str) -> list[str]:
    """Return remarks on all topics that were looked for.

    A plan knows the topics of one connection only, and a glob may match those of another.
    """
    from kafkats.generations import rule_remarks
    from kafkats.retention.options import Retain

    if not plans:
        return []
    everything = params["topics"] == "*" and not listed(params["volumes"])
    unmatched = checks.policy_of(params).remarks(filter(None, topics), all_topics=everything)
    retains = operation == "retain"
    by_rule = rule_remarks(Retain(rule=params["generation"]).rule) if retains else []
    return [
        *common.no_topic(params["topics"], topics),
        *by_rule,
        *map(in_form, unmatched),
        *common.of_reservations(plans),
    ]


def _write_verdicts(folder: Path, plans: Plans) -> Path:
    """Write the verdicts of the plans, with bytes on the disk. Return their file."""
    from kafkats.retention.plan import RETENTION

    path, seen = folder / "retention.parquet", overview.holes_of(plans)
    paths = (Path(plan["plan"]) / "retention.parquet" for plan in plans)
    pieces = (holes.without(rows, seen) for rows in common.pieces_of(paths, RETENTION))
    common.write_rows(path, pieces, RETENTION)
    return path


def _pieces(verdicts: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file with RETENTION, whole partitions at a time."""
    from kafkats.plans.facts import read_in_pieces
    from kafkats.plans.rows import whole_partitions
    from kafkats.retention.plan import RETENTION

    return whole_partitions(read_in_pieces(verdicts, RETENTION))


def _now_ms(plans: Plans) -> int:
    """Return the moment that the plans decide for, epoch ms; 0 without a plan."""
    return max((plan["now_ms"] for plan in plans), default=0)


def _board(folder: Path, params: RunParams, plans: Plans, verdicts: Path) -> list[SummaryRow]:
    """Write what retention decided, with pictures; return its summary."""
    from kafkats.plans.files import write_json
    from kafkats.retention.implausible_timestamps import SHARES
    from kafkats.retention.plot import plot_reclaimable, plot_timeline, reclaimable
    from kafkats.retention.summary import by_topic, deleted_by, summary_rows, with_shares

    now_ms = _now_ms(plans)
    shares = common.rows_of((Path(p["plan"]) / "suspects.parquet" for p in plans), SHARES)
    summaries = (summary_rows(piece, now_ms) for piece in _pieces(verdicts))
    rows = with_shares(chain.from_iterable(summaries), shares)
    topics = by_topic(rows)
    lines = _lines(params, [row["topic"] for row in topics], plans, now_ms)
    by_state = reclaimable(_pieces(verdicts), now_ms)
    board = {
        "now_ms": now_ms,
        "topics": topics,
        "partitions": rows,
        "lines": lines,
        "by_state": dict(by_state),
        "deleted_by": deleted_by(_pieces(verdicts)),
    }
    write_json(folder / "board.json", board)
    _write_basis(folder, params, plans, [row["topic"] for row in topics])
    plot_reclaimable(by_state, now_ms, folder / "reclaimable.png")
    plot_timeline(_pieces(verdicts), lines, now_ms, folder / "timeline.png")
    return rows


def _write_basis(folder: Path, params: RunParams, plans: Plans, topics: Sequence[str]) -> None:
    """Write the policy and the options of the plans, to try another retention.ms on."""
    from kafkats.plans.files import read_json, write_json
    from kafkats.retention import what_if

    if not plans or not topics:
        return
    options = read_json(Path(plans[0]["plan"]) / "plan.json")["options"]
    if isinstance(options, dict):
        basis = what_if.basis_of(checks.policy_of(params), options, frozenset(topics))
        write_json(folder / what_if.NAME, basis)


def _left(verdicts: Path, plans: Plans, change: common.Change) -> list[SummaryRow]:
    """Return the summary of the segments that the run has left."""
    from kafkats.retention.summary import summary_rows

    now_ms = _now_ms(plans)
    rows: list[SummaryRow] = []
    for piece in _pieces(verdicts):
        seen = change.near(piece, common.PARTITION)
        rows += summary_rows(overview.still_there(piece, seen, common.SEGMENT), now_ms)
    return rows


def _deleted(rows: Sequence[SummaryRow], plans: Plans) -> Deleted:
    from kafkats.retention.summary import sums_of

    more = {
        "freed_bytes": sum(plan["totals"]["freed_bytes"] for plan in plans),
        "kafka_bytes": sum(plan["totals"]["kafka_bytes"] for plan in plans),
        "over_guard": sum(plan.get("over_guard", 0) for plan in plans),
    }
    return common.part_of(Deleted, {**sums_of(rows), **more})


def _lines(params: RunParams, topics: Iterable[str], plans: Plans, now_ms: int) -> dict[str, int]:
    """Per topic the time before which its records are expired."""
    topics = sorted(topics)
    if before := next(
        (plan["before_ms"] for plan in plans if plan.get("before_ms") is not None), None
    ):
        return dict.fromkeys(topics, before)
    policy = checks.policy_of(params) if topics else Policy()
    return {topic: now_ms - ms for topic in topics if (ms := policy.limits(topic)[0]) >= 0}


def _rolled(folder: Path, plans: Plans) -> Rolled:
    from kafkats.plans.facts import write_table
    from kafkats.rolling.plan import DUE

    found = common.rows_of((Path(plan["plan"]) / "due.parquet" for plan in plans), DUE)
    write_table(folder / "due.parquet", found)
    _write_simulation(folder, plans)
    rolls = sum(row["rolls"] for row in found.to_pylist())
    return {"active_segments": found.num_rows, "due_segments": rolls}


def _write_simulation(folder: Path, plans: Plans) -> None:
    """Write what the plans simulated, by topic and day; nothing if they did not."""
    from kafkats.plans.facts import write_table
    from kafkats.plans.files import write_json
    from kafkats.rolling.by_topic import by_day, by_topic
    from kafkats.rolling.simulate import SIMULATED

    paths = [path for plan in plans if (path := Path(plan["plan"], "simulated.parquet")).exists()]
    if not paths:
        return
    found = common.rows_of(paths, SIMULATED)
    now_ms = _now_ms(plans)
    write_table(folder / "simulation-days.parquet", by_day(found))
    write_json(folder / "simulation.json", {"now_ms": now_ms, **by_topic(found)})


def _split(folder: Path, plans: Plans) -> WasSplit:
    from kafkats.plans.facts import write_table
    from kafkats.split.parts import PARTS

    found = common.rows_of((Path(plan["plan"]) / "parts.parquet" for plan in plans), PARTS)
    write_table(folder / "parts.parquet", found)
    return {
        "split_segments": sum(plan["totals"]["segments"] for plan in plans),
        "segments_added": sum(plan["totals"]["segments_added"] for plan in plans),
    }
