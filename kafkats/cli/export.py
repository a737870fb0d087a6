"""export: which offset it was at that time, in the words of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import options
from kafkats.cli.lookup import HIGH_WATERMARK, LOGS, limits_of
from kafkats.cli.options import JOBS, MAX_BATCH_BYTES, POLICY, TOPICS, now_or, policy_of
from kafkats.cli.session import session
from kafkats.cli.terminal import say, shown
from kafkats.config.settings_read import SEARCHES
from kafkats.errors import UsageError
from kafkats.lookup import exports
from kafkats.lookup.marks import find_marks, with_margin
from kafkats.lookup.options import Export

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution import Executor
    from kafkats.search import Target

_NAMED = 20
_SHOWN = 10


@click.command()
@click.argument(
    "paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@options(Export)
@LOGS
@HIGH_WATERMARK
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def export(
    paths: tuple[Path, ...],
    at: str,
    until: str | None,
    to: str,
    missing: str,
    margin: int | None,
    group: str | None,
    output: Path | None,
    logs: tuple[Path, ...],
    high_watermark: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Write the offset of every partition at a time, for Spark's Kafka source, for
    kafka-consumer-groups --reset-offsets --from-file, or as JSON.

    TABLE is the folder of a lookup table. Exit with 1 if --to json leaves partitions without an
    answer.
    """
    from kafkats.flow import looking
    from kafkats.lookup import partitions as operation
    from kafkats.plans.facts import make_folder, write_text

    end = None if until is None else operation.target_of(until, "--until")
    begin, end = with_margin(operation.target_of(at, "--at"), end, margin or 0)
    if group and to != "group-csv":
        raise UsageError("--group is for group-csv")
    options = operation.LookupOptions(
        now_ms=now_or(None),
        policy=policy_of(policy_file, settings, reads=SEARCHES),
    )

    def look(targets: list[Target]) -> pa.Table:
        units = list(
            operation.lookup_partitions(paths, topics=topics, high_watermark=high_watermark)
        )
        if not units:
            raise UsageError(
                "there is no partition to export"
                + (f" that matches {topics!r}" if topics != "*" else "")
            )
        return looking.lookup(executor, units, targets, options)

    starts, ends = find_marks(
        paths, begin, end, look, topics=topics, limits=limits_of(logs, topics)
    )
    made = exports.export(starts, ends, to=to, missing=missing, group=group or "")
    if output is None:
        say(made.text.removesuffix("\n"))
    else:
        make_folder(output.parent, "the export")
        write_text(output, made.text)
    for sentence in sentences(made, output):
        click.echo(shown(sentence), err=True)
    without = [
        f"{note.topic}-{note.partition}: no {note.side} ({note.reason})" for note in made.notes
    ]
    session().summary |= {
        "export": str(output or ""),
        "partitions": made.partitions,
        "without": len(without),
        "named": without[:_NAMED],
    }
    return int(to == "json" and any(note.reason != "past-end" for note in made.notes))


def sentences(made: exports.Export, output: Path | None) -> list[str]:
    """Return a sentence per reason for which another offset replaces a missing answer, and one
    naming the partitions left out.
    """
    said = [f"{made.partitions} partitions" + (f" in {output}" if output else "")]
    words = {None: "no answer", -1: "the latest", -2: "the earliest"}
    told = [
        f"{n.topic}-{n.partition} has no {n.side} ({n.reason}): {words.get(n.wrote, f'offset {n.wrote}')}"
        for n in made.notes
    ]
    more = [f"and {len(told) - _SHOWN} more without an answer"] if len(told) > _SHOWN else []
    return said + told[:_SHOWN] + more
