"""The moment that a run decides for; all its tasks and tries use the same.

A scheduled run or a backfill decides for the end of its data interval, whenever it runs. Every
other run decides for its `run_after`, the time of triggering, even if the form filled in a logical
date.
"""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import Context

from kafkats.errors import UsageError
from kafkats_airflow.forms.values import params_of


def by_schedule(context: Context) -> bool:
    """Return whether the run has a data interval of its schedule or of a backfill."""
    run = context["dag_run"]
    kind = str(getattr(run.run_type, "value", run.run_type))
    return kind in {"scheduled", "backfill"} and context.get("data_interval_end") is not None


def moment(context: Context) -> str:
    """Return the moment, ISO 8601 with its offset; the param `as_of` if given.

    Raises UsageError.
    """
    if given := params_of(context)["as_of"]:
        return time_of(given, "as_of").isoformat()
    end = context.get("data_interval_end") if by_schedule(context) else None
    return (end or context["dag_run"].run_after).astimezone(UTC).isoformat()


def time_of(text: str, name: str) -> datetime:
    """Parse the time in the param `name`. Raises UsageError if it has no offset from UTC."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(
            f"{name}: {text!r} is no time with its offset from UTC, such as 2026-01-31T10:00:00Z"
        )
    return found
