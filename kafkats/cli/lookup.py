"""lookup: which offset was it at that time?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.generated import options
from kafkats.cli.options import (
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    POLICY,
    TOPICS,
    now_or,
    policy_of,
)
from kafkats.cli.session import session
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.config.settings_read import SEARCHES
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
HIGH_WATERMARK = options(Search)

LOGS = options(Logs)


@click.command()
@click.argument(
    "paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options(Times, Table, Lookup)
@LOGS
@HIGH_WATERMARK
@TOPICS
@POLICY
@JOBS
@JSON
@MAX_BATCH_BYTES
def lookup(
    paths: tuple[Path, ...],
    times: tuple[str, ...],
    every: int | None,
    begins: int | None,
    until: int | None,
    output: Path | None,
    how: str,
    margin: int | None,
    depth: str,
    rule: str,
    now: int | None,
    report: Path | None,
    around: int | None,
    go_on: bool,
    logs: tuple[Path, ...],
    high_watermark: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Show the offset at these times in every partition, the reason, and what a broker would
    answer.

    With --every, add an interval to a table and close earlier cells whose record exists now. Exit
    with 1 if a partition could not be searched. A TABLE answers by its cells alone. Brokers refuse
    to search topics whose message.format.version is below 0.10: the policy and its exports tell.
    """
    from kafkats.flow import looking
    from kafkats.lookup import partitions as operation
    from kafkats.tables import table_in

    if bool(times) == (every is not None):
        raise UsageError("name times with --at, or a table's step with --every")
    if every is None and (begins, until, output) != (None, None, None):
        raise UsageError("--from, --until and -o are for a table, with --every")
    if around is not None and (every is not None or report is None):
        raise UsageError("--around goes with --at and --report")
    targets = [operation.target_of(word, "--at") for word in times]
    if (table := table_in(paths)) is not None:
        _check_table_words(table, every, how, margin, report)
        return _from_table(table, targets, topics, limits_of(logs, topics), as_json=as_json)
    if logs:
        raise UsageError("--logs goes with a TABLE only")
    scheduled = session().scheduled
    if how != "safe" and margin and not scheduled:
        raise UsageError("--margin is for --how safe")
    # A scheduler adds interval after interval: what is open or unreadable, the next run finds
    # again.
    go_on = go_on or (scheduled and every is not None)
    units = list(operation.lookup_partitions(paths, topics=topics, high_watermark=high_watermark))
    if not units and not go_on:
        raise UsageError(
            "there is no partition to search"
            + (f" that matches {topics!r}" if topics != "*" else "")
        )
    if every is not None:
        if begins is None or until is None or output is None:
            raise UsageError("a table needs --from, --until and -o TABLE")
        if how != "exact":
            raise UsageError(f"a table has the exact answers, not those of --how {how}")
        cells = (begins, until, every)
        code = _table(
            executor, units, cells, output, report, exact=depth != "tail", as_json=as_json
        )
        return 0 if go_on else code
    policy = policy_of(policy_file, settings, reads=SEARCHES)
    options = operation.LookupOptions(how, rule, depth, margin or 0, now_or(now), policy)
    found = looking.lookup(executor, units, targets, options)
    failed = _show_answers(executor, units, found, len(targets), report, around, as_json=as_json)
    return int(failed > 0 and not go_on)


def _check_table_words(
    table: Path, every: int | None, how: str, margin: int | None, report: Path | None
) -> None:
    """Raise UsageError for words that do not go with a table."""
    if every is not None or how != "exact":
        raise UsageError(
            "a table is built from log directories, and has the exact answers only", path=table
        )
    if margin:
        raise UsageError("--margin goes with --how safe, and a table has exact answers")
    if report is not None:
        raise UsageError("--report is for log directories, not for a table", path=table)


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
    """Show the rows of LOOKUP, and write the report. Returns how many partitions could not be
    searched.
    """
    from kafkats.flow.picturing import keep_around
    from kafkats.lookup.partitions import above_high_watermark
    from kafkats.plans.facts import make_folder, write_json, write_table

    rows = found.to_pylist()
    scheduled = as_json or session().scheduled
    show_rows(rows if scheduled else [_shown(row) for row in rows], _COLUMNS, as_json)
    failed = sum(1 for row in rows if row["reason"] == "unreadable")
    other = sum(bool(row["differs"]) for row in rows)
    above = above_high_watermark(found)
    summary: dict[str, Any] = {
        "partitions": len(units),
        "times": times,
        "differ": other,
        "unreadable": failed,
        "above_high_watermark": sum(above.values()),
    }
    if report is not None:
        make_folder(report, "the report")
        write_table(report / "lookup.parquet", found)
        if around is not None:
            summary["cells_step_ms"] = keep_around(executor, report, units, found, around)
        write_json(report / "report.json", summary)
        summary["report"] = str(report)
    said = [
        f"{len(units)} partitions, {times} times: {other} answers of a broker differ, {failed} could not be told"
    ]
    say_summary(summary, as_json, said + above_sentences(above))
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
    told = ", ".join(f"{name} {above[name]}" for name in most) + (
        ", ..." if len(above) > _NAMED else ""
    )
    return [
        f"{sum(above.values())} offsets are above the checkpointed high watermark ({told}). Brokers write"
        " it every 5 s, so it is old after a kill. --high-watermark log-end counts every record"
    ]


def limits_of(logs: tuple[Path, ...], topics: str) -> Limits | None:
    """Return the log start and log end of each partition in these directories; None without
    directories.
    """
    from kafkats.lookup import partitions as operation

    return operation.limits(operation.lookup_partitions(logs, topics=topics)) if logs else None


def _from_table(
    table: Path, targets: list[Target], topics: str, limits: Limits | None, *, as_json: bool
) -> int:
    from kafkats.lookup.marks import read_marks

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
    said = [f"{partitions} partitions, {len(targets)} times: {untold} could not be told"]
    say_summary({"partitions": partitions, "times": len(targets), "untold": untold}, as_json, said)
    return int(untold > 0)


def _table(
    executor: Executor,
    units: list[PartitionUnit],
    cells: tuple[int, int, int],
    output: Path,
    report: Path | None,
    *,
    exact: bool,
    as_json: bool,
) -> int:
    from kafkats.flow.building import build_table
    from kafkats.flow.picturing import keep_clouds
    from kafkats.plans.facts import make_folder, write_json
    from kafkats.tables import Busiest
    from kafkats.tables.store import check_interval

    begins, until, step = cells
    check_interval(begins, until, step)
    busy = Busiest() if report is not None else None
    written = build_table(
        executor, output, units, (begins, until), step_ms=step, exact=exact, busy=busy
    )
    summary: dict[str, Any] = {
        "table": str(output),
        "from_ms": begins,
        "to_ms": until,
        "step_ms": step,
        "partitions": len(units),
        **written._asdict(),
    }
    if report is not None and busy is not None:
        make_folder(report, "the report")
        keep_clouds(executor, report, units, busy.most(), begins, until)
        write_json(report / "report.json", summary)
        summary["report"] = str(report)
    said = [
        f"{written.added} cells added, {written.closed} closed, {written.kept} kept, {written.open} open,"
        f" {written.unreadable} unreadable",
        f"table {output}: {written.files} files, {written.bytes} bytes",
    ]
    if written.above_high_watermark:
        said.append(
            f"{written.above_high_watermark} cells stay open: their records are above the checkpointed high"
            " watermark. A later run closes them; --high-watermark log-end closes them now"
        )
    said += written.other_logs[:_NAMED]
    if written.other_logs:
        more = len(written.other_logs) - _NAMED
        said.append(
            (f"and {more} more such partitions; " if more > 0 else "")
            + "recreated or truncated: their cells stay open as other-log; start a table in another folder for them"
        )
    say_summary(summary, as_json, said)
    return int(written.unreadable > 0 or bool(written.other_logs))
