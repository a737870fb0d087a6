"""The run that a page is about: its DAG is checked, and its folder lies in that of the DAG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, HTTPException, Query, Request

from kafkats_airflow.reading.runs import folder_asked
from kafkats_airflow.ui import deployed, rights
from kafkats_airflow.ui.deployed import Set

NOT_OURS: Final = (
    "This DAG is not one of kafkats: there is nothing to show here, and nothing was read."
)


class Run(NamedTuple):
    """A DAG run, its folder and the set of its DAG. `folder` is None if the run has none that is
    seen from here.
    """

    dag_id: str
    run_id: str
    folder: Path | None
    of: Set


def run_asked(
    request: Request, dag_id: rights.DagAsked, run_id: Annotated[str, Query(max_length=1000)]
) -> Run:
    """Return the run of the request. Raises 401 and 403 as `rights.dag_asked`, 404."""
    if not rights.ours([dag_id]):
        raise HTTPException(404, NOT_OURS)
    of = deployed.of_dag(request, dag_id)
    return Run(dag_id, run_id, folder_asked(of.folder, dag_id, run_id), of)


Asked = Annotated[Run, Depends(run_asked)]
