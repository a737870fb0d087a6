"""Steps of a cluster's migration, which commands record in its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkats import clock
from kafkats.errors import UsageError
from kafkats.text import Flag, Text


def check_step(ledger: Path | None, phase: str, broker: str, topics: str) -> None:
    """Raise UsageError for options with which a step could not be recorded as a whole.

    It is called before anything is read.
    """
    if len({bool(word) for word in (ledger, phase, broker)}) > 1:
        raise UsageError("a ledger, a phase and a broker go together: name all of them, or none")
    if ledger and topics != "*":
        raise UsageError(
            Text(Flag("--ledger"), " records whole brokers: leave ", Flag("--topics"), " out")
        )
    if phase:
        from kafkats.migration.state import as_phase

        as_phase(phase)


def tell_step(
    ledger: Path | None,
    event: str,
    phase: str,
    broker: str,
    *,
    by: str,
    details: Mapping[str, Any],
) -> None:
    """Add a step to a migration's ledger, of now; nothing without one. Raises as
    `phases.append_step`.
    """
    if ledger is None:
        return
    from kafkats.migration.phases import append_step

    append_step(
        ledger,
        event,
        by=by,
        now_ms=clock.now_ms(),
        broker=broker,
        phase=phase,
        details=details,
    )
