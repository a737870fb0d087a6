"""The page of all runs: those that need a person first, then the newest."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from kafkats import clock
from kafkats_airflow.ui import dags, deployed, rendering
from kafkats_airflow.ui.reading import listing

router = APIRouter()

ROWS: Final = 50
"""Runs on one page."""


@router.get("/runs")
def page(
    request: Request,
    chosen: deployed.Asked,
    dag: Annotated[str, Query(max_length=500)] = "",
    state: listing.State | None = None,
    sort: listing.Sort = "need",
    up: bool = False,
    start: Annotated[int, Query(ge=0, le=10**6)] = 0,
) -> Response:
    """Show all runs of the DAGs that the person may read."""
    now_ms = clock.now_ms()
    found, unseen = chosen.runs()
    every = listing.rows_of(found, now_ms, dags.over)
    wanted = [
        row
        for row in every
        if (not dag or row.dag_id == dag) and (state is None or row.state == state)
    ]
    return rendering.page(
        request,
        "runs.html",
        title="Runs",
        folder=str(chosen.one.folder),
        unseen=unseen,
        brokers=chosen.one.listed(chosen.dag_ids).volumes,
        rows=listing.sorted_by(wanted, sort, up=up)[start : start + ROWS],
        sort=sort,
        up=up,
        total=len(wanted),
        counts=listing.counted(every),
        needing=len(listing.needing(every)),
        words=listing.WORDS,
        dags=sorted({row.dag_id for row in every}),
        dag=dag,
        state=state,
        start=start,
        step=ROWS,
        may_read=bool(chosen.dag_ids),
    )
