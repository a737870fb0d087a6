"""The small JSON files of a run's folder as models. Fields of later versions are ignored."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from kafkats_airflow.approvals.recorded import Plan
from kafkats_airflow.reading.files import Unreadable, changed_ms, listed, model


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Answer(_Record):
    """approval.json. `by` is "" where nobody had to be asked."""

    option: str
    digests: list[str]
    by: str
    why: str
    answered_ms: NonNegativeInt
    run_id: str = ""


class Report(_Record):
    """report.json: the fields that pages show. `verb` is what end_run did to the run with the
    folder `of`, "" for other DAGs.
    """

    outcome: str
    failures: list[str] = []
    remarks: list[str] = []
    volumes: list[str] = []
    plans: list[Plan] = []
    verb: str = ""
    of: str = ""


class _RunJson(_Record):
    operation: str
    run_id: str
    digest: str


class _RunReport(_Record):
    exit_code: int = 0
    outcomes: dict[str, NonNegativeInt] = {}


class _Proof(_Record):
    files: NonNegativeInt = 0


class At(_Record):
    """undone.json or purge.json of a RUN."""

    at_ms: NonNegativeInt
    freed_bytes: NonNegativeInt = 0


class Change(NamedTuple):
    """A RUN: the changes of one application, and their ends. None: that has not happened."""

    folder: Path
    operation: str
    run_id: str
    digest: str
    began_ms: int
    ended_ms: int | None
    complete: bool
    outcomes: dict[str, int]
    proved: int | None
    undone_ms: int | None
    purged_ms: int | None
    freed_bytes: int


def changes_of(folder: Path) -> list[Change | Unreadable]:
    """Return the RUNs of a DAG run, the earliest first, then those that cannot be read."""
    found = [_change(run.parent) for run in listed(folder, "*/run-*/run.json")]
    return sorted(found, key=lambda one: (isinstance(one, Change), getattr(one, "began_ms", 0)))


def _change(run: Path) -> Change | Unreadable:
    begun = model(run / "run.json", _RunJson)
    if begun is None or isinstance(begun, Unreadable):
        return begun or Unreadable(run / "run.json", "it is gone")
    ended = model(run / "report.json", _RunReport)
    proof = model(run / "proof.json", _Proof)
    undone = model(run / "undone.json", At)
    purged = model(run / "purge.json", At)
    for one in (ended, proof, undone, purged):
        if isinstance(one, Unreadable):
            return one
    names = ("run.json", "report.json", "proof.json")
    began_ms, ended_ms, proved_ms = (changed_ms(run / name) or 0 for name in names)
    fresh = isinstance(proof, _Proof) and proved_ms >= max(began_ms, ended_ms)
    return Change(
        folder=run,
        operation=begun.operation,
        run_id=begun.run_id,
        digest=begun.digest,
        began_ms=began_ms,
        ended_ms=ended_ms if isinstance(ended, _RunReport) else None,
        complete=isinstance(ended, _RunReport) and ended.exit_code == 0,
        outcomes=dict(ended.outcomes) if isinstance(ended, _RunReport) else {},
        proved=proof.files if fresh and isinstance(proof, _Proof) else None,
        undone_ms=undone.at_ms if isinstance(undone, At) else None,
        purged_ms=purged.at_ms if isinstance(purged, At) else None,
        freed_bytes=purged.freed_bytes if isinstance(purged, At) else 0,
    )
