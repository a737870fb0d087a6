"""Segments per day, as they are and as the settings of the topics would roll them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response
from starlette.responses import JSONResponse

from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import rolling
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Rolling",
    here="rolling",
    path="run-rolling",
    template="rolling.html",
    file=rolling.SIMULATION,
    none="No run has simulated rolling yet. A DAG with the tag kafkats:roll does with"
    " “Simulate rolling” on, also as"
    " a dry run: it reads the headers of all batches.",
)
_MOST_UNREAD: Final = 200
_SUMS: Final = ("partitions", "segments", "simulated", "open_files", "simulated_open_files")


def _shown(folder: Path, found: rolling.Simulation) -> dict[str, object]:
    return {
        "judged_ms": found.now_ms,
        "topics": found.topics,
        "sums": {name: sum(row[name] for row in found.topics) for name in _SUMS},
        "empty": found.empty,
        "unread": found.unread[:_MOST_UNREAD],
        "unread_count": len(found.unread),
    }


choosing.add(router, PAGE, rolling.simulation_of, _shown)


@router.get("/data/rolling")
def topics(run: Asked) -> Response:
    """Return the sums of each topic."""
    found = choosing.given(run, rolling.simulation_of)
    return JSONResponse({"topics": found.topics})


@router.get("/data/rolling-days")
def days(run: Asked, topic: Annotated[str, Query(max_length=249)] = rolling.ALL) -> Response:
    """Return the segments that began on each day, of one topic or of all."""
    return JSONResponse(choosing.given(run, lambda folder: rolling.days_of(folder, topic)))
