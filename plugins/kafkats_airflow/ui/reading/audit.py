"""The audit of all runs: who triggered, approved, rejected, undid, purged or released, and when.

Every line comes from a file that a task, a job or the command line wrote at that time: question,
answer, RUN, its end, and the result of a release. A line whose file names nobody says how it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from kafkats_airflow.reading.files import changed_ms, listed, model
from kafkats_airflow.reading.records import Change
from kafkats_airflow.reading.runs import Found
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading.beginning import starter
from kafkats_airflow.ui.reading.run import Detail, detail_of

Verb: TypeAlias = Literal[
    "asked", "approved", "rejected", "no question", "wrote", "undid", "purged", "released"
]
LOOKED_AT: Final = 2000
"""Runs whose files are read for the page: it waits for no more."""
_NOBODY: Final = "nobody"


class Event(NamedTuple):
    """Something that a person or a run decided or did. `by` is "" where no file names anybody."""

    at_ms: int
    verb: Verb
    by: str
    dag_id: str
    run_id: str
    what: str
    log_dirs: tuple[str, ...] = ()


class _Released(BaseModel):
    log_dir: str
    outcome: str


class _Result(BaseModel):
    released: list[_Released] = []


def events_of(found: Iterable[Found]) -> list[Event]:
    """Return the events of these runs, the newest first."""
    details = [(one.dag_id, detail_of(one.folder)) for one in list(found)[:LOOKED_AT]]
    ends = dict(_ends(details))
    events = [event for dag_id, run in details for event in _of_run(dag_id, run, ends)]
    return sorted(events, key=lambda one: (-one.at_ms, one.dag_id, one.run_id))


def _ends(details: Iterable[tuple[str, Detail]]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((folder, verb), who) of the runs that undid or purged another run's RUNs."""
    for _, run in details:
        if run.report is not None and run.report.of:
            yield (Path(run.report.of).name, run.report.verb), _by(run)


def _by(run: Detail) -> str:
    """Return who started a run, and who approved it, if that was another person."""
    people = [starter(run.run_id or run.folder.name, run.started).removeprefix("by ")]
    if run.answer is not None and run.answer.by not in {"", _NOBODY, *people}:
        people.append(f"approved by {run.answer.by}")
    return ", ".join(filter(None, people))


def _of_run(dag_id: str, run: Detail, ends: Mapping[tuple[str, str], str]) -> Iterator[Event]:
    run_id, log_dirs, by = run.run_id or run.folder.name, tuple(run.volumes), _by(run)

    def event(at_ms: int, verb: Verb, who: str, what: str) -> Event:
        return Event(at_ms, verb, who, dag_id, run_id, what, log_dirs)

    if (question := run.question) is not None:
        who = starter(run_id, question.started).removeprefix("by ")
        yield event(question.asked_ms, "asked", who, f"{question.asks()}?")
    if (answer := run.answer) is not None:
        yes: Verb = "approved" if answer.digests else "rejected"
        who = answer.by if answer.by != _NOBODY else "nobody in time"
        digests = ", ".join(digest[:16] for digest in answer.digests)
        what = f"{answer.option}: {digests}" if digests else answer.option
        verb = yes if answer.by else "no question"
        yield event(answer.answered_ms, verb, who, what if answer.by else answer.why)
    if run.canary is not None and run.canary.answered_ms is not None:
        verb = "rejected" if run.canary.option == "Reject" else "approved"
        who = run.canary.by or "nobody in time"
        yield event(run.canary.answered_ms, verb, who, "the canary of a migration")
    for change in run.changes:
        what = f"RUN {change.folder.name}: {change.operation}"
        files = words.plural(sum(change.outcomes.values()), "file")
        yield event(change.began_ms, "wrote", by, f"{what}, {files}")
        yield from _ended(change, what, ends, event(0, "wrote", "", ""))
    for path in listed(run.folder, "jobs/release-*/result.json"):
        of = Path(run.report.of).name if run.report else ""
        whose = f"the reservation of {of}" if of else "its reservation"
        yield from _released(path, event(0, "released", by, whose))


def _ended(
    change: Change, what: str, ends: Mapping[tuple[str, str], str], like: Event
) -> Iterator[Event]:
    """Yield the end of a RUN. Without a run that did it: the command line, or its own DAG."""
    folder = change.folder.parents[1].name
    if change.undone_ms is not None:
        who = ends.get((folder, "undo"), "")
        yield like._replace(at_ms=change.undone_ms, verb="undid", by=who, what=what)
    if change.purged_ms is not None:
        who = ends.get((folder, "purge"), "")
        freed = f"{what}, {words.of_bytes(change.freed_bytes)} freed"
        yield like._replace(at_ms=change.purged_ms, verb="purged", by=who, what=freed)


def _released(path: Path, like: Event) -> Iterator[Event]:
    result, at_ms = model(path, _Result), changed_ms(path)
    if not isinstance(result, _Result) or at_ms is None:
        return
    freed = tuple(one.log_dir for one in result.released if one.outcome == "released")
    if freed:
        yield like._replace(at_ms=at_ms, log_dirs=freed)
