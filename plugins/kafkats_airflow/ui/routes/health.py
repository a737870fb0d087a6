"""The map of index health of one run."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui import rendering, rights
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import health
from kafkats_airflow.ui.reading.files import Unreadable
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

HERE: Final = "index-health"
_NONE: Final = "No run has a report on index health yet. rebuild_time_indexes writes one."


@router.get("/index-health")
def newest(request: Request, readable: rights.Readable) -> Response:
    """Lead to the newest run that has looked at indexes."""
    return choosing.newest(request, readable, "health", health.SEGMENTS, "Index health", _NONE)


@router.get("/health")
def page(
    request: Request, run: Asked, readable: rights.Readable, at: health.At = "now"
) -> Response:
    """Show the map of a run."""
    found = None if run.folder is None else health.health_in(run.folder, at)
    if run.folder is None or found is None or isinstance(found, Unreadable):
        return choosing.missing(request, "Index health", found, here=HERE)
    return rendering.page(
        request,
        "health.html",
        title="Index health",
        here=HERE,
        run=run,
        written_ms=choosing.written_ms(run.folder / health.SEGMENTS),
        log_dirs=choosing.log_dirs_of(run.folder),
        choices=choosing.choices(readable, health.SEGMENTS),
        said=health.said_of(found),
        changed=health.changed(run.folder),
        at=at,
    )


@router.get("/data/health")
def cells(run: Asked, at: health.At = "now") -> Response:
    """Return the cells of the map."""
    found = choosing.given(run, lambda folder: health.health_in(folder, at))
    return JSONResponse(health.map_of(found, at))


@router.get("/data/health-partition")
def findings(
    run: Asked,
    partition: Annotated[str, Query(max_length=1000)],
    log_dir: Annotated[str, Query(max_length=5000)],
    at: health.At = "now",
) -> Response:
    """Return the findings of one partition."""
    found = choosing.given(run, lambda folder: health.findings_of(folder, at, log_dir, partition))
    return JSONResponse(found)
