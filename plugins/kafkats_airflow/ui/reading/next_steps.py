"""The next step for a log directory: what to do about its state, and which DAG does it.

Airflow's form that triggers a DAG cannot be filled by an address. So a step leads to the DAG, and
says which log directory to name there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from kafkats.findings import KINDS
from kafkats_airflow.ui.reading.run import Detail
from kafkats_airflow.ui.reading.volumes import Row, Source, Told

REBUILT: Final = frozenset({
    "missing-index",
    "empty-index",
    "zero-entries",
    "partial-entry",
    "not-monotonic",
    "below-base",
    "beyond-end",
    "not-in-log",
    "below-maximum",
    "above-maximum",
})
"""Kinds of damage of .index and .timeindex files: a rebuild mends them (docs/findings.md)."""
MEANINGS: Final = {kind: meaning for kind, (_, meaning) in KINDS.items()}
"""Kind of a finding -> its meaning, for titles."""
_DOWN: Final = "its broker must be stopped"


class Step(NamedTuple):
    """A step. `dag_id` is the DAG that does it, "" for a person; `needs` is its condition."""

    said: str
    dag_id: str = ""
    needs: str = ""


def steps_of(row: Row, now_ms: int) -> list[Step]:
    """Return the next steps for a log directory, the most urgent first."""
    states = row.states(now_ms)
    damage = {kind for told in row.looks() for kind, _ in told.kinds("damage")}
    steps = mending(damage, danger="danger" in states)
    if not {"unseen", "overdue", "older", "partly"}.isdisjoint(states):
        steps.append(Step("Look at it by a dry run", "rebuild_time_indexes", "its broker may run"))
    return steps


def mending(damage: Collection[str], *, danger: bool) -> list[Step]:
    """Return the steps about the defects of a log directory; `damage` are the kinds found."""
    steps = []
    if danger:
        steps.append(Step("Keep its broker stopped, and act first: docs/findings.md"))
    if not REBUILT.isdisjoint(damage):
        steps.append(Step("Rebuild its indexes", "rebuild_time_indexes", _DOWN))
    if not REBUILT.issuperset(damage):
        steps.append(Step("Other damage: take the partition from a replica"))
    return steps


def found_by(run: Detail) -> list[tuple[Told, list[Step]]]:
    """Return the log directories in which a run has left danger or damage, each with its steps."""
    if run.overview is None:
        return []
    source = Source(run.overview.dag_id, run.overview.run_id, run.overview.written_ms)
    left = []
    for volume in run.overview.volumes:
        told = Told(source, volume, run.overview.topics)
        damage = {kind for kind, _ in told.kinds("damage")}
        if steps := mending(damage, danger=bool(told.kinds("danger"))):
            left.append((told, steps))
    return left


def deletion(row: Row) -> Step | None:
    """Return the step that deletes what is reclaimable, None if there is nothing to delete."""
    found = row.reclaimable.volume.reclaimable if row.reclaimable else None
    if found is None or not found.now_bytes:
        return None
    return Step("Delete it", "apply_retention", _DOWN)
