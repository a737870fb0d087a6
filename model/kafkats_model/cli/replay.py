"""replay: requests of a script against partitions as brokers of any release keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kafkats.cli.generated import options
from kafkats.cli.options import JSON
from kafkats.cli.session import session
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.counts import counted
from kafkats_model.options import Replay

_COLUMNS = (
    "line",
    "do",
    "broker",
    "partition",
    "outcome",
    "offsets",
    "formats",
    "bytes",
    "timestamp",
    "time",
    "cpu_us",
)
"""The columns of the table, which fit into 100 columns. JSON has all fields of a row."""


@click.command()
@click.argument("script", metavar="SCRIPT", type=click.Path(path_type=Path))
@options(Replay)
@JSON
def replay(script: Path, not_for_a_broker: bool, output: Path) -> int:
    """Play a SCRIPT of requests as brokers of any release answer.

    The brokers' log directories are written into DIR. Same script, same bytes. Shows for each step
    whether a message set is appended in place, converted, recompressed or rejected, and what a
    fetch sends. Exits with 0 also where a broker rejects: that is an outcome.
    """
    from kafkats_model.broker import replay as player

    rows = player.replay(script, output, not_for_a_broker=not_for_a_broker)
    show_rows(rows if session().as_json else [_cells(row) for row in rows], _columns(rows))
    outcomes = Counter(str(row["outcome"]) for row in rows)
    rejected = outcomes["rejected"]
    said = [f"line {row['line']}: {row['error']}" for row in rows if "error" in row]
    said.append(f"{counted(len(rows), 'step')}, {rejected} rejected; log directories in {output}")
    say_summary({"steps": len(rows), "outcomes": dict(outcomes)}, said)
    return 0


def _columns(rows: Sequence[Mapping[str, str | int]]) -> tuple[str, ...]:
    """Return the columns of the table: cpu_us only beside no other column of times."""
    timed = any(row.get("time") or row.get("timestamp", -1) != -1 for row in rows)
    return _COLUMNS[:-1] if timed else _COLUMNS


def _cells(row: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return a row for the table: a range of offsets, and bytes sent of bytes stored.

    A row without offsets has the log end.
    """
    first, last = row.get("first_offset", -1), row.get("last_offset", -1)
    if first == -1 and "log_end_offset" in row:
        first = f"end {row['log_end_offset']}"
    size, stored = row.get("bytes", ""), row.get("stored_bytes", "")
    version = f" v{row['version']}" if "version" in row else ""
    return {
        **row,
        "do": f"{row['do']}{version}",
        "outcome": f"{row['outcome']}, rolled" if row.get("rolled") else row["outcome"],
        "offsets": row.get("offsets") or (f"{first}-{last}" if last != -1 else first),
        "bytes": size if stored in {"", size} else f"{size} of {stored}",
    }
