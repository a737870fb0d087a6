"""Find the offset of every partition at times, or add the answers of an interval to a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafkats.config.given import stored
from kafkats.config.options import Dialect, Topics
from kafkats.errors import UsageError
from kafkats.flow import searching
from kafkats.flow.dispatch import Work
from kafkats.flow.picturing import keep_around, keep_clouds
from kafkats.lookup.append_times import append_time_sentences, append_time_topics
from kafkats.lookup.marks import Limits, cells_sentence, read_marks
from kafkats.lookup.options import Logs, Lookup, Search, Table, Times
from kafkats.lookup.partitions import (
    LookupOptions,
    above_high_watermark,
    above_sentences,
    limits,
    lookup_partitions,
    partition_count,
    target_of,
    unread_sentences,
)
from kafkats.plans.facts import write_table
from kafkats.plans.files import make_folder, write_json
from kafkats.request import PolicyContent, Request
from kafkats.search import PartitionUnit, Target
from kafkats.tables import Busiest, build, table_in
from kafkats.tables.spans import check_interval
from kafkats.text import Flag

_OF_BROKERS: Final = {
    "rule": "--kafka",
    "now": "--now",
    "policy_file": "--policy",
    "settings": "--config",
}
"""Options that decide what a broker answers, by the names of their fields."""
_NOT_OF_A_TABLE: Final = {
    "depth": "--depth",
    "high_watermark": "--high-watermark",
    "dialect": "--dialect",
    **_OF_BROKERS,
}
_EXACT: Final = (
    "a table has the exact answers, which depend on no broker and no setting: leave that out"
)
_BY_CELLS: Final = "a table answers by its cells alone; leave that out, or name the log directories"
_UNTOLD: Final = ("not-covered", "unreadable", "other-log", "beyond-end")


def perform(work: Work) -> None:
    """Search the request's log directories or its table. Ends with findings if a partition could
    not be searched, unless that is no reason to fail.

    Raises UsageError for options that do not go together, and as `partitions_of`, `read_marks` and
    `tables.build`.
    """
    request, search = work.request, work.request.of(Lookup)
    _check_times(request, search)
    targets = [target_of(word, "--at") for word in request.of(Times).times]
    table = table_in([one.path for one in request.log_dirs])
    if table is not None:
        _check_table(table, request, search)
        _from_table(work, table, targets)
        return
    _check_search(request, search)
    adds = request.of(Table).every is not None
    failed = _to_table(work, search) if adds else _search(work, search, targets)
    work.done.end_with(int(failed and not search.go_on))


def _check_times(request: Request, search: Lookup) -> None:
    """Raise UsageError for options of times, tables and plots that do not go together."""
    table = request.of(Table)
    if bool(request.of(Times).times) == (table.every is not None):
        raise UsageError(
            "name times with ", Flag("--at"), ", or a table's step with ", Flag("--every")
        )
    if table.every is None and (table.begins, table.until, table.output) != (None, None, None):
        raise UsageError(
            Flag("--from"), ", ", Flag("--until"), " and -o are for a table, with ", Flag("--every")
        )
    if search.around is not None and (table.every is not None or search.report is None):
        raise UsageError(Flag("--around"), " goes with ", Flag("--at"), " and ", Flag("--report"))


def _check_search(request: Request, search: Lookup) -> None:
    """Raise UsageError for options that a search in log directories does not have."""
    if request.of(Logs).logs:
        raise UsageError(Flag("--logs"), " goes with a TABLE only")
    if search.how != "safe" and search.margin:
        raise UsageError(Flag("--margin"), " is for ", Flag("--how"), " safe")
    if request.of(Table).every is not None:
        refuse_named(named_in(request), None)


def _check_table(table: Path, request: Request, search: Lookup) -> None:
    """Raise UsageError for options that a table does not answer."""
    if request.of(Table).every is not None or search.how != "exact":
        raise UsageError(
            "a table is built from log directories, and has the exact answers only", path=table
        )
    if search.margin:
        raise UsageError(
            Flag("--margin"), " goes with ", Flag("--how"), " safe, and a table has exact answers"
        )
    if search.report is not None:
        raise UsageError(Flag("--report"), " is for log directories, not for a table", path=table)
    refuse_named(named_in(request), table)


def _search(work: Work, search: Lookup, targets: Sequence[Target]) -> bool:
    """Search log directories. Return whether a partition could not be searched."""
    request = work.request
    now_ms = request.made_ms if search.now is None else search.now
    instead = {"margin_ms": search.margin or 0, "now_ms": now_ms, "policy": request.settings()}
    options = stored(LookupOptions, search, request.of(Dialect), **instead)
    units = partitions_of(request, "search", options.dialect, none_is_fine=search.go_on)
    found = searching.lookup(work.executor, units, targets, options)
    work.show.looked_up(found)
    _note(work, search, units, found, len(targets))
    return bool((work.done.found or {})["unreadable"])


def _note(
    work: Work, search: Lookup, units: Sequence[PartitionUnit], found: pa.Table, times: int
) -> None:
    """Note what the rows of LOOKUP say, and write the report."""
    above, stamped = above_high_watermark(found), append_time_topics(units)
    summary: dict[str, Any] = {
        "partitions": partition_count(units),
        "times": times,
        "differ": sum(map(bool, found["differs"].to_pylist())),
        "unreadable": found["reason"].to_pylist().count("unreadable"),
        "above_high_watermark": sum(above.values()),
        "append_time_topics": stamped,
    }
    if (report := search.report) is not None:
        make_folder(report, "the report")
        write_table(report / "lookup.parquet", found)
        if search.around is not None:
            around = keep_around(work.executor, report, units, found, search.around)
            summary["cells_step_ms"] = around
    _keep(work, summary, report)
    remarks = [*unread_sentences(units), *above_sentences(above), *append_time_sentences(stamped)]
    work.done.remarks += remarks


def _keep(work: Work, summary: dict[str, Any], report: Path | None) -> None:
    """Note a summary, which the report gets, too."""
    if report is not None:
        write_json(report / "report.json", summary)
        summary["report"] = str(report)
    work.done.found = summary


def _to_table(work: Work, search: Lookup) -> bool:
    """Add an interval to a table. Return whether cells are unreadable, or of another log."""
    request, table, exact = work.request, work.request.of(Table), search.depth != "tail"
    if request.of(Dialect).dialect is not None:
        raise UsageError(
            Flag("--dialect"),
            " is for ",
            Flag("--at"),
            ": a table has answers of Kafka's own formats",
        )
    if search.depth == "deep":
        raise UsageError(
            Flag("--depth"),
            " deep is for ",
            Flag("--at"),
            ": a table is built at depth tail or full",
        )
    units = partitions_of(request, "search", none_is_fine=search.go_on)
    begins, until, step, output = table.begins, table.until, table.every, table.output
    if step is None or begins is None or until is None or output is None:
        raise UsageError("a table needs ", Flag("--from"), ", ", Flag("--until"), " and -o TABLE")
    if search.how != "exact":
        raise UsageError(
            "a table has the exact answers, not those of ", Flag("--how"), f" {search.how}"
        )
    check_interval(begins, until, step)
    report = search.report
    busy = Busiest() if report is not None else None
    size = partial(searching.partition_bytes, suffix=".log" if exact else ".timeindex")
    written = build(
        output,
        units,
        begins,
        until,
        step_ms=step,
        exact=exact,
        executor=work.executor,
        size=size,
        busy=busy,
    )
    summary: dict[str, Any] = {
        "table": str(output),
        "from_ms": begins,
        "to_ms": until,
        "step_ms": step,
        "partitions": partition_count(units),
        **written._asdict(),
    }
    if report is not None and busy is not None:
        make_folder(report, "the report")
        keep_clouds(work.executor, report, units, busy.most(), begins, until)
    _keep(work, summary, report)
    work.done.remarks += unread_sentences(units)
    return written.unreadable > 0 or bool(written.other_logs)


def _from_table(work: Work, table: Path, targets: Sequence[Target]) -> None:
    """Answer by the cells of a table. Ends with findings if an offset could not be told."""
    topics, bounds = work.request.of(Topics).topics, limits_of(work.request)
    marks = [
        mark
        for target in targets
        for mark in read_marks(table, target, topics=topics, limits=bounds)[0]
    ]
    work.show.marks(marks)
    untold = sum(mark.reason in _UNTOLD for mark in marks)
    partitions = len({(mark.topic, mark.partition) for mark in marks})
    told = dict.fromkeys(cells_sentence(table, target, None) for target in targets)
    work.done.found = {"partitions": partitions, "times": len(targets), "untold": untold}
    work.done.remarks += [sentence for sentence in told if sentence]
    work.done.end_with(int(untold > 0))


def partitions_of(
    request: Request, purpose: str, dialect: str | None = None, *, none_is_fine: bool = False
) -> list[PartitionUnit]:
    """Return the partitions of the request's log directories.

    Raises UsageError if there is none, unless `none_is_fine`, and as `lookup_partitions`.
    """
    topics = request.of(Topics).topics
    units = list(
        lookup_partitions(
            [one.path for one in request.log_dirs],
            topics=topics,
            high_watermark=request.of(Search).high_watermark,
            dialect=dialect,
            named=request.settings().named_paths(),
        )
    )
    if not units and not none_is_fine:
        matched = f" that matches {topics!r}" if topics != "*" else ""
        raise UsageError(f"there is no partition to {purpose}{matched}")
    return units


def limits_of(request: Request) -> Limits | None:
    """Return the log start and log end of each partition in --logs; None without."""
    logs, topics = request.of(Logs).logs, request.of(Topics).topics
    return limits(lookup_partitions(logs, topics=topics)) if logs else None


def named_in(request: Request) -> Collection[str]:
    """Return the options that a request gives, by the names of their fields."""
    named, policy = set(request.given().named), request.policy
    if policy is not None:
        named |= {"settings"} if policy.overrides else {"policy_file"}
        named |= {"policy_file"} if policy != PolicyContent(overrides=policy.overrides) else set()
    return named


def refuse_named(named: Collection[str], table: Path | None) -> None:
    """Raise UsageError for an option that an existing table does not read, or one to be filled."""
    options, why = (_OF_BROKERS, _EXACT) if table is None else (_NOT_OF_A_TABLE, _BY_CELLS)
    if unread := [word for name, word in options.items() if name in named]:
        raise UsageError(f"{', '.join(unread)}: {why}", path=table)
