"""The reports of apply_retention and roll_segments, each put together in one folder.

report.json         outcome, the moment it was decided for, plans, runs, bytes freed and kept, what
                    was purged, remarks on the policy
segments.parquet    kafkats.plans.facts.SEGMENTS (depth tail) before the change
after.parquet       the same for the partitions that were changed, after it
actions.parquet     kafkats.plans.facts.ACTIONS, one row per file
retention.parquet   kafkats.retention.plan.RETENTION, one row per segment: verdict, veto, reason,
                    from when on
board.json          per topic and per partition: bytes that go now, in a day, in a week; what keeps
                    the others, until when, and which share of a suspect segment's batches is in
                    which unit
reclaimable.png     bytes per topic by what becomes of them
timeline.png        segments from first to largest timestamp, and the retention line
due.parquet         kafkats.rolling.plan.DUE, one row per active segment (roll_segments)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import Context

from kafkats.config import Policy
from kafkats_airflow import checks, reports, tries
from kafkats_airflow.applications import listed
from kafkats_airflow.failing import failures, in_our_words
from kafkats_airflow.failing import unfinished as failure
from kafkats_airflow.folders import folder_of
from kafkats_airflow.moment import moment
from kafkats_airflow.reports import UNFINISHED, Results
from kafkats_airflow.retention import INVENTORY, chosen, unfinished

DONE = {"retain": "deleted", "roll": "rolled"}


@in_our_words
def report(
    context: Context, operation: str, asked: Any, work: Any, stages: Mapping[str, Any]
) -> dict[str, Any]:
    """The last word on a run, and the inventory's event; fails when the run must not count as a
    success.

    `stages` are the results of plan, apply, verify and purge. Any of the rest may be None: what
    comes of tasks that failed or were skipped.
    """
    given = {stage: list(results or []) for stage, results in stages.items()}
    asked = None if asked is None else list(asked)
    plans = chosen(asked, given["plan"], list(work or []))
    folder = folder_of(context)
    end = outcome(
        folder, context["params"], operation, plans, lost=work is None or unfinished(asked, plans)
    )
    checks.writable(folder)
    said = {
        "outcome": end,
        "failures": failures(context),
        "as_of": moment(context),
        "report": str(folder),
    }
    said |= _common(folder, plans, given)
    said |= _tables(folder, plans)
    said["remarks"] = _remarks(folder, context["params"], plans, operation)
    reports.log_remarks(said)
    said |= (
        _deleted(folder, context["params"], plans)
        if operation == "retain"
        else _rolled(folder, plans)
    )
    from kafkats.plans.facts import write_json

    write_json(folder / "report.json", said)
    context["outlet_events"][INVENTORY].extra = {
        key: said[key] for key in ("volumes", "outcome", "as_of", "report")
    }
    if end.endswith(UNFINISHED):
        raise failure(end, said)
    told = (
        "outcome",
        "as_of",
        "runs",
        "files_planned",
        "freed_bytes",
        "over_guard",
        "pinned_bytes",
        "purged_bytes",
        "report",
    )
    return {key: said[key] for key in told if key in said}


def outcome(
    folder: Path, params: Mapping[str, Any], operation: str, plans: Results, *, lost: bool
) -> str:
    """How the run whose folder this is ended, in words; UNFINISHED at their end when it must not
    count as a success.

    `lost`: an application did not get as far as its plan.
    """
    if lost:
        return UNFINISHED
    kept = sum(plan.get("over_guard", 0) for plan in plans)
    left = f", {kept} segments kept by a guard" if kept else ""
    if blocked := sum(plan["totals"]["blocked"] for plan in plans):
        left += f", {blocked} segments left as they were"
    left += reports.left_out(plans)
    if params["dry_run"]:
        return f"dry run{left}"
    words = {
        "nothing": f"nothing to {'delete' if operation == 'retain' else operation}{left}",
        "proved": f"{DONE[operation]} and proved{left}",
        "rejected": "rejected",
    }
    return words.get(tries.ending(folder, plans, rejected=tries.rejected(folder)), UNFINISHED)


def _common(folder: Path, plans: Results, stages: Mapping[str, Results]) -> dict[str, Any]:
    purged = stages["purge"]
    return {
        **reports.common(folder, plans, stages),
        "purged": [run for one in purged for run in one["runs"]],
        "purged_bytes": sum(one["freed_bytes"] for one in purged),
    }


def _tables(folder: Path, plans: Results) -> dict[str, Any]:
    from kafkats.plans.facts import summary, write_table

    before = reports.segments_of(plan["seen"]["report"] for plan in plans)
    write_table(folder / "segments.parquet", before)
    write_table(folder / "after.parquet", reports.after_of(folder))
    write_table(folder / "actions.parquet", reports.actions_of(folder))
    return {"seen": summary(before)}


def _remarks(folder: Path, params: Mapping[str, Any], plans: Results, operation: str) -> list[str]:
    """Of all topics that were looked for: a plan knows those of one connection only, a glob may be
    for another's.
    """
    from kafkats.generations import rule_remarks
    from kafkats.plans.facts import SEGMENTS, read_table

    if not plans:
        return []
    segments = read_table(folder / "segments.parquet", SEGMENTS)
    topics = segments["topic"].unique().to_pylist()
    everything = params["topics"] == "*" and not listed(params["volumes"])
    said = checks.policy_of(params).remarks(filter(None, topics), all_topics=everything)
    nothing = reports.no_topic(params["topics"], segments)
    return [
        *nothing,
        *(rule_remarks(params["generation"]) if operation == "retain" else ()),
        *said,
        *reports.of_reservations(plans),
    ]


def _deleted(folder: Path, params: Mapping[str, Any], plans: Results) -> dict[str, Any]:
    from kafkats.plans.facts import read_table, write_json, write_table
    from kafkats.retention.implausible_timestamps import SHARES
    from kafkats.retention.plan import RETENTION
    from kafkats.retention.plot import plot_reclaimable, plot_timeline
    from kafkats.retention.summary import board, by_topic, with_shares

    verdicts = reports.concat(
        [read_table(Path(p["plan"]) / "retention.parquet", RETENTION) for p in plans], RETENTION
    )
    now_ms = max((plan["now_ms"] for plan in plans), default=0)
    shares = reports.concat(
        [read_table(Path(p["plan"]) / "suspects.parquet", SHARES) for p in plans], SHARES
    )
    rows = with_shares(board(verdicts, now_ms), shares)
    topics = by_topic(rows)
    write_table(folder / "retention.parquet", verdicts)
    write_json(folder / "board.json", {"now_ms": now_ms, "topics": topics, "partitions": rows})
    plot_reclaimable(verdicts, now_ms, folder / "reclaimable.png")
    plot_timeline(
        verdicts, _lines(params, verdicts, plans, now_ms), now_ms, folder / "timeline.png"
    )
    sizes = ("bytes", "now_bytes", "day_bytes", "week_bytes", "pinned_bytes", "vetoed_bytes")
    return {
        **{name: sum(row[name] for row in rows) for name in sizes},
        "freed_bytes": sum(plan["totals"]["freed_bytes"] for plan in plans),
        "kafka_bytes": sum(plan["totals"]["kafka_bytes"] for plan in plans),
        "over_guard": sum(plan.get("over_guard", 0) for plan in plans),
    }


def _lines(params: Mapping[str, Any], verdicts: Any, plans: Results, now_ms: int) -> dict[str, int]:
    """Per topic the time before which its records are expired."""
    topics: Sequence[str] = sorted(set(verdicts["topic"].to_pylist()))
    if before := next(
        (plan["before_ms"] for plan in plans if plan.get("before_ms") is not None), None
    ):
        return dict.fromkeys(topics, before)
    policy = checks.policy_of(params) if topics else Policy()
    return {topic: now_ms - ms for topic in topics if (ms := policy.limits(topic)[0]) >= 0}


def _rolled(folder: Path, plans: Results) -> dict[str, Any]:
    from kafkats.plans.facts import read_table, write_table
    from kafkats.rolling.plan import DUE

    found = reports.concat(
        [read_table(Path(plan["plan"]) / "due.parquet", DUE) for plan in plans], DUE
    )
    write_table(folder / "due.parquet", found)
    rolls = sum(row["rolls"] for row in found.to_pylist())
    return {"active_segments": found.num_rows, "due_segments": rolls}
