"""The start of a DAG run: when, by whom, about which log directories, and whether it may write.

Progress, question and overview of a run carry it, so that pages can name a run that has no report
yet. It is for people only: a task never fails because it cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from airflow.sdk import Context
from pydantic import BaseModel, ConfigDict, NonNegativeInt

from kafkats.errors import KafkatsError
from kafkats_airflow.forms.values import RunParams, params_of


class Started(BaseModel):
    """The start of one run.

    `how` is Airflow's type of the run, `by` the person who triggered it, "" if nobody did.
    `began_ms` is when the run started, epoch ms. `volumes` are {log directory: broker}, those that
    its params choose from the policy. `phase` is that of a migration.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    how: str = ""
    by: str = ""
    began_ms: NonNegativeInt | None = None
    dry_run: bool = False
    volumes: dict[str, str] = {}
    phase: str = ""


def started_of(context: Context, about: Iterable[str] = ()) -> Started:
    """Return how the run of a task began. `about` are its log directories, if its params do not
    choose them.
    """
    run, params = context.get("dag_run"), params_of(context)
    how = getattr(run, "run_type", None)
    began = getattr(run, "start_date", None)
    return Started(
        how=str(getattr(how, "value", how) or ""),
        by=str(getattr(run, "triggering_user_name", None) or ""),
        began_ms=int(began.timestamp() * 1000) if isinstance(began, datetime) else None,
        dry_run=bool(params.get("dry_run", False)),
        volumes=_volumes(params, about),
        phase=params.get("phase", ""),
    )


def _volumes(params: RunParams, about: Iterable[str]) -> dict[str, str]:
    """Return {log directory: broker}; nothing for a policy that cannot be read, which fails the
    task in its own words.
    """
    from kafkats_airflow.runs.volumes import chosen_volumes

    named = dict.fromkeys(about, "")
    if "policy" not in params:
        return named
    with suppress(KafkatsError):
        chosen = chosen_volumes(params)
        known = {one.label: one.broker for one in chosen}
        return {one: known.get(one, "") for one in named} if "volumes" not in params else known
    return named
