"""The next step for a log directory: what to do about its state, and which DAG does it.

Airflow's form that triggers a DAG cannot be filled by an address. So a step leads to the DAG, and
says which log directory to name there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kafkats_airflow.ui.reading.volumes import Row

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
    steps = []
    if "danger" in states:
        steps.append(Step("Keep its broker stopped, and act first"))
    if damage & REBUILT:
        steps.append(Step("Rebuild its indexes", "rebuild_time_indexes", _DOWN))
    if damage - REBUILT:
        steps.append(Step("Other damage: take the partition from a replica"))
    if not {"unseen", "overdue", "older", "partly"}.isdisjoint(states):
        steps.append(Step("Look at it by a dry run", "rebuild_time_indexes", "its broker may run"))
    return steps


def deletion(row: Row) -> Step | None:
    """Return the step that deletes what is reclaimable, None if there is nothing to delete."""
    found = row.reclaimable.volume.reclaimable if row.reclaimable else None
    if found is None or not found.now_bytes:
        return None
    return Step("Delete it", "apply_retention", _DOWN)
