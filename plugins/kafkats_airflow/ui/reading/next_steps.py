"""The next step for a log directory: what to do about its state, and which DAG does it.

Airflow's form that triggers a DAG cannot be filled by an address. So a step leads to the DAG, and
says which log directory to name there.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from kafkats.findings import KINDS, REBUILD, REMEDIES
from kafkats_airflow.forms.tags import missing
from kafkats_airflow.reading.volumes import Row, Source, Told
from kafkats_airflow.ui.dags import Dags
from kafkats_airflow.ui.reading.run import Detail

MEANINGS: Final = {kind: meaning for kind, (_, meaning) in KINDS.items()}
"""Kind of a finding -> its meaning, for titles."""
_DOWN: Final = "its broker must be stopped"


class Step(NamedTuple):
    """A step. `dag_id` is the DAG that does it, "" for a person; `needs` is its condition."""

    said: str
    dag_id: str = ""
    needs: str = ""


def steps_of(row: Row, now_ms: int, dags: Dags) -> list[Step]:
    """Return the next steps for a log directory, the most urgent first."""
    states = row.states(now_ms)
    like = next((told.source.dag_id for told in row.looks), "")
    rebuilding = dags.of("rebuild", like)
    steps = mending({kind for told in row.looks for kind in told.defects}, rebuilding)
    if not {"unseen", "overdue", "older", "unchecked", "partly"}.isdisjoint(states):
        steps.append(_step("Look at it by a dry run", "rebuild", rebuilding, "its broker may run"))
    return steps


def _step(said: str, operation: str, dag_id: str, needs: str) -> Step:
    return Step(said, dag_id, needs) if dag_id else Step(f"{said}: {missing(operation)}")


def mending(kinds: Collection[str], rebuilding: str) -> list[Step]:
    """Return the steps about the defects of these kinds, in the order of REMEDIES.

    `rebuilding` is the id of the DAG that rebuilds indexes, "" if there is none.
    """
    found: dict[str, list[str]] = {}
    for remedy in REMEDIES:
        if mine := [kind for kind in remedy.kinds if kind in kinds]:
            found[remedy.step] = found.get(remedy.step, []) + mine
    return [
        _step("Rebuild its indexes", "rebuild", rebuilding, _DOWN)
        if step == REBUILD
        else Step(f"{', '.join(mine)}: {step}")
        for step, mine in found.items()
    ]


def found_by(run: Detail, dags: Dags) -> list[tuple[Told, list[Step]]]:
    """Return the log directories in which a run has left danger or damage, each with its steps."""
    if run.overview is None:
        return []
    source = Source(run.overview.dag_id, run.overview.run_id, run.overview.written_ms)
    rebuilding, left = dags.of("rebuild", run.overview.dag_id), []
    for volume in run.overview.volumes:
        told = Told(source, volume, run.overview.topics)
        if defects := told.defects:
            left.append((told, mending(defects, rebuilding)))
    return left


def deletion(row: Row, dags: Dags) -> Step | None:
    """Return the step that deletes what is reclaimable, None if there is nothing to delete."""
    if row.reclaimable is None:
        return None
    found = row.reclaimable.volume.reclaimable
    if found is None or not found.now_bytes:
        return None
    dag_id = dags.of("retain", row.reclaimable.source.dag_id)
    return _step("Delete it", "retain", dag_id, _DOWN)
