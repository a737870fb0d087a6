"""lag, latency, failover: consumer groups and brokers by time."""

from __future__ import annotations

import time
from pathlib import Path

import click

from kafkats.cli.options import JSON, LOG_DIRS, SPAN, TOPICS
from kafkats.errors import UsageError, storage
from kafkats.terminal import progress, say, say_summary, show_rows, shown

_FILE = click.Path(path_type=Path)
_COMMITTED = click.option(
    "--committed", required=True, type=_FILE, metavar="FILE",
    help="What kafka-consumer-groups --describe printed, or its CSV.",
)  # fmt: skip
_GROUP = click.option("--group", default="", help="The group's name, where FILE has none.")
_LAG = ("group", "topic", "partition", "offset", "log_end_offset", "lag", "next_timestamp", "lag_ms", "age_ms", "reason", "evidence")  # fmt: skip
_LATENCY = ("topic", "partition", "source", "samples", "same", "unknown", "least_ms", "median_ms", "p99_ms", "most_ms", "reason")  # fmt: skip


@click.command()
@click.argument("paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=_FILE)
@_COMMITTED
@_GROUP
@JSON
def lag(paths: tuple[Path, ...], committed: Path, group: str, as_json: bool) -> int:
    """How far behind consumer groups are, in records and in time, by their committed offsets.

    By a TABLE it is at most that much. Exits with 1 when that could not be told of some.
    """
    from kafkats import lag as operation
    from kafkats.groups import read_committed_offsets
    from kafkats.operations.lookup import lookup_partitions
    from kafkats.tables import read
    from kafkats.tables.store import MANIFEST

    asked = read_committed_offsets(_text(committed), path=str(committed), group=group)
    now_ms = time.time_ns() // 1_000_000
    if any(Path(path, MANIFEST).is_file() for path in paths):
        if len(paths) > 1:
            raise UsageError("one table, or log directories: not both, not two")
        table = operation.lag_by_table(asked, read(paths[0], topics={one.topic for one in asked}), now_ms=now_ms)
    else:
        table = operation.lag(asked, lookup_partitions(paths), now_ms=now_ms)
    rows = table.to_pylist()
    show_rows(rows, _LAG, as_json)
    untold = sum(row["reason"] in ("unreadable", "no-partition", "not-covered") for row in rows)
    most = max((row["lag_ms"] for row in rows), default=-1)
    summary = {"partitions": len(rows), "untold": untold, "most_ms": most}
    say_summary(summary, as_json, [f"{len(rows)} partitions, {max(most, 0)} ms at most; {untold} could not be told"])
    return int(untold > 0)


@click.command()
@LOG_DIRS
@TOPICS
@JSON
def latency(log_dirs: tuple[Path, ...], topics: str, as_json: bool) -> int:
    """How long records were on their way to the broker, where both times are still known: the margin for --margin.

    Exits with 1 when a partition could not be read.
    """
    from kafkats import latency as operation
    from kafkats.operations.lookup import lookup_partitions

    units = list(lookup_partitions(log_dirs, topics=topics))
    if not units:
        raise UsageError("there is no partition to measure" + (f" that matches {topics!r}" if topics != "*" else ""))
    table = operation.latency(progress(units, "measuring", lambda _: 1))
    rows = table.to_pylist()
    show_rows(rows, _LATENCY, as_json)
    most = {source: operation.most_ms(table, source) for source in ("append-time", "mtime")}
    failed = sum(bool(row["reason"]) for row in rows)
    said = [
        f"at most {most['append-time']} ms by append time, {most['mtime']} ms by the files' times; {failed} unreadable"
    ]
    say_summary({"append_time_ms": most["append-time"], "mtime_ms": most["mtime"], "unreadable": failed}, as_json, said)
    return int(failed > 0)


@click.command()
@click.argument("first", metavar="FROM_TABLE", type=_FILE)
@click.argument("second", metavar="TO_TABLE", type=_FILE)
@_COMMITTED
@_GROUP
@click.option(
    "--margin", type=SPAN, required=True, metavar="DURATION", help="How much too late records came to FROM's cluster."
)
@click.option(
    "--missing", type=click.Choice(["fail", "all", "none", "leave"]), default="fail", show_default=True,
    help="Partitions without an answer: refuse; read all of it; nothing of it; or leave it out, and say so.",
)  # fmt: skip
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="Else to standard output.")
def failover(
    first: Path, second: Path, committed: Path, group: str, margin: int, missing: str, output: Path | None
) -> int:
    """Where a group goes on in another cluster without missing anything: a CSV for kafka-consumer-groups --from-file.

    The tables are those of the cluster that it leaves and of the one that it goes to.
    """
    from kafkats.cli.export import sentences
    from kafkats.compare import failover as find
    from kafkats.exports import export
    from kafkats.groups import read_committed_offsets
    from kafkats.report import make_folder, write_text
    from kafkats.tables import read

    asked = read_committed_offsets(_text(committed), path=str(committed), group=group)
    topics = {one.topic for one in asked}
    marks = find(asked, read(first, topics=topics).rows, read(second, topics=topics).rows, margin_ms=margin)
    made = export(marks, to="group-csv", missing=missing)
    if output is None:
        say(made.text.removesuffix("\n"))
    else:
        make_folder(output.parent, "the export")
        write_text(output, made.text)
    for sentence in sentences(made, output):
        click.echo(shown(sentence), err=True)
    return 0


def _text(path: Path) -> str:
    with storage(path, "reading"):
        return path.read_text(errors="replace")


VERBS = (lag, latency, failover)
