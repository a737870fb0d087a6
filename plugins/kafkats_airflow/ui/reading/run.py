"""One DAG run: its stages from plan to the end of its undo window, and where it is now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from kafkats_airflow.approvals.recorded import CanaryQuestion, Question
from kafkats_airflow.reading.files import Unreadable, model
from kafkats_airflow.reading.records import Answer, Change, Report, changes_of
from kafkats_airflow.reading.runs import SILENT_MS, overview_of, progress_of
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.runs.progress import Live
from kafkats_airflow.runs.started import Started
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading import canary
from kafkats_airflow.ui.reading.beginning import of_overview, started_by

State: TypeAlias = Literal[
    "not begun",
    "running",
    "silent",
    "waiting",
    "open",
    "done",
    "failed",
    "rejected",
    "not needed",
]
STAGES: Final[Mapping[str, str]] = {
    "preflight": "Plan",
    "plan": "Plan",
    "census": "Plan",
    "inventory": "Plan",
    "lookup": "Look up",
    "apply": "Apply",
    "undo": "Apply",
    "verify": "Proof",
    "certify": "Proof",
    "purge": "Purge",
    "release": "Release",
}
"""Job -> the stage to which it belongs."""
TASKS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("applications", "starts", "preflight", "plan", "gate", "changes"), "Plan"),
    **dict.fromkeys(("tables", "build", "look", "write"), "Look up"),
    **dict.fromkeys(("approve", "approve_canary"), "Approval"),
    **dict.fromkeys(("apply", "convert", "undo"), "Apply"),
    **dict.fromkeys(("verify", "parity", "certify", "record"), "Proof"),
    **dict.fromkeys(("due", "purge"), "Purge"),
    "release": "Release",
}
"""Task -> the stage that has failed if it has; that of a report for others."""


class Stage(NamedTuple):
    """A stage of a run. `until_ms`: the deadline of a question, or of an undo window. `silence` is
    what counts without an answer. `task_id` is that of a question that Airflow's own form answers.
    """

    name: str
    state: State
    at_ms: int | None
    said: str
    until_ms: int | None = None
    live: Sequence[Live] = ()
    silence: str = ""
    task_id: str = ""


Over: TypeAlias = Callable[[Collection[tuple[str, str]]], Collection[tuple[str, str]]]
"""Tells which of the runs (DAG id, run id) Airflow says are over, or does not know."""
OVER: Final = "the run was marked or deleted in Airflow while it asked"


class Failure(NamedTuple):
    """A task that failed, "" where no task is known, and its sentence."""

    task: str
    why: str


class Detail(NamedTuple):
    """A run's folder, read. None: there is no such file. `stale`: overview.json is of an earlier
    try than report.json. `over`: Airflow says that the run is over, or does not know it.
    """

    folder: Path
    overview: Overview | None
    report: Report | None
    question: Question | None
    answer: Answer | None
    canary: CanaryQuestion | None
    live: list[Live]
    changes: list[Change]
    unreadable: list[Unreadable]
    over: bool = False

    @property
    def run_id(self) -> str:
        """Airflow's id of the run, "" where no file tells it."""
        known = (self.overview, self.answer, self.question, *self.live)
        return next((one.run_id for one in known if one is not None and one.run_id), "")

    @property
    def started(self) -> Started:
        """The start of the run."""
        if self.overview is not None:
            return of_overview(self.overview)
        return started_by([*([self.question] if self.question else []), *self.live])

    @property
    def failures(self) -> list[Failure]:
        """The failures of the run's report; none while a later try runs."""
        if self.report is None or _of_earlier_try(self):
            return []
        return [_failure(one) for one in self.report.failures]

    @property
    def volumes(self) -> dict[str, str]:
        """{log directory: broker}, "" for a broker that the run's files do not tell."""
        known = self.started.volumes
        seen = [one.log_dir for one in self.overview.volumes] if self.overview else []
        plans = self.question.plans if self.question else []
        asked = [log_dir for plan in plans for log_dir in plan.log_dirs]
        reported = self.report.volumes if self.report else []
        return {one: known.get(one, "") for one in seen or asked or reported} or known


def _failure(line: str) -> Failure:
    task, _, why = line.partition(": ")
    return Failure(task, why) if why and task.isidentifier() else Failure("", line)


def known_to(folder: Path, dag_id: str, over: Over) -> Detail:
    """Return the run of a folder. If its question is open, ask `over` whether the run has ended."""
    run = detail_of(folder)
    open_plan = run.question is not None and run.question.run_id and run.answer is None
    open_canary = run.canary is not None and run.canary.answered_ms is None
    if not (open_plan or open_canary):
        return run
    return run._replace(over=bool(over([(dag_id, run.run_id)])))


def detail_of(folder: Path) -> Detail:
    """Read the folder of a run. What cannot be read is listed, and left out."""
    overview = overview_of(folder)
    report = model(folder / "report.json", Report)
    question = model(folder / "question.json", Question)
    answer = model(folder / "approval.json", Answer)
    asked = canary.question_of(folder)
    live, changes = progress_of(folder), changes_of(folder)
    every = (overview, report, question, answer, asked, *live, *changes)
    return Detail(
        folder=folder,
        overview=overview if isinstance(overview, Overview) else None,
        report=report if isinstance(report, Report) else None,
        question=question if isinstance(question, Question) else None,
        answer=answer if isinstance(answer, Answer) else None,
        canary=asked if isinstance(asked, CanaryQuestion) else None,
        live=[one for one in live if isinstance(one, Live)],
        changes=[one for one in changes if isinstance(one, Change)],
        unreadable=[one for one in every if isinstance(one, Unreadable)],
    )


class Ended(NamedTuple):
    """The run that a run of end_run undoes or purges. `name` is that of its folder."""

    dag_id: str
    name: str


def ended_by(run: Detail) -> Ended | None:
    """Return which run this one ends, None for a run of another DAG."""
    if run.report is None or not run.report.of:
        return None
    of = Path(run.report.of)
    return Ended(of.parent.name, of.name)


def lasted_ms(run: Detail) -> int | None:
    """Return how long a run took to its report, None if it has none or no file tells."""
    began = run.started.began_ms
    if run.overview is None or began is None or began > run.overview.written_ms:
        return None
    return run.overview.written_ms - began


def stages_of(run: Detail, now_ms: int) -> list[Stage]:
    """Return the stages of a run in their order. A stage whose task failed has failed, also if it
    left nothing else. A run that only looks up has no plan.
    """
    stages = _stages(run, now_ms)
    known = {one.name for one in stages}
    failed = dict.fromkeys(_stage_of(one, known) for one in run.failures)
    stages = [one._replace(state="failed") if one.name in failed else one for one in stages]
    at = next((n for n, one in enumerate(stages) if one.name == "Report"), len(stages))
    begun = [Stage(name, "failed", None, "") for name in failed if name not in known]
    return [*stages[:at], *begun, *stages[at:]]


def _stage_of(failure: Failure, known: Collection[str]) -> str:
    """Return the name of the stage that a failure ended; `known` are those of its run."""
    name = TASKS.get(failure.task, "Report")
    return "Plan" if name == "Look up" and "Plan" in known else name


def _stages(run: Detail, now_ms: int) -> list[Stage]:
    by_stage: dict[str, list[Live]] = {}
    for one in run.live:
        by_stage.setdefault(STAGES.get(one.job, one.job), []).append(one)
    jobs = [_of_jobs(name, live, now_ms) for name, live in by_stage.items()]
    if run.report is not None and run.report.of:  # end_run: RUNs are ended, nothing is planned
        return [_approval(run, now_ms), *jobs, _report(run)]
    looks_up = "Look up" in by_stage or (run.report is not None and not run.report.plans)
    if looks_up and not run.changes and run.question is None and "Plan" not in by_stage:
        return [*jobs, _report(run)]
    return [
        _plan(run, by_stage.get("Plan", []), now_ms),
        _approval(run, now_ms),
        _apply(run, by_stage.get("Apply", []), now_ms),
        _proof(run, by_stage.get("Proof", []), now_ms),
        _report(run),
        *([_canary(run, run.canary, now_ms)] if run.canary and run.canary.task_id else []),
        _undo(run, now_ms),
    ]


def _of_jobs(name: str, live: Sequence[Live], now_ms: int) -> Stage:
    """Return the stage of these jobs by what they told last."""
    state: State = "not begun"
    if live:
        running = [one for one in live if one.state == "running"]
        if any(one.state == "failed" for one in live):
            state = "failed"
        elif running:
            heard = max(one.written_ms for one in running)
            state = "silent" if now_ms - heard > SILENT_MS else "running"
        else:
            state = "done"
    at = max((one.written_ms for one in live), default=None)
    return Stage(name, state, at, "", live=live)


def _plan(run: Detail, live: Sequence[Live], now_ms: int) -> Stage:
    stage = _of_jobs("Plan", live, now_ms)
    plans = run.report.plans if run.report else run.question.plans if run.question else []
    if plans and stage.state in {"not begun", "done"}:
        files = sum(one.totals.files for one in plans)
        blocked = sum(one.totals.blocked for one in plans)
        left = f", {words.plural(blocked, 'row')} blocked" if blocked else ""
        change = f"{words.plural(files, 'file')} to change" if files else "nothing to change"
        return stage._replace(state="done", said=f"{change}{left}")
    return stage


def _approval(run: Detail, now_ms: int) -> Stage:
    answer, question = run.answer, run.question
    if answer is not None:
        if not answer.by:
            return Stage("Approval", "not needed", answer.answered_ms, answer.why)
        by = "nobody answered in time" if answer.by == "nobody" else f"by {answer.by}"
        state: State = "done" if answer.digests else "rejected"
        return Stage("Approval", state, answer.answered_ms, f"{answer.option}, {by}")
    if question is not None:
        return _asked(
            run, Stage("Approval", "waiting", None, "waits for a person"), question, now_ms
        )
    state = "not needed" if run.report is not None else "not begun"
    return Stage("Approval", state, None, "")


def _asked(run: Detail, stage: Stage, asked: Question | CanaryQuestion, now_ms: int) -> Stage:
    """Return the stage of a question without an answer."""
    if run.over:
        return stage._replace(state="rejected", at_ms=asked.asked_ms, said=OVER, task_id="")
    if now_ms > asked.until_ms:
        late = "nobody answered in time"
        return stage._replace(state="rejected", at_ms=asked.until_ms, said=late, task_id="")
    return stage._replace(at_ms=asked.asked_ms, until_ms=asked.until_ms, silence=asked.silence())


def _apply(run: Detail, live: Sequence[Live], now_ms: int) -> Stage:
    stage = _of_jobs("Apply", live, now_ms)
    if not run.changes:
        nothing = stage.state == "not begun" and run.report is not None
        why = "a dry run only plans" if run.started.dry_run else "nothing was written"
        return stage._replace(state="not needed", said=why) if nothing else stage
    ended = [one for one in run.changes if one.ended_ms is not None]
    outcomes: dict[str, int] = {}
    for change in ended:
        for outcome, count in change.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + count
    said = ", ".join(f"{words.plural(count, 'file')} {word}" for word, count in outcomes.items())
    if stage.state in {"running", "silent"}:
        return stage._replace(said=said)
    whole = len(ended) == len(run.changes) and all(one.complete for one in run.changes)
    at = max((one.ended_ms or one.began_ms for one in run.changes), default=None)
    return stage._replace(state="done" if whole else "failed", at_ms=at, said=said)


def _proof(run: Detail, live: Sequence[Live], now_ms: int) -> Stage:
    stage = _of_jobs("Proof", live, now_ms)
    standing = [one for one in run.changes if one.undone_ms is None]
    if stage.state in {"running", "silent"}:
        return stage
    if not run.changes:
        done = run.report is not None and stage.state == "not begun"
        return stage._replace(state="not needed") if done else stage
    if standing and all(one.proved is not None for one in standing):
        files = sum(one.proved or 0 for one in standing)
        return stage._replace(
            state="done", said=f"{words.plural(files, 'file')} read again, as planned"
        )
    if stage.state == "done" or (run.report is not None and standing):
        missing = sum(one.proved is None for one in standing)
        return stage._replace(state="failed", said=f"{words.plural(missing, 'RUN')} not proved")
    return stage


def _report(run: Detail) -> Stage:
    if run.report is None:
        return Stage("Report", "not begun", None, "")
    failed = bool(run.report.failures) or (run.overview is not None and run.overview.failed)
    at = run.overview.written_ms if run.overview else None
    if _of_earlier_try(run):
        return Stage("Report", "not begun", None, f"of an earlier try: {run.report.outcome}")
    return Stage("Report", "failed" if failed else "done", at, run.report.outcome)


def _of_earlier_try(run: Detail) -> bool:
    """Return whether a job runs that has told something since the report."""
    at = run.overview.written_ms if run.overview else 0
    return any(one.state == "running" and one.written_ms > at for one in run.live)


def _canary(run: Detail, asked: CanaryQuestion, now_ms: int) -> Stage:
    """Return the stage of the question about the canary, which follows the report."""
    if canary.of_earlier_try(asked, run.overview.written_ms if run.overview else 0):
        return Stage("Canary", "not begun", None, "the question of an earlier try does not count")
    if asked.answered_ms is not None:
        by = f"by {asked.by}" if asked.by else "nobody answered in time"
        state: State = "rejected" if asked.option == "Reject" else "done"
        return Stage("Canary", state, asked.answered_ms, f"{asked.option}, {by}")
    stage = Stage("Canary", "waiting", None, canary.ASKS, task_id=asked.task_id)
    return _asked(run, stage, asked, now_ms)


def _undo(run: Detail, now_ms: int) -> Stage:
    if not run.changes:
        return Stage("Undo", "not needed" if run.report else "not begun", None, "")
    standing = [one for one in run.changes if one.purged_ms is None and one.undone_ms is None]
    if not standing:
        ends = [one.purged_ms or one.undone_ms or 0 for one in run.changes]
        undone = any(one.undone_ms for one in run.changes)
        said = "undone" if undone else "purged: it cannot be undone any more"
        return Stage("Undo", "done", max(ends), said)
    kept = {Path(one.run).name: one for one in (run.overview.undo if run.overview else [])}
    untils = [kept[one.folder.name].until_ms for one in standing if one.folder.name in kept]
    until = min((one for one in untils if one is not None), default=None)
    if until is None:
        return Stage("Undo", "open", None, "until a person purges the old files")
    how = "until the purge" if now_ms < until else "until the next run purges"
    return Stage("Undo", "open", None, how, until)
