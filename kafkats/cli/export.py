"""export: which offset it was at that time, in the words of another tool."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.lookup import HIGH_WATERMARK
from kafkats.cli.options import CONFIG, POLICY, SPAN, TOPICS, policy_of, table_of
from kafkats.errors import UsageError
from kafkats.terminal import progress, say, shown

if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.exports import Export, Mark

_FORMATS = ("spark-offsets", "spark-by-timestamp", "group-csv", "json")
_MISSING = ("fail", "all", "none", "leave")
_LATEST, _EARLIEST = -1, -2
_SHOWN = 10


@click.command()
@click.argument("paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--at", required=True, metavar="TIME", help="ISO 8601, epoch ms, latest, earliest or max-timestamp.")
@click.option("--until", metavar="TIME", help="The end of a range, itself not included.")
@click.option("--to", required=True, type=click.Choice(_FORMATS), help="docs/exports.md tells what is in each.")
@click.option(
    "--missing", type=click.Choice(_MISSING), default="fail", show_default=True,
    help="Partitions without an answer: refuse; read all of it; nothing of it; or leave it out, and say so.",
)  # fmt: skip
@click.option(
    "--margin", type=SPAN, default=0, metavar="DURATION",
    help="How much too late records came: begin so much earlier, end so much later.",
)  # fmt: skip
@click.option(
    "--group", default="", metavar="GROUP", help="For group-csv: the first column, for a file of several groups."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Else to standard output.")
@HIGH_WATERMARK
@TOPICS
@POLICY
@CONFIG
def export(
    paths: tuple[Path, ...],
    at: str,
    until: str | None,
    to: str,
    missing: str,
    margin: int,
    group: str,
    output: Path | None,
    high_watermark: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
) -> int:
    """Where every partition was at a time, for Spark's Kafka source, kafka-consumer-groups --reset-offsets --from-file, or as JSON.

    A TABLE is a folder of lookup tables. Exits with 1 when partitions had no answer and `json` says so.
    """
    from kafkats import exports
    from kafkats.operations.lookup import target_of
    from kafkats.report import make_folder, write_text

    begin = target_of(at, "--at")
    end = None if until is None else target_of(until, "--until")
    if margin:
        begin, end = _earlier(begin, margin), None if end is None else _later(end, margin)
    if group and to != "group-csv":
        raise UsageError("--group is for group-csv")
    policy = policy_of(policy_file, settings)
    starts, ends = _marks(paths, begin, end, topics, policy, high_watermark)
    made = exports.export(starts, ends, to=to, missing=missing, group=group)
    if output is None:
        say(made.text.removesuffix("\n"))
    else:
        make_folder(output.parent, "the export")
        write_text(output, made.text)
    for sentence in sentences(made, output):
        click.echo(shown(sentence), err=True)
    return int(to == "json" and any(note.reason != "past-end" for note in made.notes))


def _earlier(target: int, margin: int) -> int:
    return max(target - margin, 0) if target >= 0 else target


def _later(target: int, margin: int) -> int:
    return min(target + margin, 2**63 - 1) if target >= 0 else target


def _marks(
    paths: tuple[Path, ...], at: int, until: int | None, topics: str, policy: Policy, high_watermark: str
) -> tuple[list[Mark], list[Mark] | None]:
    from kafkats import exports
    from kafkats.tables.store import MANIFEST

    tables = [path for path in paths if Path(path, MANIFEST).is_file()]
    if tables:
        if len(paths) > 1:
            raise UsageError("one table, or log directories: not both, not two")
        return exports.read_marks(tables[0], at, until, topics=topics)
    from kafkats.operations import lookup as operation

    targets = list(dict.fromkeys([at, *([] if until is None else [until]), _LATEST, _EARLIEST]))
    options = operation.LookupOptions(now_ms=time.time_ns() // 1_000_000, policy=policy)
    units = list(operation.lookup_partitions(paths, topics=topics, high_watermark=high_watermark))
    if not units:
        raise UsageError("there is no partition to export" + (f" that matches {topics!r}" if topics != "*" else ""))
    looked = (operation.lookup_unit(unit, targets, options) for unit in progress(units, "searching", lambda _: 1))
    rows = table_of(looked, operation.LOOKUP)
    return exports.marks_of(rows, at), None if until is None else exports.marks_of(rows, until)


def sentences(made: Export, output: Path | None) -> list[str]:
    """What was written in the place of an answer, by reason; and which partitions were left out."""
    said = [f"{made.partitions} partitions" + (f" in {output}" if output else "")]
    words = {None: "no answer", -1: "the latest", -2: "the earliest"}
    told = [
        f"{n.topic}-{n.partition} has no {n.side} ({n.reason}): {words.get(n.wrote, f'offset {n.wrote}')}"
        for n in made.notes
    ]
    more = [f"and {len(told) - _SHOWN} more without an answer"] if len(told) > _SHOWN else []
    return said + told[:_SHOWN] + more
