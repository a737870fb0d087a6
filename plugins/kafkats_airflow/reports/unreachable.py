"""The volumes of a run that could not be read or reserved: its jobs left them out."""

from __future__ import annotations

from collections.abc import Iterable

from kafkats.counts import counted
from kafkats_airflow.failing import UNFINISHED
from kafkats_airflow.results import JobResult, Unreachable
from kafkats_airflow.runs.overview import Volume


def unreachable(results: Iterable[JobResult]) -> list[Unreachable]:
    """Return the volumes that jobs left out, each once."""
    found = {one["log_dir"]: one for result in results for one in result.get("unreachable", ())}
    return list(found.values())


def causes(results: Iterable[JobResult], task: str = "plan") -> list[str]:
    """Return the failures of a report that name these volumes, as `TASK: sentence`."""
    return [
        f"{task}: {one['error']}; this volume was left out: mend it, then clear this run"
        for one in unreachable(results)
    ]


def words(results: Iterable[JobResult]) -> str:
    """Return the end of an outcome that must not count as a success; "" if all were read."""
    left = unreachable(results)
    return f", {counted(len(left), 'volume')} could not be read, {UNFINISHED}" if left else ""


def volumes(results: Iterable[JobResult]) -> list[Volume]:
    """Return these volumes for overview.json."""
    return [
        Volume(log_dir=one["log_dir"], broker=one.get("broker", ""), error=one["error"])
        for one in unreachable(results)
    ]
