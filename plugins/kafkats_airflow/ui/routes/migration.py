"""The page Migration: bytes of each magic over time, the ledger, who loses zero-copy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from kafkats import clock
from kafkats_airflow.reading.files import Unreadable
from kafkats_airflow.reading.runs import overview_of
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import canary, migration
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Migration",
    here="migration",
    path="run-migration",
    template="migration.html",
    file=migration.CENSUS,
    none="No run has a report on a migration yet. A DAG with the tag kafkats:migrate writes one.",
    jobs=choosing.LOOKS | {"verify", "certify"},
)


def _asks(folder: Path) -> bool:
    """Return whether the run asks about its canary, and a person can answer now."""
    overview = overview_of(folder)
    written_ms = overview.written_ms if isinstance(overview, Overview) else 0
    return canary.waiting(canary.question_of(folder), written_ms, clock.now_ms()) is not None


def _shown(folder: Path, report: migration.Report) -> dict[str, object]:
    converted, after = migration.converted_of(folder), report.magic_bytes.after
    points = migration.points_of(folder, report)
    return {
        "seen": points[-1].bytes if isinstance(points, list) and points else after,
        "report": report,
        "following": [one for one in report.brokers if one.next and not one.waits_for],
        "waiting": sum(bool(one.waits_for) for one in report.brokers),
        "asks": _asks(folder),
        "after": after,
        "total": sum(after),
        "below": sum(after[:2]),
        "canary": [one for one in report.brokers if one.phase == "canary"],
        "converted": converted if isinstance(converted, list) else [],
        "unreadable": [converted] if isinstance(converted, Unreadable) else [],
    }


choosing.add(router, PAGE, migration.report_of, _shown)


@router.get("/data/migration")
def points(run: Asked) -> Response:
    """Return the burn-down."""
    report = choosing.given(run, migration.report_of)
    found = choosing.given(run, lambda folder: migration.points_of(folder, report))
    return JSONResponse({"points": [one.model_dump() for one in found]})
