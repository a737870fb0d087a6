"""The page Migration: bytes of each magic over time, the ledger, who loses zero-copy."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui import rendering, rights
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import migration
from kafkats_airflow.ui.reading.files import Unreadable
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

HERE: Final = "migration"
TITLE: Final = "Migration"
_NONE: Final = "No run has a report on a migration yet. migrate_message_format writes one."


@router.get("/migration")
def newest(request: Request, readable: rights.Readable) -> Response:
    """Lead to the newest run of a migration."""
    return choosing.newest(request, readable, "run-migration", migration.CENSUS, TITLE, _NONE)


@router.get("/run-migration")
def page(request: Request, run: Asked, readable: rights.Readable) -> Response:
    """Show how far a migration was after a run."""
    found = None if run.folder is None else migration.report_of(run.folder)
    if run.folder is None or found is None or isinstance(found, Unreadable):
        return choosing.missing(request, TITLE, found, here=HERE)
    converted = migration.converted_of(run.folder)
    after = found.magic_bytes.after
    return rendering.page(
        request,
        "migration.html",
        title=TITLE,
        here=HERE,
        run=run,
        written_ms=choosing.written_ms(run.folder / "report.json"),
        log_dirs=choosing.log_dirs_of(run.folder),
        choices=choosing.choices(readable, migration.CENSUS),
        report=found,
        after=after,
        total=sum(after),
        below=sum(after[:2]),
        canary=[one for one in found.brokers if one.phase == "canary"],
        converted=converted if isinstance(converted, list) else [],
        unreadable=[converted] if isinstance(converted, Unreadable) else [],
    )


@router.get("/data/migration")
def points(run: Asked) -> Response:
    """Return the burn-down."""
    report = choosing.given(run, migration.report_of)
    found = choosing.given(run, lambda folder: migration.points_of(folder, report))
    return JSONResponse({"points": [one.model_dump() for one in found]})
