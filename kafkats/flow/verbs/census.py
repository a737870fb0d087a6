"""Count bytes, batches and records by message format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats.config.options import Report
from kafkats.execution.executor import Executor
from kafkats.flow import certifying
from kafkats.flow.certifying import write_census
from kafkats.flow.dispatch import Work
from kafkats.flow.looking import units_of
from kafkats.flow.viewing import View, groups_of, tables_of, viewed
from kafkats.inspect.options import Census
from kafkats.migration.census import (
    Counts,
    counts_of,
    group_census,
    sum_of_counts,
    sum_of_groups,
)
from kafkats.plans.directories import Directories
from kafkats.plans.disks import keep_disks
from kafkats.plans.files import write_json
from kafkats.plans.units import Unit
from kafkats.plans.volumes import note_volumes

_OF_PARTITIONS: Final = ("segment", "partition")
"""Groups that are of one partition."""


def perform(work: Work) -> None:
    """Count the formats in the request's log directories. A report has all rows, and the bytes of
    each topic that a broker converts for old fetches.

    Raises UsageError, StorageFailed, and as `units_of`.
    """
    request, done, asked = work.request, work.done, work.request.of(Census)
    log_dirs, report = [one.path for one in request.log_dirs], request.of(Report).report
    done.more = {"log_dirs": list(map(str, log_dirs))}
    groups = groups_of(work)
    if groups:
        counts = count_in_groups(work, groups, asked.by, deep=asked.deep)
    else:
        table = certifying.count_formats(work.executor, units_of(work), deep=asked.deep)
        counts = counts_of(table)
        if report is not None:
            write_census((table,), report)
        show_groups(work, counts, [group_census(table, asked.by)])
    done.census = {**counts.summary}
    if report is not None:
        done.census["report"] = done.reports["report"] = str(report)
        write_json(report / "zero-copy.json", {"topics": counts.zero_copy})
        keep_disks(log_dirs, report)
        note_volumes(report, map(str, log_dirs))


def count_in_groups(
    work: Work, groups: Sequence[Directories], by: str, *, deep: bool = False
) -> Counts:
    """Count and show the formats of one group of partitions after another."""
    report = work.request.of(Report).report
    look = partial(view_formats, by=by, deep=deep, whole=report is not None)
    with viewed(work.executor, groups, look, report, by_ends=False) as views:
        if report is not None:
            write_census(tables_of(views, "census"), report)
        counts = sum_of_counts([Counts(*view.totals["counts"]) for view in views])
        rows = (table.to_pylist() for table in tables_of(views, "rows"))
        show_groups(work, counts, rows if by in _OF_PARTITIONS else [sum_of_groups(rows, by)])
    return counts


def keep_census_of(
    executor: Executor, groups: Sequence[Directories], report: Path, dialect: str | None = None
) -> dict[str, Any]:
    """Count the formats of groups as `certifying.keep_census` does."""
    look = partial(view_formats, by="format", deep=False, whole=True)
    with viewed(executor, groups, look, report, by_ends=False, dialect=dialect) as views:
        write_census(tables_of(views, "census"), report)
        counts = sum_of_counts([Counts(*view.totals["counts"]) for view in views])
    return {**counts.summary, "report": str(report)}


def view_formats(
    executor: Executor, units: Sequence[Unit], *, by: str, deep: bool, whole: bool
) -> View:
    """Count the formats of some partitions. `whole`: hand over all rows, too."""
    table = certifying.count_formats(executor, units, deep=deep)
    tables = {"rows": pa.Table.from_pylist(group_census(table, by))}
    return View({"counts": counts_of(table)}, tables | ({"census": table} if whole else {}))


def show_groups(work: Work, counts: Counts, groups: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    """Show the rows of a census, some at a time, and note its totals."""
    shown = 0
    for rows in groups:
        shown += len(rows)
        work.show.formats(rows)
    work.show.counted(counts)
    work.done.found = {**counts.summary, "groups": shown}
