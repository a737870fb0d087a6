"""The question about a canary, which a migration asks after its report: where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kafkats_airflow.approvals.recorded import CanaryQuestion
from kafkats_airflow.reading.files import Unreadable, model
from kafkats_airflow.reading.runs import SILENT_MS
from kafkats_airflow.runs.folders import CANARY_QUESTION

ASKS: Final = "May the other brokers follow this canary?"


def question_of(folder: Path) -> CanaryQuestion | Unreadable | None:
    """Return the question of a run, answered or not, None if it asks none."""
    return model(f"{folder}/{CANARY_QUESTION}", CanaryQuestion)


def of_earlier_try(asked: CanaryQuestion, report_ms: int) -> bool:
    """Return whether the run was cleared since: its report was written at `report_ms`."""
    return asked.asked_ms < report_ms - SILENT_MS


def waiting(
    asked: CanaryQuestion | Unreadable | None, report_ms: int, now_ms: int
) -> CanaryQuestion | None:
    """Return the question of a run (`question_of`) if a person can answer it now.

    `report_ms` is the time of the run's report. Earlier versions did not tell of an answer.
    """
    if not isinstance(asked, CanaryQuestion) or of_earlier_try(asked, report_ms):
        return None
    told = asked.task_id and asked.answered_ms is None
    return asked if told and now_ms <= asked.until_ms else None
