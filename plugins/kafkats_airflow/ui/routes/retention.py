"""The page Retention: what it deletes now and later, what pins the rest, other retention times."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Response
from starlette.responses import JSONResponse

from kafkats.errors import UsageError
from kafkats.retention.plot import STATES, label
from kafkats_airflow.ui.asked import Asked
from kafkats_airflow.ui.reading import retention
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Retention",
    here="retention",
    path="run-retention",
    template="retention.html",
    file=retention.BOARD,
    none="No run has a report on retention yet. A DAG with the tag kafkats:retain writes"
    " one, also as a dry run.",
)
_SUMS: Final = ("now_bytes", "day_bytes", "week_bytes", "pinned_bytes", "bytes")
Topic = Annotated[str, Query(min_length=1, max_length=249)]


def _shown(folder: Path, board: retention.Board) -> dict[str, object]:
    return {
        "judged_ms": board.now_ms,
        "topics": board.topics,
        "sums": {name: sum(row[name] for row in board.topics) for name in _SUMS},
        "pins": retention.pins_of(board),
        "can_try": retention.can_try(folder),
    }


choosing.add(router, PAGE, retention.board_of, _shown)


@router.get("/data/retention")
def topics(run: Asked) -> Response:
    """Return the bytes of each topic by state, with the colours and the words of states."""
    board = choosing.given(run, retention.board_of)
    limits = choosing.given(run, lambda folder: retention.limits_of(folder, board))
    return JSONResponse({
        "now_ms": board.now_ms,
        "limits": limits,
        "reasons": retention.reasons_of(board, limits),
        "states": STATES,
        "labels": {state: label(state) for state in STATES},
        "topics": board.topics,
        "by_state": board.by_state,
    })


@router.get("/data/retention-topic")
def timeline(run: Asked, topic: Topic) -> Response:
    """Return the segments of a topic, as the run decided on them."""
    board = choosing.given(run, retention.board_of)
    found = choosing.given(run, lambda folder: retention.timeline_of(folder, board, topic))
    return JSONResponse(found)


@router.get("/data/retention-what-if")
def what_if(
    run: Asked, topic: Topic, retention_ms: Annotated[int, Query(ge=-1, le=2**63 - 1)]
) -> Response:
    """Return the same with another retention.ms. Nothing is written, and no log is read."""
    board = choosing.given(run, retention.board_of)
    try:
        found = choosing.given(
            run, lambda folder: retention.tried(folder, board, topic, retention_ms)
        )
    except UsageError as e:
        raise HTTPException(422, f"This cannot be tried: {e.reason}.") from e
    return JSONResponse(found)
