"""The page Offsets by time: the steps of a partition, all answers, and their exports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from starlette.responses import JSONResponse

from kafkats.errors import KafkatsError
from kafkats.lookup.exports import MISSING
from kafkats.lookup.marks import Mark
from kafkats.tables import View
from kafkats_airflow.reading.files import Unreadable
from kafkats_airflow.ui.asked import Asked, Run
from kafkats_airflow.ui.reading import offsets
from kafkats_airflow.ui.reading.newest import REPORT
from kafkats_airflow.ui.routes import choosing

router = APIRouter()

PAGE: Final = choosing.Page(
    title="Offsets by time",
    here="offsets",
    path="run-offsets",
    template="offsets.html",
    file=REPORT,
    none="No run has a report on offsets by time yet. A DAG with the tag kafkats:table or"
    " kafkats:export writes one.",
    operations=frozenset({"table", "export"}),
    kept="*/clouds.parquet",
)
Name = Annotated[str, Query(max_length=1000)]
Instant = Annotated[int, Query(ge=-(2**63), le=2**63 - 1)]


def _shown(folder: Path, sources: list[offsets.Source]) -> dict[str, object]:
    unseen = [str(one.path) for one in sources if not offsets.seen_from_here(one)]
    return {"sources": sources, "unseen": unseen, "missing": MISSING}


choosing.add(router, PAGE, offsets.sources_of, _shown)


@router.get("/data/offsets")
def partitions(run: Asked, source: Name = "") -> Response:
    """Return the partitions of a source, and the time that it covers."""
    one = _source(run, source)
    view = _view(one)
    times = view.rows["timestamp"].to_numpy()
    ends = (int(times.min()), int(times.max()) + view.step_ms) if len(times) else (None, None)
    return JSONResponse({
        "partitions": offsets.partitions_of(view),
        "step_ms": view.step_ms,
        "from_ms": ends[0],
        "to_ms": ends[1],
    })


@router.get("/data/offsets-stairs")
def stairs(
    run: Asked, topic: Name, partition: Annotated[int, Query(ge=0)], source: Name = ""
) -> Response:
    """Return the steps of a partition."""
    view = _view(_source(run, source))
    assert run.folder is not None
    return JSONResponse(offsets.stairs_of(run.folder, view, topic, partition))


@router.get("/data/offsets-at")
def answers(run: Asked, at: Instant, source: Name = "") -> Response:
    """Return the answers of all partitions for one time."""
    return JSONResponse({"answers": offsets.answers_of(_marks(run, source, at))})


@router.get("/data/offsets-export")
def export(
    run: Asked,
    at: Instant,
    to: Literal["spark-offsets", "spark-by-timestamp", "group-csv", "json"],
    missing: Literal["fail", "all", "none", "leave"] = "fail",
    group: Annotated[str, Query(max_length=1000)] = "",
    source: Name = "",
) -> Response:
    """Return the same as the text of an export."""
    marks = _marks(run, source, at)
    try:
        return JSONResponse(offsets.exported(list(marks), to, missing, group))
    except KafkatsError as e:
        raise HTTPException(422, f"This cannot be exported: {e.reason}.") from e


def _source(run: Run, name: str) -> offsets.Source:
    """Return the source of this name, or the first. Raises 404."""
    found = choosing.given(run, offsets.sources_of)
    for one in found:
        if name in {"", one.name}:
            return one
    raise HTTPException(404, "This run has no such table.")


def _view(source: offsets.Source) -> View:
    view = offsets.view_of(source)
    if isinstance(view, Unreadable):
        raise HTTPException(422, f"{view.path}: {view.why}.")
    return view


def _marks(run: Run, name: str, at_ms: int) -> Sequence[Mark]:
    source = _source(run, name)
    try:
        return offsets.marks_at(source, _view(source), at_ms)
    except KafkatsError as e:
        raise HTTPException(422, f"This time cannot be looked up: {e.reason}.") from e
