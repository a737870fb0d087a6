"""The page Restart: what the next start of stopped brokers will read, cut off and lose."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from kafkats_airflow.reading.files import Unreadable
from kafkats_airflow.reading.records import Change, changes_of
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import restart
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Restart",
    here="restart",
    path="run-restart",
    template="restart.html",
    file=restart.RECOVERY,
    none="No run has looked at stopped brokers yet. A DAG with the tag"
    " kafkats:recover writes a report, also as a dry run.",
)


def _shown(folder: Path, found: list[restart.Partition]) -> dict[str, object]:
    rows, said = restart.shown(found), restart.preflights_of(folder)
    starts, changes = restart.starts_of(found), changes_of(folder)
    standing = (one for one in changes if isinstance(one, Change) and one.undone_ms is None)
    return {
        "wrote": sum(one.outcomes.get("done", 0) for one in standing),
        "compared": restart.compared(said, starts) if isinstance(said, list) else [],
        "preflights": said if isinstance(said, list) else [],
        "unreadable": [said] if isinstance(said, Unreadable) else [],
        "starts": starts,
        "rows": rows,
        "quiet": len(found) - len(rows),
        "total": len(found),
        "blocked": sum(bool(one.blocked) for one in found),
        "behind": sum(one.behind > 0 for one in found),
        "bytes": sum(one.bytes for one in found),
        "lost": sum(one.lost_bytes for one in found),
    }


choosing.add(router, PAGE, restart.partitions_of, _shown)


@router.get("/data/restart")
def starts(run: Asked) -> Response:
    """Return the sums of each log directory."""
    found = choosing.given(run, restart.partitions_of)
    return JSONResponse({"starts": [one._asdict() for one in restart.starts_of(found)]})
