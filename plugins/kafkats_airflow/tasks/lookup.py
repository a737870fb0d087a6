"""Lookup tables and exports by DAG: the hour that a run adds, the requests of its jobs, and what is
told of the tables.

Each broker of a connection has a table of its own, so that a partition is in it once, and runs on
several connections never write the same one. A run adds its data interval, whenever it runs:
backfills in any order end in the same files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict

from airflow.sdk import Context

from kafkats.config.topics import topic_filter
from kafkats.config.values import parse_duration
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats_airflow import checks
from kafkats_airflow.failing import UNFINISHED, failures, in_our_words, unfinished
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.jobs.applications import Given, of_groups
from kafkats_airflow.reports import common, unreachable
from kafkats_airflow.reports import failed as failed_reports
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import Arguments, Asked, LookupResult, TableResult
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.moment import by_schedule, time_of
from kafkats_airflow.runs.volumes import Group, groups_of

if TYPE_CHECKING:
    from airflow.sdk import AssetAlias
    from pydantic import JsonValue

    from kafkats.lookup.marks import Mark
    from kafkats.search.answers import Target
    from kafkats_airflow.dag_set import DagSet

HOUR: Final = timedelta(hours=1)
AROUND: Final = timedelta(minutes=30)
"""The time that a picture of an export shows before and after its own."""
_LEAST_STEP_MS: Final = 1_000
_CELLS: Final = ("added", "closed", "open", "unreadable", "above_high_watermark")
_AROUND_MS: Final = AROUND // timedelta(milliseconds=1)


class ExportSummary(TypedDict, total=False):
    """The result of the task `write` of export_offsets."""

    outcome: Required[str]
    export: Required[str | None]
    partitions: Required[int]
    remarks: Required[list[str]]
    report: Required[str]
    format: str
    without_answer: int


class ExportReport(ExportSummary):
    """report.json of export_offsets."""

    notes: list[dict[str, Any]]
    pictures: list[str]
    failures: list[str]


def interval(context: Context) -> tuple[datetime, datetime]:
    """Return the begin and end of the cells that the run adds.

    These are the params `from` and `to` if they are given, else the data interval of its schedule
    or backfill, else the last full hour before its `run_after`.

    Raises UsageError for only one of the two, and for times without their offset from UTC
    or in the wrong order.
    """
    since, until = params_of(context)["from"], params_of(context)["to"]
    if since and until:
        if (first := time_of(since, "from")) >= (last := time_of(until, "to")):
            raise UsageError(f"to: {until!r} is not after from: {since!r}")
        return first, last
    if since or until:
        raise UsageError("either both of from and to, or none")
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    if by_schedule(context) and begin is not None and end is not None and begin < end:
        return begin, end
    hour = context["dag_run"].run_after.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return hour - HOUR, hour


def tables(params: RunParams) -> list[tuple[Group, Path]]:
    """The brokers' volumes, each with the folder of its table. Raises as `groups_of`."""
    root = Path(params["tables"] or Path(params["folder"], "lookup"))
    return [(group, root / group.name) for group in groups_of(params, by_broker=True, writes=False)]


@in_our_words
def building(context: Context) -> list[Arguments]:
    """Return arguments of KafkatsJobOperator(job="lookup"), one dict per table."""
    params = params_of(context)
    checks.writable(params["folder"])
    if checks.amount(parse_duration, params["step"], "step") < _LEAST_STEP_MS:
        raise UsageError(f"step: {params['step']!r} is less than 1s")
    begin, end = interval(context)
    every: Given = _searching(params) | {
        "Table": {
            "every": params["step"],
            "begins": begin.isoformat(),
            "until": end.isoformat(),
        },
        "Lookup": {"go_on": True} | ({"depth": "full"} if params["exact"] else {}),
    }
    seen, asked = folder_of(context), list[Arguments]()
    for group, folder in tables(params):
        options = every | {
            "Table": every["Table"] | {"output": str(folder)},
            "Lookup": every["Lookup"] | {"report": str(seen / group.name)},
        }
        request: Asked = {"log_dirs": group.log_dirs, "options": options}
        asked.append({"conn_id": group.connection, "request": request, "about": folder.name})
    return asked


def _searching(params: RunParams) -> Given:
    """Return the options of every search."""
    search = {"high_watermark": params["high_watermark"]}
    return {"Topics": {"topics": params["topics"]}, "Search": search}


@in_our_words
@with_report
def built(
    context: Context,
    dags: DagSet,
    alias: AssetAlias,
    asked: Sequence[Arguments] | None,
    results: Sequence[TableResult] | None,
) -> dict[str, Any]:
    """Report every table that was written, with pictures, and in its asset's event. The numbers of
    cells are those of all tables, `from` and `to` the times that the run adds. `alias` stands for
    one asset per table, kafkats://lookup/NAME; its event names the table's folder.

    Fails when not all of `asked` were. Both are None after tasks that failed.
    """
    from kafkats_airflow.reports import lookup as lookup_reports

    begin, end = interval(context)
    folder = folder_of(context)
    checks.writable(folder)
    written: list[Any] = [dict(result) for result in results or []]
    for one in written:
        one.pop("rates", None)
        one["pictures"] = lookup_reports.of_table(Path(one["report"]), one)
        name = Path(one["table"]).name
        asset = dags.asset(f"kafka_lookup_{name}", f"lookup/{name}")
        extra: dict[str, JsonValue] = json.loads(json.dumps(one))
        context["outlet_events"][alias].add(asset, extra=extra)
    whole = asked is not None and len(written) == len(asked)
    dead = unreachable.words(written)
    seen = any(one["partitions"] for one in written)
    summary: dict[str, Any] = {
        "outcome": f"built{dead}" if whole else UNFINISHED,
        "from": begin.isoformat(),
        "to": end.isoformat(),
        **{name: sum(one[name] for one in written) for name in _CELLS},
        "remarks": common.nothing(params_of(context)["topics"]) if whole and not seen else [],
        "other_logs": [line for one in written for line in one["other_logs"]],
        "report": str(folder),
    }
    causes = [*failures(context), *unreachable.causes(written, "lookup")]
    report = {**summary, "failures": causes, "tables": written}
    common.close(context, report, unreachable.volumes(written))
    return summary


def _unanswered(without: int, partitions: int, missing: str) -> list[str]:
    """Return the remark that an export has partitions without an answer."""
    if not without:
        return []
    return [
        f"no record of this time for {without} of {counted(partitions, 'partition')}: the export"
        f" has an end of the log there, or leaves it out (param missing, which was {missing});"
        " Offsets by time gives each reason"
    ]


@in_our_words
def looking(context: Context) -> list[Arguments]:
    """Return arguments of KafkatsJobOperator(job="lookup") for an export from the volumes; nothing
    for one from tables.
    """
    params = params_of(context)
    checks.writable(params["folder"])
    _times(params)
    if params["source"] == "tables":
        return []
    folder = folder_of(context)
    times = [*map(str, _times(params)), "latest", "earliest"]
    every: Given = _searching(params) | {"Times": {"times": times}}

    def request(group: Group) -> Asked:
        look = {"go_on": True, "around": _AROUND_MS, "report": str(folder / group.name)}
        return {"log_dirs": group.log_dirs, "options": every | {"Lookup": look}}

    return of_groups(groups_of(params), request)


@in_our_words
@with_report
def export(context: Context, looked: Sequence[LookupResult] | None) -> ExportSummary:
    """Write the export of all that was looked up, or of the tables, into the run's folder, with a
    report. Fails if an earlier task has failed; that has a report, too.
    """
    from kafkats.lookup import exports
    from kafkats.plans.files import write_text
    from kafkats_airflow.reports import lookup as lookup_reports

    if causes := failures(context):
        raise unfinished(failed_reports.write(context, causes))
    params = params_of(context)
    starts, ends = (
        _from_tables(params) if params["source"] == "tables" else _from_rows(params, looked or [])
    )
    folder = folder_of(context)
    checks.writable(folder)
    dead, causes = unreachable.words(looked or []), unreachable.causes(looked or [], "look")
    left_out = unreachable.volumes(looked or [])
    if not starts:
        report: ExportReport = {
            "outcome": f"nothing to export{dead}",
            "export": None,
            "partitions": 0,
            "report": str(folder),
            "remarks": common.nothing(params["topics"]),
            "failures": causes,
            "notes": [],
            "pictures": [],
        }
        common.close(context, report, left_out)  # and no file: it would read as an answer
        return report
    made = exports.export(
        starts, ends, to=params["format"], missing=params["missing"], group=params["group"] or ""
    )
    path = folder / ("offsets.csv" if params["format"] == "group-csv" else "offsets.json")
    write_text(path, made.text)
    without = [note._asdict() for note in made.notes]
    summary: ExportSummary = {
        "outcome": f"exported{dead}",
        "export": str(path),
        "format": params["format"],
        "partitions": made.partitions,
        "report": str(folder),
        "without_answer": len(without),
        "remarks": _unanswered(len(without), made.partitions, params["missing"]),
    }
    marks = [*starts, *(ends or ())]
    if params["source"] == "tables":
        pictures = lookup_reports.of_export_from_table(folder, _table(params), marks, _AROUND_MS)
    else:
        pictures = lookup_reports.of_export(folder, looked or [], marks)
    content = {**summary, "failures": causes, "notes": without, "pictures": pictures}
    common.close(context, content, left_out)
    return summary


def _from_rows(
    params: RunParams, looked: Sequence[LookupResult]
) -> tuple[list[Mark], list[Mark] | None]:
    from kafkats.lookup.marks import marks_of
    from kafkats.lookup.partitions import LOOKUP
    from kafkats.plans.facts import read_table

    rows = common.concat(
        [read_table(Path(one["report"]) / "lookup.parquet", LOOKUP) for one in looked], LOOKUP
    )
    if not rows.num_rows:
        return [], None
    at, *until = _times(params)
    return marks_of(rows, at), marks_of(rows, until[0]) if until else None


def _from_tables(params: RunParams) -> tuple[list[Mark], list[Mark] | None]:
    from kafkats.lookup.marks import read_marks

    at, *until = _times(params)
    starts, ends = read_marks(_table(params), at, *until)
    return _of_topics(starts, params), _of_topics(ends, params) if ends is not None else None


def _of_topics(marks: Sequence[Mark], params: RunParams) -> list[Mark]:
    wanted = topic_filter(params["topics"])
    return [mark for mark in marks if wanted.matches(mark.topic)]


def _table(params: RunParams) -> Path:
    """Return the table of one broker: two brokers have two answers for a shared partition."""
    folders = [folder for _, folder in tables(params)]
    if len(folders) != 1:
        raise UsageError(
            f"an export is of one table, and there are {len(folders)}: name one broker as the"
            " volume"
        )
    return folders[0]


def _times(params: RunParams) -> list[Target]:
    """Return the begin and, if given, the end, epoch ms; with the margin. Raises UsageError."""
    from kafkats.lookup.marks import with_margin

    margin = checks.amount(parse_duration, params["margin"], "margin") if params["margin"] else 0
    until = _ms(time_of(params["until"], "until")) if params["until"] else None
    begin, end = with_margin(_ms(time_of(params["time"], "time")), until, margin)
    return [begin] if end is None else [begin, end]


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
