"""Steps of a cluster's migration, which commands record in its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkats import clock
from kafkats.errors import UsageError
from kafkats.text import Flag

if TYPE_CHECKING:
    from kafkats.plans.run import Run


def check_step(ledger: Path | None, phase: str, broker: str, topics: str) -> None:
    """Raise UsageError for options with which a step could not be recorded as a whole.

    It is called before anything is read.
    """
    if len({bool(word) for word in (ledger, phase, broker)}) > 1:
        raise UsageError("a ledger, a phase and a broker go together: name all of them, or none")
    if ledger and topics != "*":
        raise UsageError(
            Flag("--ledger"), " records whole brokers: leave ", Flag("--topics"), " out"
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
    if ledger is not None:
        from kafkats.migration.phases import append_step

        now_ms = clock.now_ms()
        append_step(
            ledger, event, by=by, now_ms=now_ms, broker=broker, phase=phase, details=details
        )


def tell_run(run: Run, event: str, folder: Path, by: str) -> None:
    """Append a run's step to the ledger of its migration, if it belongs to one.

    `event` is started, finished (converted, or converted-back in a rollback) or undone. `folder` is
    the run's: a rollback reads there what to undo, also for an interrupted run. Raises Refused for
    a step out of order, UsageError, CorruptFile, StorageFailed.
    """
    from kafkats.plans.run import about

    if event == "finished":
        event = "converted-back" if run.phase == "rollback" else "converted"
    details = {"run_id": run.run_id, "plan": run.digest, "folder": str(folder.absolute())}
    ledger = Path(run.ledger) if run.ledger else None
    with about(run.ledger):
        tell_step(ledger, event, run.phase, run.broker, by=by, details=details)
