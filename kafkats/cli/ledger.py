"""ledger: what a cluster's format migration has been through, and what people have to say in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from kafkats.cli.generated import options
from kafkats.cli.options import BY, JSON
from kafkats.cli.spark import Commands
from kafkats.cli.streams import say, shown
from kafkats.cli.terminal import say_summary, show_rows
from kafkats.counts import counted
from kafkats.flow.steps import tell_step
from kafkats.migration.options import Attest, Broker, Brokers, Migration

_FILE = click.argument("file", metavar="LEDGER", type=click.Path(path_type=Path))
_BROKER = options(Broker)
_COLUMNS = ("broker", "status", "phase", "runs", "next", "waits_for")


@click.group(cls=Commands)
def ledger() -> None:
    """Record the phases of a format migration, broker by broker."""


@ledger.command()
@_FILE
@options(Migration, Brokers)
@BY
def begin(file: Path, from_magic: int, to_magic: int, brokers: tuple[str, ...], by: str) -> None:
    """Begin a migration, or change its list of brokers."""
    details = {"from_magic": from_magic, "to_magic": to_magic, "brokers": list(brokers)}
    _add(file, "begin", "", "", by, details)


@ledger.command()
@_FILE
@_BROKER
@options(Attest)
@BY
def attest(file: Path, broker: str, text: str, by: str) -> None:
    """Vouch that a broker understands the new format.

    No file of a log directory shows that.
    """
    _add(file, "attest", broker, "phase-1", by, {"text": text})


@ledger.command()
@_FILE
@_BROKER
@BY
def approve(file: Path, broker: str, by: str) -> None:
    """Approve the canary, so that the other brokers may follow."""
    _add(file, "approved", broker, "canary", by, {})


@ledger.command()
@_FILE
@JSON
def show(file: Path) -> None:
    """Show the state of each broker and what it waits for."""
    from kafkats.migration import phases
    from kafkats.migration.ledger import read

    found = read(file)
    migration = phases.state(found.entries)
    rows = phases.rows(migration) if migration else []
    show_rows([row | {"runs": ", ".join(row["runs"])} for row in rows], _COLUMNS)
    sentences = [counted(len(found.entries), "entry")]
    if migration:
        sentences = [f"from magic {migration.from_magic} to {migration.to_magic}, {sentences[0]}"]
    if found.torn:
        sentences.append(f"the last entry was cut short and does not count ({found.torn} bytes)")
    summary = {"entries": len(found.entries), "torn": found.torn}
    say_summary(summary, sentences)


def _add(
    file: Path, event: str, broker: str, phase: str, by: str, details: Mapping[str, Any]
) -> None:
    tell_step(file, event, phase, broker, by=by, details=details)
    say(shown(f"{event}{f' of broker {broker}' if broker else ''}: written into {file}"))
