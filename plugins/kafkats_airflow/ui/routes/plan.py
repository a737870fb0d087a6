"""The page of a run's plan: every row with its reason, and the buttons that answer the question.

The buttons call Airflow's own REST from the browser. Nothing here writes.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Request, Response

from kafkats import clock
from kafkats_airflow import airflow_versions
from kafkats_airflow.approvals.recorded import KEEP_STOPPED, STOP
from kafkats_airflow.reading import volumes
from kafkats_airflow.reading.files import Unreadable
from kafkats_airflow.ui import dags, rendering, rights
from kafkats_airflow.ui.asked import Asked, Run
from kafkats_airflow.ui.reading import next_steps, plan_rows
from kafkats_airflow.ui.reading import plan as reading
from kafkats_airflow.ui.reading.run import Detail, known_to
from kafkats_airflow.ui.routes.volumes import DEPTHS

router = APIRouter()

ROWS: Final = 100
"""Rows on one page."""


@router.get("/plan")
def page(
    request: Request,
    run: Asked,
    readable: rights.Readable,
    digest: Annotated[str, Query(max_length=64)] = "",
    find: Annotated[str, Query(max_length=200)] = "",
    action: Annotated[str, Query(max_length=20)] = "",
    start: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """Show the plans of a run, or say that it has no folder that is seen from here."""
    if run.folder is None:
        return rendering.page(request, "no_run.html", title=run.run_id, run=run)
    detail, now_ms = known_to(run.folder, run.dag_id, dags.over), clock.now_ms()
    plans = reading.plans_of(detail)
    chosen = next((one for one in plans if one.plan.digest.startswith(digest)), None)
    table = plan_rows.table_of(chosen.folder) if chosen and chosen.folder else None
    rows = table if table is not None and not isinstance(table, Unreadable) else None
    live = chosen is not None and not chosen.applied
    found = since = None
    if rows is not None:
        found = plan_rows.find(rows, words=find, action=action, start=start, count=ROWS, live=live)
        since = plan_rows.since(rows) if live else None
    bad = [*reading.unreadable_of(detail), *([table] if isinstance(table, Unreadable) else [])]
    standing = reading.standing(detail, now_ms)
    health = airflow_versions.health_here() if standing == "waiting" else {}
    return rendering.page(
        request,
        "plan.html",
        title=f"Plan of {detail.run_id or run.run_id}",
        begun=detail.started,
        volumes=detail.volumes,
        brokers=run.of.listed(readable.dag_ids).volumes,
        run=run,
        run_id=detail.run_id or run.run_id,
        detail=detail,
        plans=plans,
        chosen=chosen,
        what=reading.sentence(chosen) if chosen else "",
        found=found,
        since=since,
        unreadable=bad,
        standing=standing,
        no_triggerer=airflow_versions.no_triggerer(health),
        about=_about(run, detail, readable, now_ms),
        depths=DEPTHS,
        stop=STOP,
        keep_stopped=KEEP_STOPPED,
        day_ms=clock.DAY_MS,
        meanings=next_steps.MEANINGS,
        find=find,
        action=action,
        start=start,
        step=ROWS,
    )


def _about(run: Run, detail: Detail, readable: rights.Person, now_ms: int) -> list[volumes.Row]:
    """Return the log directories that an open question of a run is about, as Volumes has them."""
    if detail.question is None or detail.answer is not None:
        return []
    found, _ = run.of.runs_of(readable.dag_ids)
    rows = volumes.board(found, run.of.listed(readable.dag_ids).volumes, now_ms).rows
    asks = run.dag_id, detail.question.run_id or detail.folder.name
    return [row for row in rows if asks in [(one.dag_id, one.run_id) for one in row.asks]]


@router.get("/data/question")
def question(run: Asked, digest: Annotated[str, Query(max_length=64)] = "") -> dict[str, object]:
    """Return the question about this digest if it waits for an answer. 409 if it does not."""
    if run.folder is None:
        raise HTTPException(404, "The folder of this run is not seen from here.")
    detail = known_to(run.folder, run.dag_id, dags.over)
    if why := reading.refusal(detail, digest, clock.now_ms()):
        raise HTTPException(409, why)
    assert detail.question is not None
    return {"digest": digest, "options": list(detail.question.options)}
