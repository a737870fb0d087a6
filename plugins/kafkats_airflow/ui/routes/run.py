"""The page of one run, and the tab of DAG runs: its stages, its progress, its remarks."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from kafkats import clock
from kafkats_airflow.runs.folders import holder_named
from kafkats_airflow.ui import dags, rendering
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import ending, next_steps
from kafkats_airflow.ui.reading import run as reading
from kafkats_airflow.ui.routes import health, migration, offsets, restart, retention, rolling

router = APIRouter()


REPORTS: Final = tuple(
    one.PAGE for one in (health, retention, rolling, offsets, migration, restart)
)
"""The pages to which that of a run leads."""


@router.get("/run")
def page(request: Request, run: Asked) -> Response:
    """Show one run, or say that it has no folder that is seen from here."""
    if run.folder is None:
        return rendering.page(request, "no_run.html", title=run.run_id, run=run)
    detail = reading.known_to(run.folder, run.dag_id, dags.over)
    now_ms, run_id = clock.now_ms(), detail.run_id or run.run_id
    over = detail.over or bool(dags.over([(run.dag_id, run_id)]))
    # a disk that hangs is not asked about a run that still runs
    held = ending.held_by(detail, holder_named(run.dag_id, run_id)) if over else None
    stages = reading.stages_of(detail, now_ms)
    known = run.of.dags
    plans = detail.report.plans if detail.report else []
    running = any(stage.state in {"running", "silent", "waiting"} for stage in stages)
    return rendering.page(
        request,
        "run.html",
        title=run_id,
        run=run,
        detail=detail,
        stages=stages,
        running=running,
        open=ending.open_of(detail),
        held=held,
        end_dag=known.of("end", run.dag_id),
        brokers=run.of.listed([run.dag_id]).volumes,
        left=next_steps.found_by(detail, known),
        meanings=next_steps.MEANINGS,
        to_write=any(one.totals.files for one in plans),
        ends=reading.ended_by(detail),
        failed=any(one.name == "Report" and one.state == "failed" for one in stages),
        blocked=sum(one.totals.blocked for one in plans),
        lasted_ms=reading.lasted_ms(detail),
        reports=[one for one in REPORTS if any(run.folder.glob(one.kept or one.file))],
    )
