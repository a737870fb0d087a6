"""replay: requests of a script against partitions as brokers of any release keep them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from kafkats.broker.options import Replay
from kafkats.cli.generated import options
from kafkats.cli.options import JSON
from kafkats.cli.terminal import say_summary, show_rows

_COLUMNS = (
    "line",
    "do",
    "broker",
    "partition",
    "outcome",
    "first_offset",
    "last_offset",
    "bytes",
    "stored_bytes",
    "timestamp",
    "rolled",
    "log_end_offset",
    "error",
)


@click.command()
@click.argument("script", metavar="SCRIPT", type=click.Path(path_type=Path))
@options(Replay)
@JSON
def replay(script: Path, output: Path, as_json: bool) -> int:
    """Play a SCRIPT of requests as brokers of any release answer.

    The brokers' log directories are written into DIR. Same script, same bytes. Shows for each step
    whether a message set is appended in place, converted, recompressed or rejected, and what a
    fetch sends. Exits with 0 also where a broker rejects: that is an outcome.
    """
    from kafkats.broker import replay as player

    rows = player.replay(script, output)
    show_rows(rows, _COLUMNS, as_json)
    outcomes = Counter(str(row["outcome"]) for row in rows)
    rejected = outcomes["rejected"]
    said = [f"{len(rows)} steps, {rejected} rejected; the log directories are in {output}"]
    say_summary({"steps": len(rows), "outcomes": dict(outcomes)}, as_json, said)
    return 0
