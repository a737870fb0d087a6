"""The page of who decided and did what, over all runs."""

from __future__ import annotations

from typing import Annotated, Final, get_args

from fastapi import APIRouter, Query, Request, Response

from kafkats_airflow.ui import deployed, rendering
from kafkats_airflow.ui.reading import audit

router = APIRouter()

ROWS: Final = 200


@router.get("/audit")
def page(
    request: Request,
    chosen: deployed.Asked,
    verb: audit.Verb | None = None,
    find: Annotated[str, Query(max_length=500)] = "",
    start: Annotated[int, Query(ge=0, le=10**6)] = 0,
) -> Response:
    """Show every decision about the runs that the person may read, the newest first."""
    found, unseen = chosen.runs()
    asked = find.casefold()
    rows = [
        one
        for one in audit.events_of(found)
        if (verb is None or one.verb == verb)
        and any(asked in text.casefold() for text in (one.by, one.run_id, one.what, *one.log_dirs))
    ]
    return rendering.page(
        request,
        "audit.html",
        title="Audit",
        folder=str(chosen.one.folder),
        unseen=unseen,
        rows=rows[start : start + ROWS],
        total=len(rows),
        verbs=get_args(audit.Verb),
        verb=verb,
        find=find,
        start=start,
        step=ROWS,
        left_out=max(len(found) - audit.LOOKED_AT, 0),
        may_read=bool(chosen.dag_ids),
    )
