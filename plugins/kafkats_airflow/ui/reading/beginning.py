"""The starts of runs, from their files. In earlier versions only the run's id tells it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from kafkats_airflow.approvals.recorded import Question
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.runs.progress import Live
from kafkats_airflow.runs.started import Started
from kafkats_airflow.ui import words

_ID: Final = re.compile(
    r"([a-z]+(?:_[a-z]+)*)__(\d{4}-\d\d-\d\d(?:T[0-9:.]+(?:Z|[+-]\d\d:\d\d)?)?)"
)
_HOW: Final = {
    "scheduled": "by schedule",
    "backfill": "by a backfill",
    "asset_triggered": "by an asset",
    "operator_triggered": "by another DAG",
    "manual": "by hand",
}
"""Airflow's type of a run -> who started it where no person is known."""


def started_by(files: Iterable[Question | Live]) -> Started:
    """Return what the first of these files tells that tells anything."""
    return next((one.started for one in files if one.started != Started()), Started())


def of_overview(overview: Overview) -> Started:
    """Return how the run of an overview began. Earlier versions tell only whether it may write."""
    if overview.started.dry_run == overview.dry_run:  # a copy takes long for a thousand runs
        return overview.started
    return overview.started.model_copy(update={"dry_run": overview.dry_run})


def run_name(run_id: str, started: Started) -> str:
    """Return a name of a run for people: when it started, else the time in its id, else the id."""
    if started.began_ms is not None:
        return words.of_moment(started.began_ms)
    if found := _ID.fullmatch(run_id):
        try:
            at = datetime.fromisoformat(found[2])
        except ValueError:
            return run_id
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return words.of_moment(int(at.timestamp() * 1000))
    return run_id


def starter(run_id: str, started: Started) -> str:
    """Return who started a run, such as `by Ada` or `by schedule`; "" if nothing tells."""
    if started.by:
        return f"by {started.by}"
    return _HOW.get(started.how or run_id.partition("__")[0], "")
