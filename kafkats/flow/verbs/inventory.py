"""List what is in log directories."""

from __future__ import annotations

from kafkats.config.options import Report
from kafkats.errors import UsageError
from kafkats.flow import looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_segments
from kafkats.flow.looking import units_of
from kafkats.flow.verbs.census import count_groups
from kafkats.inspect.inventory import group
from kafkats.inspect.options import Inventory
from kafkats.text import Command


def perform(work: Work) -> None:
    """List the request's log directories by the ends of their files; their formats by every batch.

    Raises UsageError, StorageFailed, and as `units_of`.
    """
    by, report = work.request.of(Inventory).by, work.request.of(Report).report
    if by == "format" and report is not None:
        raise UsageError(Command("census"), " writes the report of formats, inventory does not")
    units = units_of(work)
    if by == "format":
        count_groups(work, looking.count_formats(work.executor, units), "topic")
        return
    segments = looking.LogStages(work.executor).ends(units)
    rows = group(segments, by)
    work.show.listed(segments, rows, by)
    work.done.found = keep_segments(segments, report) | {"groups": len(rows)}
