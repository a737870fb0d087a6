"""lookup: which offset was it at that time?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.generated import taking
from kafkats.cli.lookup_table import add_interval
from kafkats.cli.options import JOBS, JSON, LOG_DIRS_OR_TABLE, MAX_BATCH_BYTES, given_policy
from kafkats.cli.session import session
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.config.given import Given
from kafkats.config.options import Dialect, Settings, Topics
from kafkats.config.settings_read import SEARCHES
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats.lookup.options import Logs, Lookup, Search, Table, Times

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution import Executor
    from kafkats.lookup.marks import Limits
    from kafkats.lookup.partitions import PartitionUnit
    from kafkats.search import Target

_NAMED = 5
_COLUMNS = (
    "partition_dir",
    "target_ms",
    "offset",
    "timestamp",
    "reason",
    "segment",
    "kafka_offset",
    "differs",
    "evidence",
)
_TABLE_COLUMNS = (
    "topic",
    "partition",
    "target_ms",
    "offset",
    "timestamp",
    "reason",
    "evidence",
    "log_start",
    "log_end",
)


@click.command()
@LOG_DIRS_OR_TABLE
@taking(Times, Table, Lookup, Dialect, Logs, Search, Topics, Settings)
@JOBS
@JSON
@MAX_BATCH_BYTES
def lookup(paths: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Show the offset of every partition at a time.

    The rows also have the reason, and what a broker would answer. With --every it adds an interval
    to a table, and closes earlier cells whose record exists now. A TABLE answers by its cells
    alone. Exits with 1 if a partition could not be searched.

    Brokers refuse to search a topic whose message.format.version is below 0.10. kafkats knows that
    setting only from the policy and its exports.
    """
    from kafkats.lookup.partitions import target_of
    from kafkats.tables import table_in

    _check_times(given)
    targets = [target_of(word, "--at") for word in given.of(Times).times]
    if (table := table_in(paths)) is not None:
        _check_table_words(table, given)
        topics = given.of(Topics).topics
        limits = limits_of(given.of(Logs).logs, topics)
        return _from_table(table, targets, topics, limits, as_json=as_json)
    _check_search(given)
    if given.of(Table).every is not None:
        code = _to_table(executor, paths, given, as_json=as_json)
    else:
        code = _search(executor, paths, given, targets, as_json=as_json)
    return 0 if _goes_on(given) else code


def _check_times(given: Given) -> None:
    """Raise UsageError for options of times, tables and plots that do not go together."""
    table, search = given.of(Table), given.of(Lookup)
    if bool(given.of(Times).times) == (table.every is not None):
        raise UsageError("name times with --at, or a table's step with --every")
    if table.every is None and (table.begins, table.until, table.output) != (None, None, None):
        raise UsageError("--from, --until and -o are for a table, with --every")
    if search.around is not None and (table.every is not None or search.report is None):
        raise UsageError("--around goes with --at and --report")


def _check_search(given: Given) -> None:
    """Raise UsageError for options that a search in log directories does not have."""
    search = given.of(Lookup)
    if given.of(Logs).logs:
        raise UsageError("--logs goes with a TABLE only")
    if search.how != "safe" and search.margin and not session().front.separate:
        raise UsageError("--margin is for --how safe")
    if given.of(Table).every is not None:
        refuse_named(
            given,
            _OF_BROKERS,
            "a table has the exact answers, which depend on no broker and no setting: leave that"
            " out",
        )


def _check_table_words(table: Path, given: Given) -> None:
    """Raise UsageError for options that a table does not answer."""
    search = given.of(Lookup)
    if given.of(Table).every is not None or search.how != "exact":
        raise UsageError(
            "a table is built from log directories, and has the exact answers only", path=table
        )
    if search.margin:
        raise UsageError("--margin goes with --how safe, and a table has exact answers")
    if search.report is not None:
        raise UsageError("--report is for log directories, not for a table", path=table)
    refuse_named(
        given,
        NOT_OF_A_TABLE,
        "a table answers by its cells alone; leave that out, or name the log directories",
        table,
    )


_OF_BROKERS: Final = {
    "rule": "--generation",
    "now": "--now",
    "policy_file": "--policy",
    "settings": "--config",
}
"""Options that decide what a broker answers, by the names of their fields."""
NOT_OF_A_TABLE: Final = {
    "depth": "--depth",
    "high_watermark": "--high-watermark",
    "dialect": "--dialect",
    **_OF_BROKERS,
}


def refuse_named(
    given: Given, options: Mapping[str, str], why: str, path: Path | None = None
) -> None:
    """Raise UsageError if the command line names one of these options."""
    unread = [word for name, word in options.items() if name in given.named]
    if unread:
        raise UsageError(f"{', '.join(unread)}: {why}", path=path)


def _goes_on(given: Given) -> bool:
    """Return whether partitions that cannot be searched are no reason to fail.

    A scheduler adds interval after interval to a table: what is open or unreadable, the next run
    finds again.
    """
    adds = session().front.separate and given.of(Table).every is not None
    return given.of(Lookup).go_on or adds


def _units(paths: Sequence[Path], given: Given) -> list[PartitionUnit]:
    """Return the partitions to search. Raises UsageError if there is none."""
    from kafkats.lookup.partitions import lookup_partitions

    topics, high_watermark = given.of(Topics).topics, given.of(Search).high_watermark
    dialect = given.of(Dialect).dialect
    units = list(
        lookup_partitions(
            paths,
            topics=topics,
            high_watermark=high_watermark,
            dialect=dialect,
            named=given_policy(given).named_paths(),
        )
    )
    if not units and not _goes_on(given):
        matched = f" that matches {topics!r}" if topics != "*" else ""
        raise UsageError(f"there is no partition to search{matched}")
    return units


def _search(
    executor: Executor,
    paths: Sequence[Path],
    given: Given,
    targets: Sequence[Target],
    *,
    as_json: bool,
) -> int:
    """Search log directories. Returns 1 if a partition could not be searched."""
    from kafkats.flow import looking
    from kafkats.lookup.partitions import LookupOptions

    search = given.of(Lookup)
    policy, now_ms = given_policy(given, reads=SEARCHES), given.at(search.now)
    margin = search.margin or 0
    dialect = given.of(Dialect).dialect
    options = LookupOptions(search.how, search.rule, search.depth, margin, now_ms, policy, dialect)
    units = _units(paths, given)
    found = looking.lookup(executor, units, targets, options)
    report, around = search.report, search.around
    failed = _show_answers(executor, units, found, len(targets), report, around, as_json=as_json)
    return int(failed > 0)


def _to_table(executor: Executor, paths: Sequence[Path], given: Given, *, as_json: bool) -> int:
    """Add an interval to a table. Returns 1 if cells are unreadable, or of another log."""
    table, search = given.of(Table), given.of(Lookup)
    if given.of(Dialect).dialect is not None:
        raise UsageError("--dialect is for --at: a table has answers of Kafka's own formats")
    if search.depth == "deep":
        raise UsageError("--depth deep is for --at: a table is built at depth tail or full")
    units = _units(paths, given)
    if table.every is None or table.begins is None or table.until is None or table.output is None:
        raise UsageError("a table needs --from, --until and -o TABLE")
    if search.how != "exact":
        raise UsageError(f"a table has the exact answers, not those of --how {search.how}")
    cells, exact = (table.begins, table.until, table.every), search.depth != "tail"
    return add_interval(
        executor, units, cells, table.output, search.report, exact=exact, as_json=as_json
    )


def _show_answers(
    executor: Executor,
    units: list[PartitionUnit],
    found: pa.Table,
    times: int,
    report: Path | None,
    around: int | None,
    *,
    as_json: bool,
) -> int:
    """Show the rows of LOOKUP, and write the report. Returns how many rows have no answer."""
    from kafkats.flow.picturing import keep_around
    from kafkats.lookup.append_times import append_time_sentences, append_time_topics
    from kafkats.lookup.partitions import above_high_watermark, partition_count, unread_sentences
    from kafkats.plans.facts import write_table
    from kafkats.plans.files import make_folder, write_json

    rows = found.to_pylist()
    scheduled = as_json or session().front.most_rows is not None
    show_rows(rows if scheduled else [_shown(row) for row in rows], _COLUMNS, as_json)
    unreadable = [row for row in rows if row["reason"] == "unreadable"]
    failed, untold = len(unreadable), sum(bool(row["partition_dir"]) for row in unreadable)
    other = sum(bool(row["differs"]) for row in rows)
    above, stamped = above_high_watermark(found), append_time_topics(units)
    summary: dict[str, Any] = {
        "partitions": partition_count(units),
        "times": times,
        "differ": other,
        "unreadable": failed,
        "above_high_watermark": sum(above.values()),
        "append_time_topics": stamped,
    }
    if report is not None:
        make_folder(report, "the report")
        write_table(report / "lookup.parquet", found)
        if around is not None:
            summary["cells_step_ms"] = keep_around(executor, report, units, found, around)
        write_json(report / "report.json", summary)
        summary["report"] = str(report)
    sentences = [
        f"{counted(summary['partitions'], 'partition')}, {counted(times, 'time')}; answers that"
        f" differ from a broker's: {other}; could not be told: {untold}"
    ]
    sentences += unread_sentences(units)
    sentences += [*above_sentences(above), *append_time_sentences(stamped)]
    say_summary(summary, as_json, sentences)
    return failed


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with its target as text: tables leave a number of -1 empty."""
    return {**row, "target_ms": row["word"] or str(row["target_ms"])}


def above_sentences(above: Mapping[str, int]) -> list[str]:
    """Return the sentence about partitions that hold offsets above the high watermark; `above`
    counts them by partition.
    """
    if not above:
        return []
    most = sorted(above, key=lambda name: (-above[name], name))[:_NAMED]
    counts = ", ".join(f"{name} {above[name]}" for name in most) + (
        ", ..." if len(above) > _NAMED else ""
    )
    return [
        f"above the checkpointed high watermark: {counted(sum(above.values()), 'offset')}"
        f" ({counts})."
        " Brokers write it every 5 s, so it is old after a kill. --high-watermark log-end counts"
        " every record"
    ]


def limits_of(logs: tuple[Path, ...], topics: str) -> Limits | None:
    """Return the log start and log end of each partition in these directories; None without
    directories.
    """
    from kafkats.lookup import partitions as operation

    return operation.limits(operation.lookup_partitions(logs, topics=topics)) if logs else None


def _from_table(
    table: Path, targets: Sequence[Target], topics: str, limits: Limits | None, *, as_json: bool
) -> int:
    from kafkats.lookup.marks import cells_sentence, read_marks

    marks = [
        mark
        for target in targets
        for mark in read_marks(table, target, topics=topics, limits=limits)[0]
    ]
    rows = [mark._asdict() for mark in marks]
    show_rows(rows if as_json else [_shown(row) for row in rows], _TABLE_COLUMNS, as_json)
    untold = sum(
        mark.reason in ("not-covered", "unreadable", "other-log", "beyond-end") for mark in marks
    )
    partitions = len({(mark.topic, mark.partition) for mark in marks})
    sentences = [
        f"{counted(partitions, 'partition')}, {counted(len(targets), 'time')}: {untold} could not"
        " be told"
    ]
    told = (cells_sentence(table, target, None) for target in targets)
    sentences += [sentence for sentence in dict.fromkeys(told) if sentence]
    say_summary(
        {"partitions": partitions, "times": len(targets), "untold": untold}, as_json, sentences
    )
    return int(untold > 0)
