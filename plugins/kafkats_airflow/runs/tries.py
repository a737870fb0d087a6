"""The tries of a DAG run: clearing a run makes a new plan, and keeps what earlier tries wrote.

The plan of each try has its own RUN beside it. The Work of an application is what is still to be
applied. What is to be proved is decided when `verify` begins, from the RUNs that exist then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from kafkats_airflow.airflow_versions import AirflowSkipException
from kafkats_airflow.results import Arguments, Asked, PlanName, PlanResult, Work
from kafkats_airflow.runs.folders import run_of

if TYPE_CHECKING:
    from kafkats.logdir.strict_json import Json

Ending = Literal["unfinished", "rejected", "nothing", "proved"]


class Try(NamedTuple):
    """A RUN. `complete`: nothing was refused or failed. `proved`: files proved since, -1: not
    proved.
    """

    run: Path
    complete: bool
    undone: bool
    proved: int


def tries_in(*folders: Path) -> list[Try]:
    """Return the RUNs in these folders of applications, the earliest first."""
    runs = {
        run.parent: run.stat().st_mtime_ns
        for folder in folders
        for run in folder.glob("run-*/run.json")
    }
    return [_try(run) for run in sorted(runs, key=lambda run: (runs[run], run.name))]


def tries_of(folder: Path) -> list[Try]:
    """Return the RUNs of the DAG run with this folder."""
    return tries_in(*(one for one in sorted(folder.glob("*")) if one.is_dir()))


def work_of(
    conn_id: str, plan: PlanResult, proof: Mapping[str, dict[str, Any]], *, writes: bool
) -> Work | None:
    """Return the Work of one application; None if nothing is to be written and nothing was."""
    folder = Path(plan["plan"]).parent
    if not writes and not tries_in(folder):
        return None
    return {
        "conn_id": conn_id,
        "folder": str(folder),
        "log_dirs": list(plan["log_dirs"]),
        "plan": plan if writes else None,
        "proof": dict(proof),
    }


def to_apply(work: Work) -> Arguments:
    """Return arguments of WriteJobOperator; skip an application whose new plan writes nothing."""
    if not (plan := work["plan"]):
        raise AirflowSkipException("the plan of this try writes nothing")
    return {"conn_id": work["conn_id"], "plan": name_of(plan)}


def name_of(plan: PlanResult) -> PlanName:
    """Return the fields that name a plan."""
    return {"plan": plan["plan"], "digest": plan["digest"], "log_dirs": plan["log_dirs"]}


def to_prove(work: Work) -> Arguments:
    """Return arguments of the verify job for all unproved RUNs; skip an application without one."""
    if not (runs := unproved(Path(work["folder"]))):
        raise AirflowSkipException("nothing was written that is not proved yet")
    if isinstance(proof := work["proof"], list):  # the job refuses what an earlier version made
        return {"conn_id": work["conn_id"], "application_args": proof}
    report = str(Path(work["folder"], "after"))
    options = {**proof, "ProofOptions": {"of_run": runs}, "Report": {"report": report}}
    asked: Asked = {"log_dirs": work["log_dirs"], "options": options}
    return {"conn_id": work["conn_id"], "request": asked}


def unproved(folder: Path) -> list[str]:
    """Return the unproved RUNs, the earliest first."""
    return [str(one.run) for one in tries_in(folder) if not one.undone and one.proved < 0]


def ending(folder: Path, plans: Sequence[PlanResult], *, rejected: bool) -> Ending:
    """Return how a DAG run ended. `plans` are all plans of its last try.

    "proved": what they write is done and proved, and so is what earlier tries wrote.
    """
    tries = tries_of(folder)
    if any(not one.undone and one.proved < 0 for one in tries):
        return "unfinished"
    if rejected:
        return "rejected"
    done = {one.run for one in tries if one.complete}
    if any(plan["totals"]["files"] and run_of(plan) not in done for plan in plans):
        return "unfinished"
    return "proved" if any(not one.undone and one.proved for one in tries) else "nothing"


def rejected(folder: Path) -> bool:
    """Return whether the answer rejected all plans of this DAG run."""
    from kafkats.plans.approval import read_approval

    found = read_approval(folder / "approval.json")
    return found is not None and not found.digests and bool(found.by)


class TryFields(TypedDict):
    """The fields of every report about tries."""

    runs: list[str]
    undone: list[str]
    files_proved: int


def fields_of(folder: Path) -> TryFields:
    """Return the fields of every report about tries: RUNs, undone RUNs, proved files."""
    tries = tries_of(folder)
    return {
        "runs": [str(one.run) for one in tries],
        "undone": [str(one.run) for one in tries if one.undone],
        "files_proved": sum(one.proved for one in tries if not one.undone and one.proved > 0),
    }


def _try(run: Path) -> Try:
    summary, proof = _content(run / "report.json"), _content(run / "proof.json")
    fresh = proof is not None and _written_ns(run / "proof.json") >= max(
        _written_ns(run / "run.json"), _written_ns(run / "report.json")
    )
    complete = summary is not None and summary.get("exit_code") == 0
    files = _number(proof, "files") if proof is not None and fresh else -1
    return Try(run, complete, (run / "undone.json").exists(), files)


def _content(path: Path) -> dict[str, Json] | None:
    with suppress(OSError, ValueError):
        found: Json = json.loads(path.read_bytes())
        return found if isinstance(found, dict) else None
    return None


def _number(content: Mapping[str, Json], name: str) -> int:
    """Return a count; -1, as if there was no file, for anything else."""
    found = content.get(name)
    return found if isinstance(found, int) else -1


def _written_ns(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0
