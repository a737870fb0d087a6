"""The time that a run decides for: one for all of its tasks and tries.

A run of the schedule or of a backfill decides for the end of its data interval, whenever it runs. Every other run decides
for its `run_after`: that is when it was triggered, also where the form filled in a logical date.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from kafkats.errors import UsageError


def by_schedule(context: Context) -> bool:
    """Whether the run has a data interval that is meant."""
    run = context["dag_run"]
    kind = str(getattr(run.run_type, "value", run.run_type))
    return kind in {"scheduled", "backfill"} and context.get("data_interval_end") is not None


def moment(context: Context) -> str:
    """What the run decides for, ISO 8601 with its offset: the param `as_of` where it is given. Raises UsageError."""
    if given := context["params"]["as_of"]:
        return time_of(given, "as_of").isoformat()
    decided = context["data_interval_end"] if by_schedule(context) else context["dag_run"].run_after
    return str(decided.astimezone(UTC).isoformat())


def time_of(text: Any, name: str) -> datetime:
    """A time that somebody gave as the param `name`. Raises UsageError where it has no offset from UTC."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"{name}: {text!r} is no time with its offset from UTC, such as 2026-01-31T10:00:00Z")
    return found
