"""lag, latency, diff, failover: consumer groups, brokers and clusters by time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats import clock
from kafkats.cli.generated import options
from kafkats.cli.options import (
    JSON,
    LOG_DIRS,
    LOG_DIRS_OR_TABLE,
    MAX_BATCH_BYTES,
    TOPICS,
    text_of_file,
)
from kafkats.cli.terminal import all_but, progress, say_summary, show_rows
from kafkats.config.topics import topic_filter
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats.lookup import exports
from kafkats.lookup.options import Committed, Diff, Failover

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = click.Path(path_type=Path)
_DIFF_TOTALS = ("times", "both", "only_first", "only_second", "neither", "unreadable")


@click.command()
@LOG_DIRS_OR_TABLE
@options(Committed)
@JSON
def lag(paths: tuple[Path, ...], committed: Path, group: str) -> int:
    """Show how far consumer groups are behind.

    It counts records and time. With a TABLE the time is an upper bound. Exits with 1 if a
    partition's lag is unknown.
    """
    from kafkats.lookup import lag as operation
    from kafkats.lookup.consumer_groups import read_committed_offsets
    from kafkats.lookup.partitions import lookup_partitions
    from kafkats.tables import read, table_in

    asked = read_committed_offsets(text_of_file(committed), path=str(committed), group=group)
    now_ms = clock.now_ms()
    if (folder := table_in(paths)) is not None:
        table = operation.lag_by_table(
            asked, read(folder, topics={one.topic for one in asked}), now_ms=now_ms
        )
    else:
        table = operation.lag(asked, lookup_partitions(paths), now_ms=now_ms)
    rows = table.to_pylist()
    show_rows(rows, all_but(rows, "log_start_offset", "newest_timestamp"))
    untold = sum(row["reason"] in ("unreadable", "no-partition", "not-covered") for row in rows)
    most = max((row["lag_ms"] for row in rows), default=-1)
    summary = {"partitions": len(rows), "untold": untold, "most_ms": most}
    say_summary(
        summary,
        [
            f"{counted(len(rows), 'partition')}, {max(most, 0)} ms at most; {untold} could not be"
            " told"
        ],
    )
    return int(untold > 0)


@click.command()
@LOG_DIRS
@TOPICS
@JSON
@MAX_BATCH_BYTES
def latency(log_dirs: tuple[Path, ...], topics: str) -> int:
    """Show how late records reached the broker.

    The largest value is right for the --margin of other commands. Exits with 1 if a partition
    could not be read.
    """
    from kafkats.lookup import latency as operation
    from kafkats.lookup.partitions import lookup_partitions

    units = list(lookup_partitions(log_dirs, topics=topics))
    if not units:
        raise UsageError(
            "there is no partition to measure"
            + (f" that matches {topics!r}" if topics != "*" else "")
        )
    table = operation.latency(progress(units, "measuring"))
    rows = table.to_pylist()
    show_rows(rows, table.column_names)
    most = {source: operation.most_ms(table, source) for source in ("append-time", "mtime")}
    failed = sum(bool(row["reason"]) for row in rows)
    sentences = [
        f"at most {most['append-time']} ms by append time, {most['mtime']} ms by the files' times;"
        f" {failed} unreadable"
    ]
    say_summary(
        {"append_time_ms": most["append-time"], "mtime_ms": most["mtime"], "unreadable": failed},
        sentences,
    )
    return int(failed > 0)


@click.command()
@click.argument("first", metavar="FIRST_TABLE", type=_FILE)
@click.argument("second", metavar="SECOND_TABLE", type=_FILE)
@options(Diff)
@TOPICS
@JSON
def diff(
    first: Path,
    second: Path,
    margin: int | None,
    begins: int | None,
    until: int | None,
    by: str,
    topics: str,
) -> int:
    """Compare the offsets of two clusters at the same times.

    It reads a lookup table of each, and shows where a reader of the first continues in the second.
    Exits with 1 if only one of them has an answer for a time, or if a cell could not be read.
    """
    import pyarrow.compute as pc

    from kafkats.lookup import cluster_diff
    from kafkats.tables import read

    if begins is not None and until is not None and begins >= until:
        raise UsageError("--from must be before --until")
    from_ms = None if begins is None else begins - (margin or 0)
    one, other = (read(path, from_ms=from_ms, to_ms=until) for path in (first, second))
    if one.step_ms != other.step_ms:
        raise UsageError(
            f"the tables have different steps ({one.step_ms} ms, {other.step_ms} ms): build both"
            " with the same"
        )
    found = cluster_diff.diff(
        _of_topics(one.rows, topics), _of_topics(other.rows, topics), margin_ms=margin or 0
    )
    if begins is not None:
        found = found.filter(pc.greater_equal(found["target_ms"], begins))
    partitions = cluster_diff.by_partition(found)
    if not partitions.num_rows:
        raise UsageError(
            "neither table has a row in this range"
            + (f", of a topic like {topics!r}" if topics != "*" else "")
        )
    shown = found if by == "time" else partitions
    show_rows(shown.to_pylist(), shown.column_names)
    total = {name: sum(partitions[name].to_pylist()) for name in _DIFF_TOTALS}
    summary = {
        "partitions": partitions.num_rows,
        **total,
        "most_again": max(partitions["most_again"].to_pylist()),
    }
    sentences = [
        f"{counted(summary['partitions'], 'partition')}, {counted(total['times'], 'time')}: both"
        f" have {total['both']}, only the first {total['only_first']}, only the second"
        f" {total['only_second']}, neither {total['neither']}",
        f"could not be told: {total['unreadable']}; a group reads at most"
        f" {counted(max(summary['most_again'], 0), 'offset')} twice",
    ]
    say_summary(summary, sentences)
    return int(any(total[name] for name in ("only_first", "only_second", "unreadable")))


def _of_topics(rows: pa.Table, glob: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = rows["topic"].cast(pa.string())
    wanted = [name for name in names.unique().to_pylist() if topic_filter(glob).matches(name)]
    return rows.filter(pc.is_in(names, pa.array(wanted, pa.string())))


@click.command()
@click.argument("first", metavar="FROM_TABLE", type=_FILE)
@click.argument("second", metavar="TO_TABLE", type=_FILE)
@options(Committed, Failover)
def failover(
    first: Path,
    second: Path,
    committed: Path,
    group: str,
    margin: int,
    missing: str,
    output: Path | None,
) -> int:
    """Compute where a consumer group continues in another cluster.

    It misses no record. The output is a CSV for kafka-consumer-groups --reset-offsets --from-file.
    FROM_TABLE is of the cluster that the group leaves, TO_TABLE of the one in which it continues.
    """
    from kafkats.cli.rows import Rows
    from kafkats.flow.searching import keep_export
    from kafkats.lookup.cluster_diff import failover as find
    from kafkats.lookup.consumer_groups import read_committed_offsets
    from kafkats.tables import read

    asked = read_committed_offsets(text_of_file(committed), path=str(committed), group=group)
    topics = {one.topic for one in asked}
    marks = find(
        asked, read(first, topics=topics).rows, read(second, topics=topics).rows, margin_ms=margin
    )
    made = exports.export(marks, to="group-csv", missing=missing)
    keep_export(made, output)
    Rows().exported(made, output)
    return 0
