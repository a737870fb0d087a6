"""The sentences that people read about a job: its error, its result, its progress.

The first line of a failure says what, where and why, and what to do.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from kafkats.counts import counted, size_text
from kafkats.errors import KafkatsError
from kafkats.progress import Progress
from kafkats.result import Proved, Ran, Result
from kafkats_airflow.forms.wording import in_form

_AGAIN: Final = "another try can help"
_SAME: Final = "another try fails again until then"
ADVICE: Final = {
    "UsageError": "trigger a new run with other params, or correct the policy or the deployment and"
    f" clear this run; {_SAME}",
    "BadInput": f"correct that, then clear this run, or trigger a new one; {_SAME}",
    "CorruptPlan": "clear the run to make a new plan",
    "Refused": "another try is refused too, until that has changed",
    "Locked": f"stop what holds it, or wait for it, then clear the task; {_AGAIN}",
    "Reserved": f"wait for that run, or end it, then clear this run; {_SAME}",
    "Changed": "clear the run to make a new plan",
    "OtherVolume": f"mount it on a worker of the connection, then clear the task; {_SAME}",
    "Fenced": "a newer attempt has it: look at that one",
    "NotPermitted": f"run the workers as a user that may keep owner and mode; {_SAME}",
    "WorkerLost": f"clear the task; {_AGAIN}, with more memory for the workers",
    "Unattended": f"see that the triggerer runs, then clear the task; {_AGAIN}",
    "StorageFailed": "look at that file system, then clear the task",
    "Vanished": f"see that the volume is mounted on every worker, then clear the task; {_AGAIN}",
    "DiskFull": f"free space there, then clear the task; {_AGAIN}",
    "ReadOnly": f"let the user of the workers write there, then clear the task; {_SAME}",
}
"""What to do about errors, and whether another try helps, by their class. A class without an entry
has that of its base.
"""


def of(error: KafkatsError, params: Container[str] | None = None) -> str:
    """Return the sentence of an error, and what to do about it. `params` are those of the run."""
    first, newline, rest = in_form(error.text, params).partition("\n")
    names = (one.__name__ for one in type(error).__mro__)
    advice = next((ADVICE[name] for name in names if name in ADVICE), "")
    told = f"; {advice}" if advice and advice.partition(";")[0] not in first else ""
    return f"{first}{told}{newline}{rest}"


def of_result(result: Result, params: Container[str] | None = None) -> dict[str, Any]:
    """Return the summary of a result, with its sentences in words (`params`: as in `of`)."""

    def worded(value: Any) -> Any:
        if isinstance(value, str):
            return in_form(result.text(value), params)
        if isinstance(value, list):
            return [worded(one) for one in value]
        return {k: worded(v) for k, v in value.items()} if isinstance(value, dict) else value

    told: dict[str, Any] = worded(result.told())
    return told


def of_findings(result: Result, params: Container[str] | None = None) -> str:
    """Return the findings of a job's result that fail its task (`params`: as in `of`)."""
    errors = [in_form(result.text(one), params) for run in result.runs for one in run.errors]
    errors += [in_form(one.error, params) for one in result.released if one.error]
    if result.verb == "apply":
        return _not_applied(result.runs[0], errors)
    if result.proof and result.proof.not_equal:
        return _not_as_planned(result.proof, (result.found or {}).get("report"))
    if errors:
        return f"{_some(errors)}; see this task's log, mend that, then clear the task"
    if unreadable := (result.found or {}).get("unreadable"):
        partitions = counted(unreadable, "partition")
        return f"{partitions} could not be searched, see this task's log for each reason"
    if (made := result.certificate) is not None:
        found = {"exceptions": made.exceptions, "refusals": made.refusals}
        counts = " and ".join(f"{count} {word}" for word, count in found.items() if count)
        return f"{made.statement}{f': {counts}' if counts else ''}; this task's log names them"
    return "ended with findings, which this task's log names"


def of_no_result(job: str, error: str) -> str:
    """Return the sentence for a driver that left no result; `error` is the provider's."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    cause = next((line for line in lines if _is_cause(line)), "")
    why = f": {cause[:300]}" if cause else ""
    return (
        f"{job}: its driver ended without a result{why}; this task's log has all that it said;"
        f" {_AGAIN}\n{error}"
    )


def of_timeout(job: str, limit: str) -> str:
    return (
        f"{job}: not done within {limit}: its driver was killed; it goes on with what is left when"
        " the task is cleared, and KAFKATS_TIMEOUTS (job=...) gives it longer"
    )


def of_progress(progress: Progress) -> str:
    """Such as `plan: 12 of 30 units, 1.2 GiB of 4.0 GiB, 310.0 MiB/s, about 9 s left`.

    Units of one byte each are only counted: the stage, such as undo, reads and writes no logs.
    """
    units, of_units = progress.units or 0, progress.of_units or 0
    words = [f"{progress.stage}: {units} of {counted(of_units, 'unit')}"]
    if progress.of_bytes != of_units:
        words.append(f"{size_text(progress.bytes or 0)} of {size_text(progress.of_bytes or 0)}")
        if progress.bytes_per_second:
            words.append(f"{size_text(progress.bytes_per_second)}/s")
    if progress.seconds_left is not None and units < of_units:
        words.append(f"about {duration(progress.seconds_left)} left")
    if progress.failed_tasks:
        words.append(f"{counted(progress.failed_tasks, 'task')} repeated")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """A time in the unit that people would use."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 48 else f"{round(hours / 24)} days"


def _not_applied(run: Ran, errors: Sequence[str]) -> str:
    outcomes = run.outcomes
    left = [f"{outcomes[word]} {word}" for word in ("refused", "failed") if outcomes.get(word)]
    files = f"{' and '.join(left)} of {counted(sum(outcomes.values()), 'file')}"
    partitions = counted(run.partitions, "partition")
    where = f" in {run.left_partitions} of {partitions}" if run.partitions else ""
    undo = "; Undo on the page of the run puts back what was done" if outcomes.get("done") else ""
    return f"{files}{where}: {_some(errors)}; clear the run to make a new plan of the rest{undo}"


def _not_as_planned(proof: Proved, report: str | None) -> str:
    return (
        f"{proof.files - proof.equal} of {counted(proof.files, 'file')} not as planned:"
        f" {_some(proof.not_equal)}; see{f' {report} and' if report else ''} this task's log, and"
        " undo the run if that is not explained"
    )


def _some(reasons: Sequence[str]) -> str:
    """The first of several, and how many more there are."""
    return first_of(reasons) or "no reason was given"


def first_of(reasons: Sequence[str]) -> str:
    """Return the first of several, and how many more there are; "" for none."""
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}" if reasons else ""


def _is_cause(line: str) -> bool:
    return "Error" in line.partition(":")[0] or "Exception" in line.partition(":")[0]
