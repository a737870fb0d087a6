"""Pages about one run: the newest run that has their report, and runs that lack it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from fastapi import APIRouter, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from kafkats_airflow.reading import runs
from kafkats_airflow.reading.files import Unreadable, changed_ms, model
from kafkats_airflow.reading.records import Report
from kafkats_airflow.reading.runs import Found
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.runs.started import Started
from kafkats_airflow.ui import deployed, rendering
from kafkats_airflow.ui.asked import Asked, Run
from kafkats_airflow.ui.deployed import Set
from kafkats_airflow.ui.reading.beginning import of_overview
from kafkats_airflow.ui.reading.newest import runs_with
from kafkats_airflow.ui.rights import Person, Readable

T = TypeVar("T")
LOOKS: Final = frozenset({"preflight", "plan", "census", "inventory", "lookup"})
"""Jobs that read log directories and write nothing there."""
_NO_REPORT = "This run has no such report."


class Page(NamedTuple):
    """A page about one run. `path` shows it, `file` is what such a run has, `none` what is said
    where no run has it. `operations`: only runs of their DAGs, None for those of all. `kept`: files
    without which it has nothing to show (a glob), if not `file`. `jobs` read what it shows.
    """

    title: str
    here: str
    path: str
    template: str
    file: str
    none: str
    operations: frozenset[str] | None = None
    kept: str = ""
    jobs: frozenset[str] = LOOKS

    def found_by(self, of: Set, dag_ids: frozenset[str]) -> tuple[list[Found], str]:
        """Return the runs of these DAGs of a set that have this page, the newest first, and why
        their folder cannot be listed, or "".
        """
        if self.operations is not None:
            dag_ids &= of.dags.having(self.operations)
        found, unseen = of.runs_of(dag_ids)
        return runs_with(found, self.file), unseen


def add(
    router: APIRouter,
    page: Page,
    read: Callable[[Path], T | Unreadable | None],
    shown: Callable[[Path, T], Mapping[str, object]],
) -> None:
    """Add the page of a run, and the way from its name to the newest run that has it.

    It shows what `shown` makes of the run's folder and of what `read` finds there.
    """
    add_newest(router, page)

    @router.get(f"/{page.path}")
    def of_run(request: Request, run: Asked, readable: Readable) -> Response:
        return about(request, readable, run, page, read, shown)


def add_newest(router: APIRouter, page: Page) -> None:
    """Add the way to the newest run that has this page, or the page that says that none has."""

    @router.get(f"/{page.here}")
    def newest(request: Request, chosen: deployed.Asked) -> Response:
        found, unseen = page.found_by(*chosen)
        if not found:
            return _missing(request, page, page.none, chosen.one, unseen=unseen)
        theme, one = request.query_params.get("theme"), found[0]
        to = rendering.link(page.path, dag_id=one.dag_id, run_id=one.folder.name, theme=theme)
        return RedirectResponse(to)


def about(
    request: Request,
    person: Person,
    run: Run,
    page: Page,
    read: Callable[[Path], T | Unreadable | None],
    shown: Callable[[Path, T], Mapping[str, object]],
) -> Response:
    """Show the page of a run: what `shown` makes of its folder and of what `read` finds there.

    Says so where there is nothing to read, and why it cannot be read.
    """
    found = None if run.folder is None else read(run.folder)
    if run.folder is None or found is None:
        return _missing(request, page, _NO_REPORT, run.of, status=404)
    if isinstance(found, Unreadable):
        return _missing(request, page, _unread(found), run.of)
    given: dict[str, object] = {
        "title": page.title,
        "here": page.here,
        "run": run,
        "read": read_at(run.folder, page),
        "log_dirs": log_dirs_of(run.folder, run.of.listed(person.dag_ids).volumes),
        "begun": begun_of(run.folder),
        "choices": [
            (one, begun_of(one.folder)) for one in page.found_by(run.of, person.dag_ids)[0]
        ],
    }
    more = given | dict(shown(run.folder, found))
    return rendering.page(request, page.template, status=200, **more)


def _missing(
    request: Request, page: Page, said: str, of: Set, *, status: int = 200, unseen: str = ""
) -> Response:
    """Say why there is no such report to show."""
    return rendering.page(
        request,
        "no_report.html",
        status=status,
        title=page.title,
        here=page.here,
        said=said,
        unseen=unseen,
        folder=str(of.folder),
    )


class ReadAt(NamedTuple):
    """The time at which a run has read the disk, epoch ms. If not `exact`, it was read earlier."""

    at_ms: int | None
    exact: bool


def read_at(folder: Path, page: Page) -> ReadAt:
    """Return when the last job ended that read what a page shows; where no file tells, and where
    the report is older than that job, as in a run that was cleared, the time of the run's report.
    """
    live = (one for one in runs.progress_of(folder) if not isinstance(one, Unreadable))
    ended = [one.written_ms for one in live if one.job in page.jobs and one.state == "done"]
    overview = runs.overview_of(folder)
    written = overview.written_ms if isinstance(overview, Overview) else None
    if ended and (written is None or max(ended) <= written):
        return ReadAt(max(ended), exact=True)
    return ReadAt(written or changed_ms(folder / page.file), exact=False)


class Begun(NamedTuple):
    """A run's id as its overview tells it, else its folder's name, and its start."""

    run_id: str
    started: Started


def begun_of(folder: Path) -> Begun:
    """Return how the run of this folder began."""
    overview = runs.overview_of(folder)
    if isinstance(overview, Overview):
        return Begun(overview.run_id, of_overview(overview))
    return Begun(folder.name, Started())


class LogDir(NamedTuple):
    """A log directory that a run looked at. `broker` is "" where the policy does not name it."""

    path: str
    broker: str


def log_dirs_of(folder: Path, listed: Mapping[str, str]) -> list[LogDir]:
    """Return the log directories that a run looked at, by broker; none if no file tells them.
    `listed` are those of policies, {label: broker}.
    """
    overview, report = runs.overview_of(folder), model(folder / "report.json", Report)
    started: Mapping[str, str] = {}
    if isinstance(overview, Overview):
        started = overview.started.volumes
        found = [one.log_dir for one in overview.volumes] or list(started)
    else:
        found = report.volumes if isinstance(report, Report) else []
    brokers = {**started, **listed}
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
        raise HTTPException(422, _unread(found))
    return found


def _unread(found: Unreadable) -> str:
    return f"{found.path.name} of this run cannot be read: {found.why}."
