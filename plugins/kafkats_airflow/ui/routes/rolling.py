"""Segments per day, as they are and as the settings of the topics would roll them."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui import rendering, rights
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import rolling
from kafkats_airflow.ui.reading.files import Unreadable
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

HERE: Final = "rolling"
TITLE: Final = "Rolling"
_NONE: Final = (
    "No run has simulated rolling yet. roll_segments does with “Simulate rolling” on, also as a dry"
    " run: it reads the headers of all batches."
)
_MOST_UNREAD: Final = 200
_SUMS: Final = ("segments", "simulated", "open_files", "simulated_open_files")


@router.get("/rolling")
def newest(request: Request, readable: rights.Readable) -> Response:
    """Lead to the newest run that has simulated rolling."""
    return choosing.newest(request, readable, "run-rolling", rolling.SIMULATION, TITLE, _NONE)


@router.get("/run-rolling")
def page(request: Request, run: Asked, readable: rights.Readable) -> Response:
    """Show the segments of a run's topics, as is and simulated."""
    found = None if run.folder is None else rolling.simulation_of(run.folder)
    if run.folder is None or found is None or isinstance(found, Unreadable):
        return choosing.missing(request, TITLE, found, here=HERE)
    return rendering.page(
        request,
        "rolling.html",
        title=TITLE,
        here=HERE,
        run=run,
        written_ms=found.now_ms,
        log_dirs=choosing.log_dirs_of(run.folder),
        choices=choosing.choices(readable, rolling.SIMULATION),
        topics=found.topics,
        sums={name: sum(row[name] for row in found.topics) for name in _SUMS},
        empty=found.empty,
        unread=found.unread[:_MOST_UNREAD],
        unread_count=len(found.unread),
    )


@router.get("/data/rolling")
def topics(run: Asked) -> Response:
    """Return the sums of each topic."""
    found = choosing.given(run, rolling.simulation_of)
    return JSONResponse({"topics": found.topics})


@router.get("/data/rolling-days")
def days(run: Asked, topic: Annotated[str, Query(max_length=249)] = rolling.ALL) -> Response:
    """Return the segments that began on each day, of one topic or of all."""
    return JSONResponse(choosing.given(run, lambda folder: rolling.days_of(folder, topic)))
