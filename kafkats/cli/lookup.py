"""lookup: which offset was it at that time?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.options import (
    CONFIG,
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    POLICY,
    SPAN,
    TIME,
    TOPICS,
    policy_of,
)
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.config.settings_read import READS
from kafkats.errors import UsageError
from kafkats.generations import DEFAULT_SEARCH_RULE, SEARCH_RULES

if TYPE_CHECKING:
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
HIGH_WATERMARK = click.option(
    "--high-watermark", type=click.Choice(["checkpoint", "log-end"]), default="checkpoint", show_default=True,
    help="Up to where brokers give records out: what they checkpointed, or, as after a restart, all there is.",
)  # fmt: skip

LOGS = click.option(
    "--logs", multiple=True, metavar="LOG_DIR", type=click.Path(path_type=Path),
    help="With a TABLE: where its logs lie, to see what of them is there now; else its newest rows tell. May be repeated.",
)  # fmt: skip


@click.command()
@click.argument(
    "paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--at",
    "times",
    multiple=True,
    metavar="TIME",
    help="ISO 8601, epoch ms (also below 0, before 1970), latest, earliest or max-timestamp; repeat it.",
)
@click.option(
    "--every",
    type=SPAN,
    metavar="DURATION",
    help="Instead of --at: a table of every such step, 1m or 1s.",
)
@click.option("--from", "begins", type=TIME, metavar="TIME", help="With --every: the first cell.")
@click.option("--until", type=TIME, metavar="TIME", help="With --every: the end, exclusive.")
@click.option(
    "-o",
    "--output",
    metavar="TABLE",
    type=click.Path(path_type=Path),
    help="With --every: the table's folder.",
)
@click.option(
    "--how", type=click.Choice(["exact", "safe", "kafka"]), default="exact", show_default=True,
    help="The first record that late; early enough for late ones; or what a broker answers.",
)  # fmt: skip
@click.option(
    "--margin",
    type=SPAN,
    default=0,
    metavar="DURATION",
    help="For `safe`: how much too late records came.",
)
@click.option(
    "--depth", type=click.Choice(["tail", "full", "deep"]), default="tail", show_default=True,
    help="Trust indexes that are in order (one that is untrue all the same can hide an earlier record); walk the headers, so that"
    " none can; or decode the records.",
)  # fmt: skip
@click.option(
    "--generation", "rule", type=click.Choice(list(SEARCH_RULES)), default=DEFAULT_SEARCH_RULE.name, show_default=True,
    help="Which Kafka answers beside it; kip33 is the coarse answer of KIP-33's text.",
)  # fmt: skip
@LOGS
@HIGH_WATERMARK
@TOPICS
@POLICY
@CONFIG
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
    margin: int,
    depth: str,
    rule: str,
    logs: tuple[Path, ...],
    high_watermark: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Which offset was it at these times, in every partition, with the reason; and what a broker would have said.

    With --every it adds an interval to a table, and closes the cells that can be closed by now. Exits with 1 when a
    partition could not be searched. A TABLE answers by its cells alone. Brokers refuse to search topics whose
    message.format.version is below 0.10: the policy and its exports tell.
    """
    from kafkats.flow import looking
    from kafkats.lookup import partitions as operation
    from kafkats.tables import table_in

    if bool(times) == (every is not None):
        raise UsageError("name times with --at, or a table's step with --every")
    if every is None and (begins, until, output) != (None, None, None):
        raise UsageError("--from, --until and -o are for a table, with --every")
    if (table := table_in(paths)) is not None:
        if every is not None or how != "exact":
            raise UsageError(
                "a table is built from log directories, and has the exact answers only", path=table
            )
        asked = [operation.target_of(word, "--at") for word in times]
        return _from_table(table, asked, topics, limits_of(logs, topics), as_json=as_json)
    if logs:
        raise UsageError("--logs is for a table: log directories tell by themselves what is there")
    if how != "safe" and margin:
        raise UsageError("--margin is for --how safe")
    units = list(operation.lookup_partitions(paths, topics=topics, high_watermark=high_watermark))
    if not units:
        raise UsageError(
            "there is no partition to search"
            + (f" that matches {topics!r}" if topics != "*" else "")
        )
    if every is not None:
        if begins is None or until is None or output is None:
            raise UsageError("a table needs --from, --until and -o TABLE")
        if how != "exact":
            raise UsageError(f"a table has the exact answers, not those of --how {how}")
        return _table(
            executor, units, (begins, until, every), output, exact=depth != "tail", as_json=as_json
        )
    targets = [operation.target_of(word, "--at") for word in times]
    policy = policy_of(policy_file, settings, reads=READS["lookup"])
    options = operation.LookupOptions(how, rule, depth, margin, time.time_ns() // 1_000_000, policy)
    found = looking.lookup(executor, units, targets, options)
    rows = found.to_pylist()
    show_rows(rows if as_json else [_shown(row) for row in rows], _COLUMNS, as_json)
    failed = sum(row["reason"] == "unreadable" for row in rows)
    other = sum(bool(row["differs"]) for row in rows)
    said = [
        f"{len(units)} partitions, {len(targets)} times: {other} answers of a broker differ, {failed} could not be told"
    ]
    summary = {
        "partitions": len(units),
        "times": len(targets),
        "differ": other,
        "unreadable": failed,
    }
    above = operation.above_high_watermark(found)
    say_summary(
        summary | {"above_high_watermark": sum(above.values())},
        as_json,
        said + above_sentences(above),
    )
    return int(failed > 0)


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
        f"{sum(above.values())} offsets lie above the high watermark that brokers have checkpointed ({told}): they do so every 5 s,"
        " and one that was killed left it behind; --high-watermark log-end takes the log's end for it"
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
    *,
    exact: bool,
    as_json: bool,
) -> int:
    from kafkats.flow.building import build_table

    begins, until, step = cells
    written = build_table(executor, output, units, (begins, until), step_ms=step, exact=exact)
    said = [
        f"{written.added} cells added, {written.closed} closed, {written.kept} kept, {written.open} open,"
        f" {written.unreadable} unreadable",
        f"table {output}: {written.files} files, {written.bytes} bytes",
    ]
    if written.above_high_watermark:
        said.append(
            f"{written.above_high_watermark} cells are open because their records are not below the high watermark that brokers"
            " have checkpointed: a later run closes them; --high-watermark log-end takes the log's end for it"
        )
    said += written.other_logs[:_NAMED]
    if written.other_logs:
        more = len(written.other_logs) - _NAMED
        said.append(
            (f"and {more} more such partitions; " if more > 0 else "")
            + "made anew, or cut: their cells stay open as other-log; begin a table in another folder for what they hold now"
        )
    say_summary(written._asdict() | {"table": str(output)}, as_json, said)
    return int(written.unreadable > 0 or bool(written.other_logs))
