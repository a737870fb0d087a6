"""Count bytes, batches and records by message format."""

from __future__ import annotations

import pyarrow as pa

from kafkats.config.options import Report
from kafkats.flow import looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_census
from kafkats.flow.looking import units_of
from kafkats.inspect.options import Census
from kafkats.migration.census import group_census, summarize, zero_copy
from kafkats.plans.disks import keep_disks
from kafkats.plans.files import write_json
from kafkats.plans.volumes import note_volumes


def perform(work: Work) -> None:
    """Count the formats in the request's log directories. A report has all rows, and the bytes of
    each topic that a broker converts for old fetches.

    Raises UsageError, StorageFailed, and as `units_of`.
    """
    request, done, asked = work.request, work.done, work.request.of(Census)
    log_dirs, report = [one.path for one in request.log_dirs], request.of(Report).report
    table = looking.count_formats(work.executor, units_of(work), deep=asked.deep)
    done.more = {"log_dirs": list(map(str, log_dirs))}
    done.census = dict(summarize(table))
    if report is not None:
        done.census = keep_census(table, report)
        done.reports["report"] = str(report)
        write_json(report / "zero-copy.json", {"topics": zero_copy(table)})
        keep_disks(log_dirs, report)
        note_volumes(report, map(str, log_dirs))
    count_groups(work, table, asked.by)


def count_groups(work: Work, table: pa.Table, by: str) -> None:
    """Show census.CENSUS by one of its groups, and note its totals."""
    rows = group_census(table, by)
    work.done.found = {**summarize(table), "groups": len(rows)}
    work.show.formats(table, rows)
