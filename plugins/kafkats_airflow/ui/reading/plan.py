"""The plans of a run, and the question about them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from kafkats_airflow.approvals.recorded import Plan
from kafkats_airflow.approvals.stakes import together
from kafkats_airflow.reading.files import Unreadable, cached, json_of, listed
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading.run import OVER, Detail

Standing = Literal["not asked", "waiting", "answered", "expired", "closed"]


class Made(NamedTuple):
    """A plan of a run. `folder` is None if its rows are not here: RUNs are undone, or the folder is
    another run's. `options`: the answers that let it be applied.
    """

    plan: Plan
    folder: Path | None
    operation: str
    options: tuple[str, ...]
    planned_ms: int | None
    applied: bool


def plans_of(run: Detail) -> list[Made]:
    """Return the plans that a run asks or asked about; else those of its report; else those that
    have been made so far.
    """
    if run.question is not None and run.question.plans:
        named = run.question.plans
    elif run.report is not None and run.report.plans:
        named = run.report.plans
    else:
        read = [cached(path, _parse) for path in listed(run.folder, "*/plan-*/plan.json")]
        named = [one for one in read if isinstance(one, Plan)]
    options = run.question.options if run.question else {}
    return [_made(run, one, options) for one in named]


def _made(run: Detail, plan: Plan, options: dict[str, list[str]]) -> Made:
    folder = _inside(run.folder, Path(plan.plan))
    path = folder / "plan.json" if folder else None
    header = cached(path, _header) if path else None
    operation, planned_ms = "", None
    if header is not None and not isinstance(header, Unreadable):
        operation, planned_ms = header
    applied = any(one.digest == plan.digest for one in run.changes)
    allowing = tuple(option for option, digests in options.items() if plan.digest in digests)
    return Made(plan, folder, operation, allowing, planned_ms, applied)


def _inside(run: Path, plan: Path) -> Path | None:
    """Return the plan's folder if it lies in that of its run, links followed."""
    try:
        found = plan.resolve()
        return found if found.is_relative_to(run.resolve()) and found.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _parse(path: Path) -> Plan:
    """Parse plan.json. Raises ValueError, OSError."""
    return Plan.model_validate({**json_of(path), "plan": str(path.parent)})


def _header(path: Path) -> tuple[str, int]:
    """Return the operation, and the time of the plan in epoch ms. Raises ValueError, OSError."""
    return str(json_of(path).get("operation", "")), path.stat().st_mtime_ns // 1_000_000


def sentence(made: Made) -> str:
    """Return what applying a plan does."""
    if made.folder is None and not made.operation:
        return f"{words.plural(made.plan.totals.files, 'file')} of RUNs that were written before."
    totals, operation = made.plan.totals, made.operation or made.plan.operation
    does = together([made.plan.stake()._replace(operation=operation)])
    said = f"{does or 'Nothing is to be done'}."
    if totals.read_bytes:
        said += f" {words.of_bytes(totals.read_bytes)} of logs are read."
    if totals.freed_bytes:
        said += " The old files stay in the undo area until a purge frees them."
    if totals.blocked:
        verb = "is" if totals.blocked == 1 else "are"
        said += f" {words.plural(totals.blocked, 'row')} {verb} blocked: nothing is done there."
    return said


def standing(run: Detail, now_ms: int) -> Standing:
    """Return what has become of the question of a run."""
    if run.answer is not None:
        return "answered"
    if run.question is None:
        return "not asked"
    if run.over:
        return "closed"
    return "waiting" if now_ms <= run.question.until_ms else "expired"


def refusal(run: Detail, digest: str, now_ms: int) -> str:
    """Return why the question about `digest` cannot be answered any more, "" if it can."""
    question = run.question
    if question is None:
        return "This run asks nothing: it was cleared since, or has not come to its question."
    if not question.digest:
        return "An earlier version asked this question: answer it in Airflow's required actions."
    if question.digest != digest:
        return (
            f"This run was cleared since: it asks about plan {question.digest[:16]} now, not about"
            f" {digest[:16]}. Nothing was answered. Load the page again."
        )
    if run.answer is not None:
        by = run.answer.by or "nobody"
        return f"Already answered: {run.answer.option}, by {by}."
    if run.over:
        return f"Nothing was answered: {OVER}."
    if now_ms > question.until_ms:
        return "The time for an answer is over."
    return ""


def unreadable_of(run: Detail) -> list[Unreadable]:
    """Return the files of the question that cannot be read."""
    return [one for one in run.unreadable if one.path.name in {"question.json", "approval.json"}]
