"""layouts: what other indexes by time would be, beside Kafka's own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkats.cli.generated import options
from kafkats.cli.options import (
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    POLICY,
    TOPICS,
    policy_of,
    units_of,
)
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats_model.options import Layouts

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor

READ_SETTINGS: Final = frozenset({"index.interval.bytes"})
_COLUMNS = (
    "partition_dir",
    "base_offset",
    "segments",
    "layout",
    "fill",
    "bytes",
    "bytes_in_all",
    "times",
    "exact",
    "early",
    "late",
    "bytes_in_vain",
    "most_in_vain",
    "reason",
)


@click.command()
@LOG_DIRS
@options(Layouts)
@TOPICS
@POLICY
@JOBS
@JSON
@MAX_BATCH_BYTES
def layouts(
    log_dirs: tuple[Path, ...],
    every: int,
    times: tuple[int, ...],
    by: str,
    output: Path | None,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Compare .timeindex with indexes that Kafka never shipped.

    These were proposed with an entry per minute or per second, or with positions (enriched).
    kafkats builds each from the logs, and searches it for times. The output shows their sizes, and
    where a search begins: at the batch with the first record that late, so many bytes before it, or
    behind it, so that it misses records.
    Exits with 1 when a segment could not be read, or a partition directory could not be listed.
    """
    from kafkats_model import layouts as operation

    if every < 1 or any(time < 0 for time in times):
        raise UsageError(
            "an index by time is asked for a step of 1 ms or more, and for times from 1970 on"
        )
    options = operation.LayoutOptions(
        times, every, output, policy_of(policy_file, settings, reads=READ_SETTINGS)
    )
    units = units_of(log_dirs, topics, options.policy)
    do = partial(operation.layouts_unit, options=options)
    found = executor.map(
        "layouts", units, do, operation.LAYOUTS, size=lambda unit: unit.bytes
    ).to_pylist()
    rows = found if by == "segment" else operation.by_partition(found)
    show_rows(rows, _COLUMNS)
    failed = sum(bool(row["reason"]) for row in found)
    unread = sum(bool(row["reason"]) and row["base_offset"] >= 0 for row in found)
    total = {name: sum(row[name] for row in found) for name in ("times", "exact", "early", "late")}
    summary = total | {
        "segments": len({
            (r["log_dir"], r["partition_dir"], r["base_offset"])
            for r in found
            if r["base_offset"] >= 0
        })
    }
    sentences = [
        f"{counted(summary['segments'], 'segment')},"
        f" {counted(total['times'], 'search')}: {total['exact']} begin at the batch,"
        f" {total['early']} before, {total['late']} too late; {counted(unread, 'segment')} could"
        " not be read"
    ]
    if failed > unread:
        sentences.append(f"{counted(failed - unread, 'partition')} could not be listed")
    if output is not None:
        sentences.append(f"the files are in {output}")
    say_summary(summary | {"unreadable": failed}, sentences)
    return int(failed > 0)
