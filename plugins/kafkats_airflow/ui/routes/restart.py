"""The page Restart: what the next start of stopped brokers will read, cut off and lose."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui import rendering, rights
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import restart
from kafkats_airflow.ui.reading.files import Unreadable
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

HERE: Final = "restart"
TITLE: Final = "Restart"
_NONE: Final = (
    "No run has looked at stopped brokers yet. recover_log_dirs writes a report, also as a dry run."
)


@router.get("/restart")
def newest(request: Request, readable: rights.Readable) -> Response:
    """Lead to the newest run that has looked at stopped brokers."""
    return choosing.newest(request, readable, "run-restart", restart.RECOVERY, TITLE, _NONE)


@router.get("/run-restart")
def page(request: Request, run: Asked, readable: rights.Readable) -> Response:
    """Show what a start of these brokers will do."""
    found = None if run.folder is None else restart.partitions_of(run.folder)
    if run.folder is None or found is None or isinstance(found, Unreadable):
        return choosing.missing(request, TITLE, found, here=HERE)
    rows = restart.shown(found)
    return rendering.page(
        request,
        "restart.html",
        title=TITLE,
        here=HERE,
        run=run,
        written_ms=choosing.written_ms(run.folder / restart.RECOVERY),
        log_dirs=choosing.log_dirs_of(run.folder),
        choices=choosing.choices(readable, restart.RECOVERY),
        starts=restart.starts_of(found),
        rows=rows,
        quiet=len(found) - len(rows),
        total=len(found),
        blocked=sum(bool(one.blocked) for one in found),
        behind=sum(one.behind > 0 for one in found),
        bytes=sum(one.bytes for one in found),
        lost=sum(one.lost_bytes for one in found),
    )


@router.get("/data/restart")
def starts(run: Asked) -> Response:
    """Return the sums of each log directory."""
    found = choosing.given(run, restart.partitions_of)
    return JSONResponse({"starts": [one._asdict() for one in restart.starts_of(found)]})
