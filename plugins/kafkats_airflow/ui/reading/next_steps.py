"""The next step for a log directory: what to do about its state, and which DAG does it.

Airflow's form that triggers a DAG cannot be filled by an address. So a step leads to the DAG, and
says which log directory to name there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from kafkats.findings import KINDS, REBUILD, REMEDIES
from kafkats_airflow.ui.reading.run import Detail
from kafkats_airflow.ui.reading.volumes import Row, Source, Told

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
    steps = mending({kind for told in row.looks() for kind in _defects(told)})
    if not {"unseen", "overdue", "older", "partly"}.isdisjoint(states):
        steps.append(Step("Look at it by a dry run", "rebuild_time_indexes", "its broker may run"))
    return steps


def mending(kinds: Collection[str]) -> list[Step]:
    """Return the steps about the defects of these kinds, in the order of REMEDIES."""
    found: dict[str, list[str]] = {}
    for remedy in REMEDIES:
        if mine := [kind for kind in remedy.kinds if kind in kinds]:
            found[remedy.step] = found.get(remedy.step, []) + mine
    return [
        Step("Rebuild its indexes", "rebuild_time_indexes", _DOWN)
        if step == REBUILD
        else Step(f"{', '.join(mine)}: {step}")
        for step, mine in found.items()
    ]


def _defects(told: Told) -> list[str]:
    return [kind for severity in ("danger", "damage") for kind, _ in told.kinds(severity)]


def found_by(run: Detail) -> list[tuple[Told, list[Step]]]:
    """Return the log directories in which a run has left danger or damage, each with its steps."""
    if run.overview is None:
        return []
    source = Source(run.overview.dag_id, run.overview.run_id, run.overview.written_ms)
    left = []
    for volume in run.overview.volumes:
        told = Told(source, volume, run.overview.topics)
        if defects := _defects(told):
            left.append((told, mending(defects)))
    return left


def deletion(row: Row) -> Step | None:
    """Return the step that deletes what is reclaimable, None if there is nothing to delete."""
    found = row.reclaimable.volume.reclaimable if row.reclaimable else None
    if found is None or not found.now_bytes:
        return None
    return Step("Delete it", "apply_retention", _DOWN)
