"""The tasks of apply_retention and roll_segments: arguments of their jobs, and RUNs due for a
purge.

Both decide for a moment (kafkats_airflow.runs.moment).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from airflow.sdk import Context

from kafkats import clock
from kafkats.clock import DAY_MS
from kafkats.errors import KafkatsError, UsageError
from kafkats_airflow import checks
from kafkats_airflow.approvals.guards import beyond_guards, nothing, over_guards
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.applications import of_groups, options_of, to_plan
from kafkats_airflow.results import Answer, Arguments, Asked, PlanResult, Work
from kafkats_airflow.runs.folders import every_run, folder_of
from kafkats_airflow.runs.moment import moment
from kafkats_airflow.runs.plans import planned_by
from kafkats_airflow.runs.tries import work_of
from kafkats_airflow.runs.volumes import Group, groups_of


@in_our_words
def planning(context: Context, operation: str) -> list[Arguments]:
    """Return arguments of PlanJobOperator, one dict per application."""
    params, now = params_of(context), moment(context)
    checks.writable(params["folder"])
    form, operation = operation, planned_by(operation, params)
    if operation == "retain" and params["free"] and params["inside_segments"]:
        raise UsageError(
            "inside_segments writes what stays before anything is freed: it does not go with free"
        )
    options = options_of(operation, params, form)
    if operation == "split":
        options["Split"] |= {"where": params["split"], "latest": now}
    else:
        options[operation.capitalize()]["now"] = now

    def request(group: Group) -> Asked:
        beyond = {"beyond_guard": str(folder_of(context) / group.name / "over-guard")}
        more = {"Beyond": beyond} if operation == "retain" else {}
        return to_plan(context, group, operation, options | more)

    return of_groups(groups_of(params), request)


@in_our_words
def changing(
    context: Context,
    asked: Sequence[Arguments],
    plans: Sequence[PlanResult],
    answer: Answer | None = None,
) -> list[Work]:
    """Return the Work of each application (kafkats_airflow.runs.tries); nothing for a dry run.

    The plan is the one within the guards, unless `answer` allows more, or nothing.
    """
    params = params_of(context)
    if params["dry_run"]:
        return []
    found = []
    for one, plan in zip(asked, plans, strict=True):
        counts = beyond_guards(plan) if over_guards(answer) else plan
        writes = bool(counts["totals"]["files"]) and not nothing(answer)
        found.append(work_of(one["conn_id"], counts, {}, writes=writes))
    return [work for work in found if work]


@in_our_words
def due(context: Context, operation: str) -> list[Arguments]:
    """Return arguments of the purge job: RUNs of this operation that ended `undo_days` ago or
    earlier, of a roll also splits.

    The clock counts, not the moment that the run decides for. Nothing for a dry run.
    """
    params = params_of(context)
    if params["dry_run"]:
        return []
    window_ms = params["undo_days"] * DAY_MS
    folders = every_run(params["folder"])
    waiting = [
        (folder, dirs) for folder in folders if (dirs := _waits(folder, operation, window_ms))
    ]
    asked: list[Arguments] = []
    for group in groups_of(params):
        runs = [str(folder) for folder, dirs in waiting if dirs <= set(group.log_dirs)]
        if runs:
            options = {"Purge": {"older_than": window_ms}}
            request: Asked = {"runs": runs, "options": options}
            asked.append({"conn_id": group.connection, "request": request})
    return asked


def _waits(folder: Path, operation: str, window_ms: int) -> set[str]:
    """Return the log directories of a RUN that is due for a purge, else nothing."""
    from kafkats.plans.run import read_run

    ended = folder / "report.json"
    now_ms = clock.now_ms()
    if (folder / "purge.json").exists() or not ended.exists():
        return set()
    if ended.stat().st_mtime_ns // 1_000_000 + window_ms > now_ms:
        return set()
    try:
        run = read_run(folder)
    except KafkatsError:  # another version's, or half written: not ours to purge
        return set()
    ours = {operation, "split"} if operation == "roll" else {operation}
    return set(run.directories) if run.operation in ours else set()
