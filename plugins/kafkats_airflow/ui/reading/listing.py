"""All runs, each in one row. A row needs no more than the state of a few small files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kafkats_airflow.approvals.recorded import CanaryQuestion, Question
from kafkats_airflow.reading.files import Unreadable, model
from kafkats_airflow.reading.records import Answer, Report
from kafkats_airflow.reading.runs import SILENT_MS, Found, overview_of, progress_of, unless_changed
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.runs.progress import Live
from kafkats_airflow.runs.started import Started
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading import canary
from kafkats_airflow.ui.reading.beginning import of_overview, started_by
from kafkats_airflow.ui.reading.run import Over

State: TypeAlias = Literal[
    "asks", "failed", "unreadable", "silent", "running", "rejected", "dry", "ended", "unknown"
]
WORDS: Final[Mapping[State, str]] = {
    "asks": "waiting",
    "failed": "failed",
    "unreadable": "report cannot be read",
    "silent": "silent",
    "running": "running",
    "rejected": "rejected",
    "dry": "dry run",
    "ended": "succeeded",
    "unknown": "no report",
}
"""State -> its words on the page, from those that need a person to those that do not."""
_LONGEST: Final = 160
"""Characters of a failure that the list shows."""
NEEDING: Final = frozenset({"asks", "failed", "unreadable", "silent"})
"""States in which a run needs a person, unless a later run of its DAG has ended well."""
Sort: TypeAlias = Literal["need", "dag", "run", "state", "when", "lasted"]


OVER: Final = (
    "marked or deleted in Airflow while it asked: nothing was written, and the next run takes over"
    " its reservation"
)


class RunRow(NamedTuple):
    """A run. `name` is Airflow's id of it, or its folder's name where no file tells the id.

    `at_ms` is when it ended, or said its last word. `live` are the jobs that run. `until_ms` is the
    deadline of the question, `silence` what counts without an answer. `task_id` is that of a
    question without a plan: Airflow's own form answers it. `volumes` are {log directory: broker}.
    """

    dag_id: str
    name: str
    state: State
    at_ms: int
    said: str
    volumes: Mapping[str, str]
    live: Sequence[Live] = ()
    until_ms: int | None = None
    silence: str = ""
    task_id: str = ""
    started: Started = Started()

    @property
    def is_over(self) -> bool:
        """Return whether the run has ended, as its report or its question says."""
        return self.state in {"failed", "rejected", "dry", "ended"}

    @property
    def lasted_ms(self) -> int | None:
        """Return how long it took to its report, None if it has not ended or no file tells."""
        began = self.started.began_ms
        if not self.is_over or began is None or began > self.at_ms:
            return None
        return self.at_ms - began


def rows_of(found: Iterable[Found], now_ms: int, over: Over) -> list[RunRow]:
    """Return the rows: first the runs that need a person, then those that run, then the newest."""
    rows = [
        unless_changed(one, now_ms, "row", partial(_row, one, now_ms), lambda row: row.is_over)
        for one in found
    ]
    closed = over([(row.dag_id, row.name) for row in rows if row.state == "asks"])
    rows = [_closed(row) if (row.dag_id, row.name) in closed else row for row in rows]
    first = {(row.dag_id, row.name) for row in needing(rows)}
    return sorted(
        rows,
        key=lambda row: (
            (row.dag_id, row.name) not in first,
            row.state != "running",
            -row.at_ms,
        ),
    )


def _closed(row: RunRow) -> RunRow:
    """Return the row of a run that Airflow says is over, or gone, although it asks."""
    return row._replace(state="unknown", said=OVER, until_ms=None, silence="", task_id="")


def sorted_by(rows: list[RunRow], sort: Sort, *, up: bool) -> list[RunRow]:
    """Return the rows in another order; `up`: the least first. Rows without the figure go last."""
    if sort == "need":
        return rows
    keys: dict[str, Callable[[RunRow], Any]] = {
        "dag": lambda row: row.dag_id,
        "run": lambda row: row.started.began_ms or row.at_ms,
        "state": lambda row: list(WORDS).index(row.state),
        "when": lambda row: row.at_ms,
        "lasted": lambda row: row.lasted_ms,
    }
    known = [row for row in rows if keys[sort](row) is not None]
    unknown = [row for row in rows if keys[sort](row) is None]
    return sorted(known, key=keys[sort], reverse=not up) + unknown


def needing(rows: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs that need a person. An old failure does not: a later run did the work. A dry
    run has done that of dry runs only.
    """
    found = list(rows)
    well: dict[tuple[str, bool], int] = {}
    for row in found:
        if row.state in {"ended", "rejected", "dry"}:
            for dry in (True, False) if row.state != "dry" else (True,):
                key = row.dag_id, dry
                well[key] = max(row.at_ms, well.get(key, 0))
    return [
        row
        for row in found
        if row.state in NEEDING
        and (
            row.state in {"asks", "silent"}
            or row.at_ms >= well.get((row.dag_id, row.started.dry_run), 0)
        )
    ]


def counted(rows: Iterable[RunRow]) -> dict[State, int]:
    """Count the runs in each state."""
    counts: dict[State, int] = dict.fromkeys(WORDS, 0)
    for row in rows:
        counts[row.state] += 1
    return counts


def _row(found: Found, now_ms: int) -> RunRow:
    overview = overview_of(found.folder)
    live = [one for one in progress_of(found.folder) if isinstance(one, Live)]
    name = next((one.run_id for one in live), found.folder.name)
    row = RunRow(found.dag_id, name, "unknown", found.changed_ms, "", {})
    running = [one for one in live if one.state == "running"]
    heard = max((one.written_ms for one in running), default=0)
    told = max((one.written_ms for one in live), default=0)
    if isinstance(overview, Overview) and overview.written_ms >= max(heard, told):
        return _reported(found, overview, now_ms)
    if running:
        state: State = "silent" if now_ms - heard > SILENT_MS else "running"
        return _begun(row, started_by(live))._replace(state=state, at_ms=heard, live=running)
    if isinstance(overview, Unreadable):
        return _unreadable(row, overview)
    row = _without_overview(found, row, live, now_ms)
    if row.state != "asks" and isinstance(overview, Overview):
        return _reported(found, overview, now_ms)
    return row


def _begun(row: RunRow, started: Started, log_dirs: Iterable[str] = ()) -> RunRow:
    """Return the row with its start and its log directories: those, else what its start names."""
    volumes = {one: started.volumes.get(one, "") for one in log_dirs} or started.volumes
    return row._replace(started=started, volumes=volumes)


def _unreadable(row: RunRow, file: Unreadable) -> RunRow:
    return row._replace(state="unreadable", said=f"{file.path.name}: {file.why}")


def _asking(row: RunRow, asked: Question | CanaryQuestion, said: str) -> RunRow:
    """Return the row of a run whose question waits for an answer."""
    return row._replace(
        state="asks",
        at_ms=asked.asked_ms,
        said=said,
        until_ms=asked.until_ms,
        silence=asked.silence(),
    )


def _reported(found: Found, overview: Overview, now_ms: int) -> RunRow:
    """Return the row of a run with its report, which may still ask about a canary."""
    row = _ended(found.dag_id, overview)
    if row.state == "dry":
        row = row._replace(said=_planned(found.folder) or _expired(overview) or row.said)
    question = canary.question_of(found.folder)
    if isinstance(question, Unreadable):
        unread = _unreadable(row, question)
        return unread._replace(said=f"{row.said}; {unread.said}")
    if asked := canary.waiting(question, overview.written_ms, now_ms):
        return _asking(row, asked, canary.ASKS)._replace(task_id=asked.task_id)
    return row


def _ended(dag_id: str, overview: Overview) -> RunRow:
    started = of_overview(overview)
    state: State = "dry" if started.dry_run else "ended"
    if overview.outcome.startswith("rejected"):
        state = "rejected"
    if overview.failed:
        state = "failed"
    said = overview.outcome + (f": {_short(overview.why)}" if overview.why else "")
    row = RunRow(dag_id, overview.run_id, state, overview.written_ms, said, {})
    return _begun(row, started, (one.log_dir for one in overview.volumes))


def _planned(folder: Path) -> str:
    """Return what a dry run would have done, "" where its report names no plan."""
    report = model(folder / "report.json", Report)
    totals = [one.totals for one in report.plans] if isinstance(report, Report) else []
    if not totals:
        return ""
    sums = {
        what: sum(getattr(one, name) or 0 for one in totals)
        for name, what in (
            ("write_bytes", "to write"),
            ("cut_bytes", "to cut off"),
            ("dropped_bytes", "to drop"),
            ("freed_bytes", "to free"),
        )
    }
    files, blocked = (sum(getattr(one, name) for one in totals) for name in ("files", "blocked"))
    partitions = words.plural(sum(one.partitions for one in totals), "partition")
    parts = [
        f"would change {words.plural(files, 'file')} in {partitions}"
        if files
        else "would change nothing",
        *(f"{words.of_bytes(many)} {what}" for what, many in sums.items() if many),
        *([f"{words.plural(blocked, 'row')} blocked"] if blocked else []),
    ]
    return ", ".join(parts)


def _expired(overview: Overview) -> str:
    """Return what retention found, "" for a run that did not look for it."""
    known = [one.reclaimable.now_bytes for one in overview.volumes if one.reclaimable is not None]
    return f"{words.of_bytes(sum(known))} can be deleted now" if known else ""


def _short(why: str) -> str:
    """Return the beginning of a sentence: the run's page has all of it."""
    return why if len(why) <= _LONGEST else f"{why[:_LONGEST].rstrip()} …"


def _without_overview(found: Found, row: RunRow, live: Sequence[Live], now_ms: int) -> RunRow:
    question = model(found.folder / "question.json", Question)
    answer = model(found.folder / "approval.json", Answer)
    report = model(found.folder / "report.json", Report)
    for one in (question, answer):
        if isinstance(one, (Question, Answer)) and one.run_id:
            row = row._replace(name=one.run_id)
    for bad in (question, answer, report):
        if isinstance(bad, Unreadable):
            return _unreadable(row, bad)
    begun = started_by([*([question] if isinstance(question, Question) else []), *live])
    if isinstance(question, Question) and answer is None and now_ms <= question.until_ms:
        log_dirs = (one for plan in question.plans for one in plan.log_dirs)
        return _asking(_begun(row, begun, log_dirs), question, f"{question.asks()}?")
    if isinstance(report, Report):
        state: State = "rejected" if report.outcome.startswith("rejected") else "ended"
        return _begun(row, begun, report.volumes)._replace(
            state="failed" if report.failures else state,
            said=": ".join([report.outcome, *map(_short, report.failures[:1])]),
        )
    if live:
        last = max(live, key=lambda one: one.written_ms)
        state = "failed" if any(one.state == "failed" for one in live) else "running"
        said = f"{last.task} {last.state}"
        return _begun(row, begun)._replace(state=state, at_ms=last.written_ms, said=said)
    return row
