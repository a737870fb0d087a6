"""The pictures in the reports of build_lookup_tables and export_offsets, from what the workers kept
for them.

staircase.png     the offset that is given for each time, over the records of that time, partition
                  by partition
disorder.png      how late records came, of the partitions in it
calendar.png      the hours that a table has, and where it is open or unreadable
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkats.clock import DAY_MS
from kafkats_airflow.reports import common
from kafkats_airflow.results import JobResult, LookupResult, TableResult

if TYPE_CHECKING:
    from kafkats.lookup.marks import Mark
    from kafkats.lookup.record_scatter import Cloud


def of_table(folder: Path, built: TableResult) -> list[str]:
    """Draw a table that was written, with the time that was added; returns the pictures' names."""
    from kafkats.lookup.plot import plot_staircase
    from kafkats.tables import read

    clouds = _clouds([built])
    view = read(
        built["table"],
        from_ms=built["from_ms"],
        to_ms=built["to_ms"],
        topics={topic for topic, _ in clouds},
    )
    plot_staircase(view, clouds, folder / "staircase.png")
    added = (built["from_ms"], built["to_ms"])
    return ["staircase.png", *_disorder(folder, clouds), calendar(folder, built["table"], added)]


def of_export(folder: Path, looked: Sequence[LookupResult], marks: Sequence[Mark]) -> list[str]:
    """Draw the time around what was exported from volumes, with the answers."""
    from kafkats.lookup.plot import plot_staircase
    from kafkats.plans.facts import read_table
    from kafkats.tables import TABLE, View

    drawn = [one for one in looked if one.get("cells_step_ms")]
    if not drawn:
        return []
    cells = common.concat(
        [read_table(Path(one["report"]) / "cells.parquet", TABLE) for one in drawn], TABLE
    )
    clouds = _clouds(drawn)
    view = View(cells.unify_dictionaries(), max(one["cells_step_ms"] for one in drawn), ())
    plot_staircase(view, clouds, folder / "staircase.png", marks=marks)
    return ["staircase.png", *_disorder(folder, clouds)]


def of_export_from_table(
    folder: Path, table: Path, marks: Sequence[Mark], around_ms: int
) -> list[str]:
    """Draw the same from a table, which has no records."""
    from kafkats.lookup.plot import plot_staircase
    from kafkats.tables import read

    times = [mark.target_ms for mark in marks]
    begin, end = min(times) - around_ms, min(max(times), min(times) + DAY_MS) + around_ms + 1
    view = read(table, from_ms=begin, to_ms=end, topics={mark.topic for mark in marks})
    plot_staircase(view, {}, folder / "staircase.png", marks=marks)
    asked = (min(times), max(times) + 1)
    return ["staircase.png", calendar(folder, table, asked, times)]


def calendar(
    folder: Path, table: str | Path, around: tuple[int, int], asked: Sequence[int] = ()
) -> str:
    """Draw the table's hours of the time `around`, with the times `asked` for."""
    from kafkats.lookup.plot import plot_calendar
    from kafkats.tables import open_runs

    plot_calendar(*open_runs(table), folder / "calendar.png", around=around, asked=asked)
    return "calendar.png"


def _clouds(results: Sequence[JobResult]) -> dict[tuple[str, int], Cloud]:
    from kafkats.lookup.record_scatter import CLOUDS, clouds_in
    from kafkats.plans.facts import read_table

    rows = [read_table(Path(one["report"]) / "clouds.parquet", CLOUDS) for one in results]
    return clouds_in(common.concat(rows, CLOUDS))


def _disorder(folder: Path, clouds: Mapping[tuple[str, int], Cloud]) -> list[str]:
    from kafkats.lookup.plot import plot_disorder

    plot_disorder(clouds, folder / "disorder.png")
    return ["disorder.png"]
