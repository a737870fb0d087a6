"""The command `export`: the offsets at a time, in the formats of other tools."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import taking
from kafkats.cli.lookup import NOT_OF_A_TABLE, limits_of, refuse_named
from kafkats.cli.options import JOBS, LOG_DIRS_OR_TABLE, MAX_BATCH_BYTES, given_policy
from kafkats.cli.session import session
from kafkats.cli.streams import say, warn
from kafkats.config.given import Given
from kafkats.config.options import Settings, Topics
from kafkats.config.settings_read import SEARCHES
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats.lookup import exports
from kafkats.lookup.marks import cells_sentence, find_marks, with_margin
from kafkats.lookup.options import Export, Logs, Search

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.config import Policy
    from kafkats.execution import Executor
    from kafkats.search import Target

_NAMED = 20
_SHOWN = 10


@click.command()
@LOG_DIRS_OR_TABLE
@taking(Export, Logs, Search, Topics, Settings)
@JOBS
@MAX_BATCH_BYTES
def export(paths: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Write the offsets at a time, for Spark or a consumer group.

    The formats are options for Spark's Kafka source, a file for kafka-consumer-groups
    --reset-offsets --from-file, and JSON. TABLE is the folder of a lookup table. Exits with 1 if
    --to json leaves partitions without an answer.
    """
    from kafkats.lookup.partitions import target_of
    from kafkats.tables import table_in

    asked, topics = given.of(Export), given.of(Topics).topics
    end = None if asked.until is None else target_of(asked.until, "--until")
    begin, end = with_margin(target_of(asked.at, "--at"), end, asked.margin or 0)
    if asked.group and asked.to != "group-csv":
        raise UsageError("--group is for group-csv")
    if (table := table_in(paths)) is not None:
        why = "a table answers by its cells alone; leave that out, or name the log directories"
        refuse_named(given, NOT_OF_A_TABLE, why, table)
    look = partial(_look, executor, paths, given, given_policy(given, reads=SEARCHES))
    limits = limits_of(given.of(Logs).logs, topics)
    starts, ends = find_marks(paths, begin, end, look, topics=topics, limits=limits)
    group, output = asked.group or "", asked.output
    made = exports.export(starts, ends, to=asked.to, missing=asked.missing, group=group)
    put_out(made, output)
    if table is not None and (told := cells_sentence(table, begin, end)):
        warn(told)
    without = [
        f"{note.topic}-{note.partition}: no {note.side} ({note.reason})" for note in made.notes
    ]
    session().summary |= {
        "export": str(output or ""),
        "partitions": made.partitions,
        "without": len(without),
        "named": without[:_NAMED],
    }
    return int(asked.to == "json" and any(note.reason != "past-end" for note in made.notes))


def _look(
    executor: Executor,
    paths: Sequence[Path],
    given: Given,
    policy: Policy,
    targets: list[Target],
) -> pa.Table:
    """Search log directories. Raises UsageError if there is no partition."""
    from kafkats.flow import looking
    from kafkats.lookup import partitions as operation

    topics, high_watermark = given.of(Topics).topics, given.of(Search).high_watermark
    named = policy.named_paths()
    units = list(
        operation.lookup_partitions(
            paths, topics=topics, high_watermark=high_watermark, named=named
        )
    )
    if not units:
        matched = f" that matches {topics!r}" if topics != "*" else ""
        raise UsageError(f"there is no partition to export{matched}")
    options = operation.LookupOptions(now_ms=given.now_ms, policy=policy)
    return looking.lookup(executor, units, targets, options)


def put_out(export: exports.Export, output: Path | None) -> None:
    """Write the export to a file or to the terminal, and its sentences beside it."""
    from kafkats.plans.files import make_folder, write_text

    if output is None:
        say(export.text.removesuffix("\n"))
    else:
        make_folder(output.parent, "the export")
        write_text(output, export.text)
    for sentence in sentences(export, output):
        warn(sentence)


def sentences(made: exports.Export, output: Path | None) -> list[str]:
    """Return a sentence per reason for which another offset replaces a missing answer, and one
    naming the partitions left out.
    """
    first = [counted(made.partitions, "partition") + (f" in {output}" if output else "")]
    words = {None: "no answer", -1: "the latest", -2: "the earliest"}
    notes = [
        f"{n.topic}-{n.partition} has no {n.side} ({n.reason}):"
        f" {words.get(n.wrote, f'offset {n.wrote}')}"
        for n in made.notes
    ]
    more = [f"and {len(notes) - _SHOWN} more without an answer"] if len(notes) > _SHOWN else []
    return first + notes[:_SHOWN] + more
