"""Pages about one run: the newest run that has their report, and runs that lack it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from fastapi import HTTPException, Request, Response
from starlette.responses import RedirectResponse

from kafkats_airflow.overview import Overview
from kafkats_airflow.ui import deployed, rendering
from kafkats_airflow.ui.asked import Run
from kafkats_airflow.ui.reading import runs
from kafkats_airflow.ui.reading.files import Unreadable, cached, state_of
from kafkats_airflow.ui.reading.newest import runs_with
from kafkats_airflow.ui.reading.records import Report, parse_report
from kafkats_airflow.ui.reading.runs import Found
from kafkats_airflow.ui.rights import Person

T = TypeVar("T")
_NO_REPORT = "This run has no such report."


def newest(
    request: Request, person: Person, path: str, file: str, title: str, none: str
) -> Response:
    """Lead to the page `path` of the newest run whose report has `file`, or say `none`."""
    folder, unseen = deployed.folder(), ""
    try:
        found = runs_with(folder, person.dag_ids, file)
    except OSError as e:
        found, unseen = [], (e.strerror or str(e)).lower()
    if found:
        theme = request.query_params.get("theme")
        one = found[0]
        to = rendering.link(path, dag_id=one.dag_id, run_id=one.folder.name, theme=theme)
        return RedirectResponse(to)
    return rendering.page(
        request, "no_report.html", title=title, said=none, unseen=unseen, folder=str(folder)
    )


def missing(request: Request, title: str, found: object, *, here: str) -> Response:
    """Say that a run has no such report, or why it cannot be read."""
    return rendering.page(
        request,
        "no_report.html",
        status=200 if isinstance(found, Unreadable) else 404,
        title=title,
        here=here,
        said=_said(found),
        unseen="",
        folder="",
    )


def choices(person: Person, file: str) -> list[Found]:
    """Return the runs that have `file` in their reports, the newest first."""
    try:
        return runs_with(deployed.folder(), person.dag_ids, file)
    except OSError:
        return []


class LogDir(NamedTuple):
    """A log directory that a run looked at. `broker` is "" where the policy does not name it."""

    path: str
    broker: str


def log_dirs_of(folder: Path) -> list[LogDir]:
    """Return the log directories that a run looked at, by broker; none if no file tells them."""
    overview, report = runs.overview_of(folder), cached(folder / "report.json", parse_report)
    if isinstance(overview, Overview):
        found = [one.log_dir for one in overview.volumes]
    else:
        found = report.volumes if isinstance(report, Report) else []
    brokers = deployed.listed().volumes
    named = [LogDir(path, brokers.get(path, "")) for path in dict.fromkeys(found)]
    return sorted(named, key=lambda one: (one.broker, one.path))


def given(run: Run, read: Callable[[Path], T | Unreadable | None]) -> T:
    """Return what is read of a run's folder. Raises 404 where there is none, 422 with the reason
    where it cannot be read.
    """
    found = None if run.folder is None else read(run.folder)
    if found is None:
        raise HTTPException(404, _NO_REPORT)
    if isinstance(found, Unreadable):
        raise HTTPException(422, _said(found))
    return found


def written_ms(path: Path) -> int | None:
    """Return when a file was written, None where there is none."""
    state = state_of(path)
    if state is None or isinstance(state, Unreadable):
        return None
    return state.mtime_ns // 1_000_000


def _said(found: object) -> str:
    if isinstance(found, Unreadable):
        return f"{found.path.name} of this run cannot be read: {found.why}."
    return _NO_REPORT
