"""All runs, each in one row. A row needs no more than the state of a few small files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from kafkats_airflow.overview import Overview
from kafkats_airflow.progress import Live
from kafkats_airflow.ui.reading import records
from kafkats_airflow.ui.reading.files import Unreadable, cached
from kafkats_airflow.ui.reading.records import Answer, Question, Report
from kafkats_airflow.ui.reading.runs import SILENT_MS, Found, overview_of, progress_of

State: TypeAlias = Literal["asks", "failed", "unreadable", "silent", "running", "ended", "unknown"]
WORDS: Final[Mapping[State, str]] = {
    "asks": "waits for an answer",
    "failed": "failed",
    "unreadable": "report cannot be read",
    "silent": "silent",
    "running": "running",
    "ended": "ended",
    "unknown": "no report",
}
"""State -> its words on the page, from those that need a person to those that do not."""
NEEDING: Final = frozenset({"asks", "failed", "unreadable", "silent"})
"""States in which a run needs a person, unless a later run of its DAG has ended well."""


class RunRow(NamedTuple):
    """A run. `name` is Airflow's id of it, or its folder's name where no file tells the id.

    `live` are the jobs that run. `until_ms` is the deadline of the question.
    """

    dag_id: str
    name: str
    state: State
    at_ms: int
    said: str
    volumes: int | None
    live: Sequence[Live] = ()
    until_ms: int | None = None


def rows_of(found: Iterable[Found], now_ms: int) -> list[RunRow]:
    """Return the rows: first the runs that need a person, then those that run, then the newest."""
    rows = [_row(one, now_ms) for one in found]
    first = {(row.dag_id, row.name) for row in needing(rows)}
    return sorted(
        rows,
        key=lambda row: (
            (row.dag_id, row.name) not in first,
            row.state != "running",
            -row.at_ms,
        ),
    )


def needing(rows: Iterable[RunRow]) -> list[RunRow]:
    """Return the runs that need a person. An old failure does not: a later run did the work."""
    found = list(rows)
    well: dict[str, int] = {}
    for row in found:
        if row.state == "ended":
            well[row.dag_id] = max(row.at_ms, well.get(row.dag_id, 0))
    return [
        row
        for row in found
        if row.state in NEEDING
        and (row.state in {"asks", "silent"} or row.at_ms >= well.get(row.dag_id, 0))
    ]


def counted(rows: Iterable[RunRow]) -> dict[State, int]:
    """Count the runs in each state."""
    counts: dict[State, int] = dict.fromkeys(WORDS, 0)
    for row in rows:
        counts[row.state] += 1
    return counts


def _row(found: Found, now_ms: int) -> RunRow:
    folder, dag_id = found.folder, found.dag_id
    overview, live = (
        overview_of(folder),
        [one for one in progress_of(folder) if isinstance(one, Live)],
    )
    name = next((one.run_id for one in live), folder.name)
    running = [one for one in live if one.state == "running"]
    heard = max((one.written_ms for one in running), default=0)
    if isinstance(overview, Overview) and overview.written_ms >= heard:
        state: State = "failed" if overview.failed else "ended"
        said, volumes = overview.outcome, len(overview.volumes)
        return RunRow(dag_id, overview.run_id, state, overview.written_ms, said, volumes)
    if running:
        state = "silent" if now_ms - heard > SILENT_MS else "running"
        return RunRow(dag_id, name, state, heard, "", None, running)
    if isinstance(overview, Unreadable):
        why = f"{overview.path.name}: {overview.why}"
        return RunRow(dag_id, name, "unreadable", found.changed_ms, why, None)
    return _without_overview(found, name, live, now_ms)


def _without_overview(found: Found, name: str, live: Sequence[Live], now_ms: int) -> RunRow:
    folder, dag_id = found.folder, found.dag_id
    question = cached(folder / "question.json", records.parse_question)
    answer = cached(folder / "approval.json", records.parse_answer)
    report = cached(folder / "report.json", records.parse_report)
    for one in (question, answer):
        if isinstance(one, (Question, Answer)) and one.run_id:
            name = one.run_id
    for bad in (question, answer, report):
        if isinstance(bad, Unreadable):
            why = f"{bad.path.name}: {bad.why}"
            return RunRow(dag_id, name, "unreadable", found.changed_ms, why, None)
    if isinstance(question, Question) and answer is None and now_ms <= question.until_ms:
        files = sum(one.totals.files for one in question.plans)
        said = f"may {files} files be changed?"
        return RunRow(dag_id, name, "asks", question.asked_ms, said, None, (), question.until_ms)
    if isinstance(report, Report):
        return RunRow(
            dag_id,
            name,
            "failed" if report.failures else "ended",
            found.changed_ms,
            report.outcome,
            len(report.volumes),
        )
    if live:
        last = max(live, key=lambda one: one.written_ms)
        failed = any(one.state == "failed" for one in live)
        said = f"{last.task} {last.state}"
        return RunRow(dag_id, name, "failed" if failed else "running", last.written_ms, said, None)
    return RunRow(dag_id, name, "unknown", found.changed_ms, "", None)
