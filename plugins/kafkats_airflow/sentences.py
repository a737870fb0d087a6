"""The sentences that people read about a job: its error, its result, its progress.

The first line of a failure says what, where and why, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkats.counts import counted, size_text
from kafkats.errors import KafkatsError
from kafkats_airflow.results import JobResult, Progress

ADVICE: Final = {
    "Locked": "stop what holds it, or wait for it, then clear the task",
    "Changed": "clear the run to make a new plan",
    "Fenced": "a newer attempt has it: look at that one",
    "NotPermitted": "run the workers as a user that may keep owner and mode",
    "CorruptPlan": "clear the run to make a new plan",
    "Vanished": "see that the volume is mounted on every worker, then clear the task",
    "DiskFull": "free space there, then clear the task",
    "ReadOnly": "let the user of the workers write there, then clear the task",
}
"""What to do about errors that do not say it themselves, by their class."""


def of_error(kind: str, text: str) -> str:
    """One of our errors: its class, its words, and what to do."""
    first, newline, rest = text.partition("\n")
    advice = f"; {ADVICE[kind]}" if kind in ADVICE else ""
    return f"{kind}: {first}{advice}{newline}{rest}"


def of(error: KafkatsError) -> str:
    return of_error(type(error).__name__, str(error))


def of_findings(job: str, result: JobResult) -> str:
    """Return the findings of a job's result that fail its task."""
    if "outcomes" in result:
        return _not_applied(job, result)
    if result.get("not_equal"):
        return _not_as_planned(job, result)
    if result.get("errors"):
        return (
            f"{job}: {_some(result['errors'])}; see this task's log, mend that, then clear the task"
        )
    if result.get("unreadable"):
        return (
            f"{job}: {counted(result['unreadable'], 'partition')} could not be searched, see this"
            " task's log"
            " for each reason"
        )
    if "statement" in result:
        return f"{job}: {result['statement']}{_exceptions(result)}; this task's log names them"
    return f"{job}: ended with findings, which this task's log names"


def of_no_result(job: str, error: str) -> str:
    """A driver that ended without a word of ours; `error` is what the provider says of it."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    cause = next((line for line in lines if _is_cause(line)), "")
    why = f": {cause[:300]}" if cause else ""
    return (
        f"{job}: its driver ended without a result{why}; this task's log has all that it said"
        f"\n{error}"
    )


def of_timeout(job: str, limit: str) -> str:
    return (
        f"{job}: not done within {limit}: its driver was killed; it goes on with what is left when"
        " the task is cleared, and KAFKATS_TIMEOUTS (job=...) gives it longer"
    )


def of_progress(progress: Progress) -> str:
    """Such as `plan: 12 of 30 units, 1.2 GiB of 4.0 GiB, 310.0 MiB/s, about 9 s left`."""
    words = [f"{progress['stage']}: {progress['units']} of {counted(progress['of_units'], 'unit')}"]
    words.append(f"{size_text(progress['bytes'])} of {size_text(progress['of_bytes'])}")
    if progress.get("bytes_per_second"):
        words.append(f"{size_text(progress['bytes_per_second'])}/s")
    left = progress.get("seconds_left")
    if left is not None and progress["units"] < progress["of_units"]:
        words.append(f"about {duration(left)} left")
    if repeated := progress.get("failed_tasks"):
        words.append(f"{counted(repeated, 'task')} repeated")
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


def _not_applied(job: str, result: JobResult) -> str:
    outcomes = result["outcomes"]
    left = [f"{outcomes[word]} {word}" for word in ("refused", "failed") if outcomes.get(word)]
    files = f"{' and '.join(left)} of {counted(sum(outcomes.values()), 'file')}"
    where = (
        f" in {result['left_partitions']} of {counted(result['partitions'], 'partition')}"
        if result.get("partitions")
        else ""
    )
    undo = f"; kafkats undo {result['run']} puts back what was done" if outcomes.get("done") else ""
    return (
        f"{job}: {files}{where}: {_some(result['errors'])}; clear the run to make a new plan of the"
        f" rest{undo}"
    )


def _not_as_planned(job: str, result: JobResult) -> str:
    wrong = result["files"] - result["equal"]
    report = f" {result['report']} and" if result.get("report") else ""
    return (
        f"{job}: {wrong} of {counted(result['files'], 'file')} not as planned:"
        f" {_some(result['not_equal'])}; see{report} this task's log, and undo the run if that is"
        " not explained"
    )


def _exceptions(result: JobResult) -> str:
    found = {"exceptions": result.get("exceptions"), "refusals": result.get("refusals")}
    counts = [f"{count} {word}" for word, count in found.items() if count]
    return f": {' and '.join(counts)}" if counts else ""


def _some(reasons: Sequence[str]) -> str:
    """The first of several, and how many more there are."""
    return (
        f"{reasons[0]}{f' (and {len(reasons) - 1} more)' if len(reasons) > 1 else ''}"
        if reasons
        else "no reason was given"
    )


def _is_cause(line: str) -> bool:
    return "Error" in line.partition(":")[0] or "Exception" in line.partition(":")[0]
