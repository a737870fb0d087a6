"""Write the offsets at a time in the formats of other tools."""

from __future__ import annotations

import pyarrow as pa

from kafkats.config.options import Topics
from kafkats.errors import UsageError
from kafkats.flow import searching
from kafkats.flow.dispatch import Work
from kafkats.flow.searching import keep_export
from kafkats.flow.verbs.lookup import limits_of, named_in, partitions_of, refuse_named
from kafkats.lookup import exports
from kafkats.lookup.marks import cells_sentence, find_marks, with_margin
from kafkats.lookup.options import Export
from kafkats.lookup.partitions import LookupOptions, target_of
from kafkats.search import Target
from kafkats.tables import table_in
from kafkats.text import Flag

_NAMED = 20


def perform(work: Work) -> None:
    """Export the offsets of the request's log directories or of its table. JSON ends with findings
    if partitions have no answer.

    Raises UsageError, StorageFailed, and as `find_marks` and `exports.export`.
    """
    request, asked, topics = work.request, work.request.of(Export), work.request.of(Topics).topics
    end = None if asked.until is None else target_of(asked.until, "--until")
    begin, end = with_margin(target_of(asked.at, "--at"), end, asked.margin or 0)
    if asked.group and asked.to != "group-csv":
        raise UsageError(Flag("--group"), " is for group-csv")
    paths = [one.path for one in request.log_dirs]
    if (table := table_in(paths)) is not None:
        refuse_named(named_in(request), table)

    def look(targets: list[Target]) -> pa.Table:
        units = partitions_of(request, "export")
        options = LookupOptions(now_ms=request.made_ms, policy=request.settings())
        return searching.lookup(work.executor, units, targets, options)

    starts, ends = find_marks(paths, begin, end, look, topics=topics, limits=limits_of(request))
    made = exports.export(starts, ends, to=asked.to, missing=asked.missing, group=asked.group or "")
    keep_export(made, asked.output)
    work.show.exported(made, asked.output)
    if table is not None and (told := cells_sentence(table, begin, end)):
        work.done.remarks.append(told)
    without = [
        f"{note.topic}-{note.partition}: no {note.side} ({note.reason})" for note in made.notes
    ]
    work.done.found = {
        "export": str(asked.output or ""),
        "partitions": made.partitions,
        "without": len(without),
        "named": without[:_NAMED],
    }
    unanswered = any(note.reason != "past-end" for note in made.notes)
    work.done.end_with(int(asked.to == "json" and unanswered))
