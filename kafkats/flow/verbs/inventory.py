"""List what is in log directories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from kafkats.config.options import Report
from kafkats.errors import UsageError
from kafkats.execution.executor import Executor
from kafkats.flow import certifying, looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_segments, keep_views
from kafkats.flow.looking import units_of
from kafkats.flow.verbs.census import count_in_groups, show_groups
from kafkats.flow.viewing import View, groups_of, tables_of, viewed
from kafkats.inspect.inventory import Row, group, sum_of_groups
from kafkats.inspect.options import Inventory
from kafkats.migration.census import counts_of, group_census
from kafkats.plans.directories import Directories
from kafkats.plans.facts import summary, telling
from kafkats.plans.units import Unit
from kafkats.text import Command


def perform(work: Work) -> None:
    """List the request's log directories by the ends of their files; their formats by every batch.

    Raises UsageError, StorageFailed, and as `units_of`.
    """
    by, report = work.request.of(Inventory).by, work.request.of(Report).report
    if by == "format" and report is not None:
        raise UsageError(Command("census"), " writes the report of formats, inventory does not")
    groups = groups_of(work)
    if by == "format" and groups:
        count_in_groups(work, groups, "topic")
    elif by == "format":
        table = certifying.count_formats(work.executor, units_of(work))
        show_groups(work, counts_of(table), [group_census(table, "topic")])
    elif groups:
        _list_groups(work, groups, by, report)
    else:
        segments = looking.LogStages(work.executor).ends(units_of(work))
        rows = group(segments, by)
        work.show.listed(segments, rows, by)
        work.done.found = keep_segments(segments, report) | {"groups": len(rows)}


def _list_groups(work: Work, groups: Sequence[Directories], by: str, report: Path | None) -> None:
    """List one group of partitions after another. Rows of topics are shown in the end."""
    look = partial(view_ends, by=by, whole=report is not None)
    with viewed(work.executor, groups, look, report, by_ends=True) as views:
        count = 0
        topics: list[Sequence[Row]] = []
        for table, segments in zip(
            tables_of(views, "rows"), tables_of(views, "segments"), strict=True
        ):
            rows: list[Row] = table.to_pylist()
            if by == "topic":
                topics = [sum_of_groups([*topics, rows])]
                rows = []
            count += len(rows)
            work.show.listed(telling(segments), rows, by)
        for rows in map(list, topics):
            count += len(rows)
            work.show.listed(views[0].table("segments").slice(0, 0), rows, by)
        work.done.found = keep_views(views, report) | {"groups": count}


def view_ends(executor: Executor, units: Sequence[Unit], *, by: str, whole: bool) -> View:
    """List some partitions. `whole`: the table has also the rows that tell nothing."""
    segments = looking.LogStages(executor).ends(units)
    tables = {"rows": pa.Table.from_pylist(group(segments, by))}
    return View(
        {"seen": summary(segments)},
        tables | {"segments": segments if whole else telling(segments)},
    )
