"""The map of index health of one run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui import rights
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import health
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Index health",
    here="index-health",
    path="health",
    template="health.html",
    file=health.SEGMENTS,
    none="No run has a report on index health yet. A DAG with the tag kafkats:rebuild writes one.",
    jobs=choosing.LOOKS | {"verify"},
)


choosing.add_newest(router, PAGE)


@router.get("/health")
def page(
    request: Request, run: Asked, readable: rights.Readable, at: health.At = "now"
) -> Response:
    """Show the map of a run."""

    def shown(folder: Path, found: health.Drawn) -> dict[str, object]:
        ends = health.ends_only(folder)
        return {"said": found.said, "changed": health.changed(folder), "at": at, "ends": ends}

    read = partial(health.drawn_of, at=at)
    shows = PAGE if at == "now" else PAGE._replace(jobs=choosing.LOOKS)
    return choosing.about(request, readable, run, shows, read, shown)


@router.get("/data/health")
def cells(run: Asked, at: health.At = "now") -> Response:
    """Return the cells of the map."""
    found = choosing.given(run, lambda folder: health.drawn_of(folder, at))
    return Response(found.map, media_type="application/json")


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
