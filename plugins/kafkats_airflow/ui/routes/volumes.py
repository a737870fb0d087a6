"""The page of all log directories."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from kafkats import clock
from kafkats_airflow.reading import volumes
from kafkats_airflow.ui import dags, deployed, rendering
from kafkats_airflow.ui.reading import next_steps

router = APIRouter()

Sort = Literal["trouble", "path", "age", "bytes", "reclaimable", "pinned", "undo"]
WORDS: Final = {
    "danger": "danger",
    "damage": "damage",
    "unread": "not readable",
    "unseen": "not seen from here",
    "partly": "some topics only",
    "overdue": "overdue",
    "older": "older report",
    "unchecked": "not checked",
    "sound": "sound",
}
"""State -> its words on the page."""
DEPTHS: Final = {
    None: "looked at",
    "stat": "names were read",
    "tail": "its ends were read",
    "full": "read whole",
    "deep": "every record was read",
}
"""Depth of a look -> its words on the page."""


@router.get("/")
def root() -> Response:
    """Lead to the first page."""
    return RedirectResponse("volumes")


@router.get("/volumes")
def page(
    request: Request,
    chosen: deployed.Asked,
    sort: Sort = "trouble",
    state: volumes.State | None = None,
    find: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show every log directory, the one in most trouble first."""
    now_ms, listed = clock.now_ms(), chosen.one.listed(chosen.dag_ids)
    found, unseen = chosen.runs()
    board = volumes.board(found, listed.volumes, now_ms)
    closed = dags.over({(one.dag_id, one.run_id) for row in board.rows for one in row.asks})
    for row in board.rows:
        row.asks = [one for one in row.asks if (one.dag_id, one.run_id) not in closed]
    counts = volumes.summed(board.rows, now_ms)
    troubled = sum(row.states(now_ms)[0] != "sound" for row in board.rows)
    rows = [row for row in board.rows if _fits(row, state, find, now_ms)]
    return rendering.page(
        request,
        "volumes.html",
        title="Volumes",
        folder=str(chosen.one.folder),
        unseen=unseen,
        policy=listed.why,
        rows=_sorted(rows, sort),
        total=len(board.rows),
        troubled=troubled,
        counts=counts,
        words=WORDS,
        depths=DEPTHS,
        unreadable=board.unreadable,
        runs=len(found),
        may_read=bool(chosen.dag_ids),
        sort=sort,
        state=state,
        find=find,
        dags=chosen.one.dags,
        steps_of=next_steps.steps_of,
        deletion=next_steps.deletion,
        meanings=next_steps.MEANINGS,
        overdue_ms=volumes.overdue_ms(),
        sums=_sums(board.rows),
        freed_ms=min((ms for row in rows if (ms := row.freed_ms()) is not None), default=None),
    )


def _fits(row: volumes.Row, state: volumes.State | None, find: str, now_ms: int) -> bool:
    asked = find.casefold()
    named = asked in row.log_dir.casefold() or asked in row.broker.casefold()
    return named and (state is None or state in row.states(now_ms))


def _sorted(rows: list[volumes.Row], sort: Sort) -> list[volumes.Row]:
    """Return the rows as asked. They come by trouble; rows without a figure go last."""
    if sort == "trouble":
        return rows
    if sort == "path":
        return sorted(rows, key=lambda row: row.log_dir)
    if sort == "age":
        return sorted(rows, key=lambda row: row.mentioned.written_ms if row.mentioned else -1)
    return sorted(rows, key=lambda row: _figures(row).get(sort, -1), reverse=True)


def _figures(row: volumes.Row) -> dict[str, int]:
    """Return the figures of a log directory that are known, in bytes."""
    found = {"undo": row.undo_bytes()}
    if row.seen and row.seen.volume.bytes is not None:
        found["bytes"] = row.seen.volume.bytes
    if deleted := row.reclaimable and row.reclaimable.volume.reclaimable:
        found |= {"reclaimable": deleted.now_bytes, "pinned": deleted.pinned_bytes}
    return found


def _sums(rows: list[volumes.Row]) -> Counter[str]:
    """Return the totals over all log directories, in bytes."""
    sums = Counter(bytes=0, reclaimable=0, pinned=0)
    for row in rows:
        sums.update(_figures(row))
    return sums
