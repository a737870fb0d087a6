"""The tab of DAGs: the runs of one DAG. Airflow shows it on every DAG, also on others' DAGs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kafkats import clock
from kafkats_airflow.ui import dags, deployed, rendering, rights
from kafkats_airflow.ui.asked import NOT_OURS
from kafkats_airflow.ui.reading import listing
from kafkats_airflow.ui.routes.runs import ROWS

router = APIRouter()


@router.get("/dag")
def page(request: Request, dag_id: rights.DagAsked) -> Response:
    """Show the runs of a DAG of kafkats; of another, say so and read nothing."""
    if not rights.ours([dag_id]):
        return rendering.page(request, "not_ours.html", title=dag_id, said=NOT_OURS)
    of = deployed.of_dag(request, dag_id)
    found, unseen = of.runs_of([dag_id])
    rows = listing.rows_of(found, clock.now_ms(), dags.over)
    return rendering.page(
        request,
        "dag.html",
        title=dag_id,
        folder=str(of.folder),
        unseen=unseen,
        brokers=of.listed([dag_id]).volumes,
        dag_id=dag_id,
        rows=rows[:ROWS],
        total=len(rows),
        words=listing.WORDS,
    )
