"""Lookup tables and exports by DAG: the hour that a run adds, the words of its jobs, what is told
of the tables.

Each broker of a connection has a table of its own, so that a partition is in it once, and runs on
several connections never write the same one. A run adds its data interval, whenever it runs:
backfills in any order end in the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow.providers.common.compat.sdk import Asset, Context
from airflow.sdk import AssetAlias

from kafkats.config import parse_duration
from kafkats.config.topics import topic_filter
from kafkats.errors import UsageError
from kafkats_airflow import checks, reports
from kafkats_airflow.applications import Group, groups_of
from kafkats_airflow.failing import failures, in_our_words, unfinished
from kafkats_airflow.folders import folder_of
from kafkats_airflow.moment import by_schedule, time_of

TABLES: Final = AssetAlias("kafka_lookup_tables", group="kafkats")
"""Stands for one asset per table, kafkats://lookup/NAME; an event's extra names the folder, the
interval and what was written.
"""
HOUR: Final = timedelta(hours=1)
AROUND: Final = timedelta(minutes=30)
"""What a picture of an export shows before and after its time."""
_AROUND_MS: Final = AROUND // timedelta(milliseconds=1)
COUNTS: Final = ("added", "closed", "open", "unreadable", "above_high_watermark")


def interval(context: Context) -> tuple[datetime, datetime]:
    """What the run adds: from `from` to `to` where they are given, else the data interval of its
    schedule or backfill, else the last full hour before its `run_after`.

    Raises UsageError for only one of the two, and for times without their offset from UTC.
    """
    given = [context["params"][name] for name in ("from", "to")]
    if all(given):
        return time_of(given[0], "from"), time_of(given[1], "to")
    if any(given):
        raise UsageError("either both of from and to, or none")
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    if not by_schedule(context) or begin is None or end is None or begin >= end:
        end = (
            context["dag_run"].run_after.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        )
        begin = end - HOUR
    return begin, end


def tables(params: Mapping[str, Any]) -> list[tuple[Group, Path]]:
    """The brokers' volumes, each with the folder of its table. Raises as `groups_of`."""
    root = Path(params["tables"] or Path(params["folder"], "lookup"))
    return [(group, root / group.name) for group in groups_of(params, by_broker=True, writes=False)]


@in_our_words
def building(context: Context) -> list[dict[str, Any]]:
    """Arguments of KafkatsJobOperator(job="lookup"), one dict per table."""
    params = context["params"]
    checks.writable(params["folder"])
    checks.amount(parse_duration, params["step"], "step")
    begin, end = interval(context)
    words = ["--topics", params["topics"], "--every", params["step"]]
    words += ["--from", begin.isoformat(), "--until", end.isoformat()]
    words += ["--depth", "full"] if params["exact"] else []
    words += ["--high-watermark", params["high_watermark"]]
    seen = folder_of(context)
    return [
        {"conn_id": group.connection,
         "application_args": [*group.log_dirs, *words, "--output", str(folder), "--report", str(seen / group.name)],
         "about": folder.name}
        for group, folder in tables(params)
    ]  # fmt: skip


@in_our_words
def built(context: Context, asked: Any, results: Any) -> dict[str, Any]:
    """Tell of every table that was written, in a report with pictures and in its asset's event.

    Fails when not all of `asked` were. Both may be None: what comes of tasks that failed.
    """
    from kafkats.plans.facts import write_json
    from kafkats_airflow import lookup_reports

    begin, end = interval(context)
    folder = folder_of(context)
    checks.writable(folder)
    said = [dict(result) for result in results or []]
    for one in said:
        one.pop("rates", None)
        name = Path(one["table"]).name
        asset = Asset(name=f"kafka_lookup_{name}", uri=f"kafkats://lookup/{name}", group="kafkats")
        context["outlet_events"][TABLES].add(asset, extra=one)
    for one in said:
        one["pictures"] = lookup_reports.of_table(Path(one["report"]), one)
    cells = {name: sum(one[name] for one in said) for name in COUNTS}
    whole = asked is not None and len(said) == len(asked)
    report = {"outcome": "built" if whole else reports.UNFINISHED, "failures": failures(context)}
    report |= {"from": begin.isoformat(), "to": end.isoformat(), **cells, "tables": said}
    report["remarks"] = _remarks(context["params"]["topics"], said) if whole else []
    report["other_logs"] = [line for one in said for line in one["other_logs"]]
    report["report"] = str(folder)
    reports.log_remarks(report)
    write_json(folder / "report.json", report)
    if not whole:
        raise unfinished(report["outcome"], report)
    return {
        name: report[name]
        for name in ("outcome", "from", "to", *cells, "remarks", "other_logs", "report")
    }


def _remarks(glob: str, said: Sequence[Mapping[str, Any]]) -> list[str]:
    return [] if any(one["partitions"] for one in said) else reports.nothing(glob)


@in_our_words
def looking(context: Context) -> list[dict[str, Any]]:
    """Arguments of KafkatsJobOperator(job="lookup") for an export from the volumes; empty where it
    is from tables.
    """
    params = context["params"]
    checks.writable(params["folder"])
    _times(params)
    if params["source"] == "tables":
        return []
    folder = folder_of(context)
    words = [word for ms in _times(params) for word in ("--at", str(ms))] + [
        "--at",
        "latest",
        "--at",
        "earliest",
    ]
    words += [
        "--topics",
        params["topics"],
        "--policy",
        params["policy"],
        "--high-watermark",
        params["high_watermark"],
    ]
    words += ["--go-on", "--around", f"{_AROUND_MS}ms"]
    return [
        {
            "conn_id": group.connection,
            "application_args": [*group.log_dirs, *words, "--report", str(folder / group.name)],
        }
        for group in groups_of(params)
    ]


@in_our_words
def export(context: Context, looked: Sequence[Mapping[str, Any]] | None) -> dict[str, Any]:
    """Write the export of all that was looked up, or of the tables, into the run's folder, with a
    report.
    """
    from kafkats.lookup import exports
    from kafkats.plans.facts import write_json, write_text
    from kafkats_airflow import lookup_reports

    params = context["params"]
    starts, ends = (
        _from_tables(params) if params["source"] == "tables" else _from_rows(params, looked or [])
    )
    folder = folder_of(context)
    checks.writable(folder)
    if not starts:  # and no file: an empty one would read as an answer
        report = {
            "outcome": "nothing to export",
            "export": None,
            "partitions": 0,
            "report": str(folder),
        }
        report |= {"remarks": reports.nothing(params["topics"]), "notes": [], "pictures": []}
        reports.log_remarks(report)
        write_json(folder / "report.json", report)
        return report
    made = exports.export(
        starts, ends, to=params["format"], missing=params["missing"], group=params["group"] or ""
    )
    path = folder / ("offsets.csv" if params["format"] == "group-csv" else "offsets.json")
    write_text(path, made.text)
    without = [note._asdict() for note in made.notes]
    report = {
        "outcome": "exported",
        "export": str(path),
        "format": params["format"],
        "partitions": made.partitions,
    }
    report |= {"report": str(folder), "without_answer": len(without), "remarks": []}
    marks = [*starts, *(ends or ())]
    if params["source"] == "tables":
        pictures = lookup_reports.of_export_from_table(folder, _table(params), marks, _AROUND_MS)
    else:
        pictures = lookup_reports.of_export(folder, looked or [], marks)
    write_json(folder / "report.json", report | {"notes": without, "pictures": pictures})
    return report


def _from_rows(params: Mapping[str, Any], looked: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    from kafkats.lookup.marks import marks_of
    from kafkats.lookup.partitions import LOOKUP
    from kafkats.plans.facts import read_table

    rows = reports.concat(
        [read_table(Path(one["report"]) / "lookup.parquet", LOOKUP) for one in looked], LOOKUP
    )
    if not rows.num_rows:
        return [], None
    at, *until = _times(params)
    return marks_of(rows, at), marks_of(rows, until[0]) if until else None


def _from_tables(params: Mapping[str, Any]) -> tuple[Any, Any]:
    from kafkats.lookup.marks import read_marks

    at, *until = _times(params)
    starts, ends = read_marks(_table(params), at, *until)
    return _of_topics(starts, params), _of_topics(ends, params) if ends is not None else None


def _of_topics(marks: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    wanted = topic_filter(params["topics"])
    return [mark for mark in marks if wanted.matches(mark.topic)]


def _table(params: Mapping[str, Any]) -> Path:
    """Of one broker only: two brokers have two answers for a partition that both have."""
    folders = [folder for _, folder in tables(params)]
    if len(folders) != 1:
        raise UsageError(
            f"an export is of one table, and there are {len(folders)}: name one broker as the volume"
        )
    return folders[0]


def _times(params: Mapping[str, Any]) -> list[int]:
    """The begin and, where one is given, the end, epoch ms; with the margin. Raises UsageError."""
    from kafkats.lookup.marks import with_margin

    margin = checks.amount(parse_duration, params["margin"], "margin") if params["margin"] else 0
    until = _ms(time_of(params["until"], "until")) if params["until"] else None
    begin, end = with_margin(_ms(time_of(params["time"], "time")), until, margin)
    return [begin] if end is None else [begin, end]


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
