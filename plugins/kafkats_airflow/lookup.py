"""Lookup tables and exports by DAG: the hour that a run adds, the words of its jobs, what is told of the tables.

Each broker of a connection has a table of its own, so that a partition is in it once, and runs on several connections never
write the same one. A run adds its data interval, whenever it runs: backfills in any order end in the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from airflow.providers.common.compat.sdk import Asset, Context
from airflow.sdk import AssetAlias

from kafkats.errors import UsageError
from kafkats_airflow.applications import Group, groups_of
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.folders import folder_of

TABLES: Final = AssetAlias("kafka_lookup_tables", group="kafkats")
"""Stands for one asset per table, kafkats://lookup/NAME; an event's extra names the folder, the interval and what was written."""
HOUR: Final = timedelta(hours=1)
AROUND: Final = timedelta(minutes=30)
"""What a picture of an export shows before and after its time."""
_AROUND_MS: Final = AROUND // timedelta(milliseconds=1)
COUNTS: Final = ("added", "closed", "open", "unreadable", "above_high_watermark")


def interval(context: Context) -> tuple[datetime, datetime]:
    """What the run adds: from `from` to `to` where they are given, else its data interval, else the hour before it was asked for.

    Raises UsageError for only one of the two, and for times without their offset from UTC.
    """
    given = [context["params"][name] for name in ("from", "to")]
    if all(given):
        return _time(given[0], "from"), _time(given[1], "to")
    if any(given):
        raise UsageError("either both of from and to, or none")
    begin, end = context.get("data_interval_start"), context.get("data_interval_end")
    if begin is None or end is None or begin >= end:
        end = context["dag_run"].run_after.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        begin = end - HOUR
    return begin, end


def tables(params: Mapping[str, Any]) -> list[tuple[Group, Path]]:
    """The brokers' volumes, each with the folder of its table. Raises as `groups_of`."""
    root = Path(params["tables"] or Path(params["folder"], "lookup"))
    return [(group, root / group.name) for group in groups_of(params, by_broker=True, by_owner=False)]


@in_our_words
def building(context: Context) -> list[dict[str, Any]]:
    """Arguments of KafkatsJobOperator(job="lookup"), one dict per table."""
    params = context["params"]
    begin, end = interval(context)
    words = [
        "--topics",
        params["topics"],
        "--every",
        params["step"],
        "--from",
        begin.isoformat(),
        "--until",
        end.isoformat(),
    ]
    words += ["--depth", "full"] if params["exact"] else []
    words += ["--high-watermark", params["high_watermark"]]
    seen = folder_of(context)
    return [
        {"conn_id": group.connection,
         "application_args": [*group.log_dirs, *words, "--output", str(folder), "--report", str(seen / group.name)],
         "about": folder.name}
        for group, folder in tables(params)
    ]  # fmt: skip


def built(context: Context, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Tell of every table that was written, in a report with pictures and in its asset's event."""
    from kafkats.report import write_json
    from kafkats_airflow import lookup_reports

    begin, end = interval(context)
    said = [dict(result) for result in results]
    for one in said:
        one.pop("rates", None)
        name = Path(one["table"]).name
        asset = Asset(name=f"kafka_lookup_{name}", uri=f"kafkats://lookup/{name}", group="kafkats")
        context["outlet_events"][TABLES].add(asset, extra=one)
    folder = folder_of(context)
    folder.mkdir(parents=True, exist_ok=True)
    for one in said:
        one["pictures"] = lookup_reports.of_table(Path(one["report"]), one)
    cells = {name: sum(one[name] for one in said) for name in COUNTS}
    report = {"outcome": "built", "from": begin.isoformat(), "to": end.isoformat(), **cells, "tables": said}
    report["other_logs"] = [line for one in said for line in one["other_logs"]]
    report["report"] = str(folder)
    write_json(folder / "report.json", report)
    return {name: report[name] for name in ("outcome", "from", "to", *cells, "other_logs", "report")}


@in_our_words
def looking(context: Context) -> list[dict[str, Any]]:
    """Arguments of KafkatsJobOperator(job="lookup") for an export from the volumes; empty where it is from tables."""
    params = context["params"]
    _times(params)
    if params["source"] == "tables":
        return []
    folder = folder_of(context)
    words = [word for ms in _times(params) for word in ("--at", str(ms))] + ["--at", "latest", "--at", "earliest"]
    words += ["--topics", params["topics"], "--policy", params["policy"], "--high-watermark", params["high_watermark"]]
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
    """Write the export of all that was looked up, or of the tables, into the run's folder, with a report."""
    from kafkats import exports
    from kafkats.report import write_json, write_text
    from kafkats_airflow import lookup_reports

    params = context["params"]
    starts, ends = _from_tables(params) if params["source"] == "tables" else _from_rows(params, looked or [])
    made = exports.export(starts, ends, to=params["format"], missing=params["missing"], group=params["group"] or "")
    folder = folder_of(context)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("offsets.csv" if params["format"] == "group-csv" else "offsets.json")
    write_text(path, made.text)
    without = [note._asdict() for note in made.notes]
    report = {"outcome": "exported", "export": str(path), "format": params["format"], "partitions": made.partitions}
    report |= {"report": str(folder), "without_answer": len(without)}
    marks = [*starts, *(ends or ())]
    if params["source"] == "tables":
        pictures = lookup_reports.of_export_from_table(folder, _table(params), marks, _AROUND_MS)
    else:
        pictures = lookup_reports.of_export(folder, looked or [], marks)
    write_json(folder / "report.json", report | {"notes": without, "pictures": pictures})
    return report


def _from_rows(params: Mapping[str, Any], looked: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    from kafkats import exports
    from kafkats.operations.lookup import LOOKUP
    from kafkats.report import read_table
    from kafkats_airflow import reports

    rows = reports.concat([read_table(Path(one["report"]) / "lookup.parquet", LOOKUP) for one in looked], LOOKUP)
    at, *until = _times(params)
    return exports.marks_of(rows, at), exports.marks_of(rows, until[0]) if until else None


def _from_tables(params: Mapping[str, Any]) -> tuple[Any, Any]:
    from kafkats import exports

    return exports.read_marks(_table(params), *_times(params), topics=params["topics"])


def _table(params: Mapping[str, Any]) -> Path:
    """Of one broker only: two brokers have two answers for a partition that both have."""
    folders = [folder for _, folder in tables(params)]
    if len(folders) != 1:
        raise UsageError(f"an export is of one table, and there are {len(folders)}: name one broker as the volume")
    return folders[0]


def _times(params: Mapping[str, Any]) -> list[int]:
    """The begin and, where one is given, the end, epoch ms; with the margin. Raises UsageError."""
    from kafkats.config import parse_duration
    from kafkats.exports import with_margin

    margin = parse_duration(params["margin"]) if params["margin"] else 0
    until = _ms(_time(params["until"], "until")) if params["until"] else None
    begin, end = with_margin(_ms(_time(params["time"], "time")), until, margin)
    return [begin] if end is None else [begin, end]


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _time(text: str, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"{name}: {text!r} is no time such as 2026-01-31T10:00:00Z")
    return found
