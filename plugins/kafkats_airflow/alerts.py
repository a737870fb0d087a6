"""Alerts by Airflow's own means: a notifier for failed runs, and deadlines for late ones.

KAFKATS_NOTIFIER names the notifier, KAFKATS_DEADLINES the deadlines; without them there is none.
Both run our functions, which call the notifier:

* `run_failed` in the DAG processor, when a DAG run has failed
* `run_late` in a worker of the executor, when a DAG run is not over at its deadline. It is
  synchronous, so no triggerer is needed

The notifier gets Airflow's context and one sentence more, as `kafkats`. It is imported when it is
called: the import of a DAG never fails for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from kafkats.errors import UsageError
from kafkats_airflow import settings
from kafkats_airflow.airflow_versions import SyncCallback

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

Notifier = Callable[[Mapping[str, Any]], object]
"""A function of the context, or an instance of Airflow's BaseNotifier."""
_LOG: Final = logging.getLogger(__name__)


def of(dag_id: str) -> dict[str, Any]:
    """Return the arguments of a DAG that make its alerts; none if the deployment has none."""
    found: dict[str, Any] = {}
    if settings.NOTIFIER:
        found["on_failure_callback"] = run_failed
    if interval := settings.DEADLINES.get(dag_id):
        told = {"dag_id": dag_id, "seconds": int(interval.total_seconds())}
        found["deadline"] = [
            DeadlineAlert(
                reference=DeadlineReference.DAGRUN_QUEUED_AT,
                interval=interval,
                callback=SyncCallback(run_late, kwargs=told),
                name=f"{dag_id} within {interval}",
            )
        ]
    return found


def question_asked(context: Context, address: str) -> list[str]:
    """Notify that a run asks a question. Return who was told; nobody without a notifier.

    A notifier that fails does not keep the question from being asked.
    """
    if not settings.NOTIFIER:
        return []
    dag_id, run_id = context["dag"].dag_id, context["run_id"]
    sentence = f"{dag_id}: run {run_id} asks whether its plan may be applied. See {address}"
    try:
        notifier(settings.NOTIFIER)({**context, "kafkats": sentence})
    except Exception as e:  # whatever the notifier of the deployment raises
        _LOG.warning("the notifier failed, and nobody was told: %s: %s", type(e).__name__, e)
        return []
    return [settings.NOTIFIER]


def run_failed(context: Context) -> None:
    """Notify that a DAG run has failed."""
    run = context.get("dag_run")
    dag_id, run_id = str(getattr(run, "dag_id", "")), str(getattr(run, "run_id", ""))
    _notify(context, f"{dag_id}: run {run_id} failed. {_where(dag_id, run_id)}")


def run_late(context: Mapping[str, Any], dag_id: str, seconds: int) -> None:
    """Notify that a DAG run is not over `seconds` after it was queued.

    `context["dag_run"]` is the run as Airflow's REST describes it.
    """
    run_id = str(context["dag_run"]["dag_run_id"])
    sentence = f"{dag_id}: run {run_id} is not over {seconds} s after it was queued."
    _notify(context, f"{sentence} {_where(dag_id, run_id)}")


def notifier(path: str) -> Notifier:
    """Return the notifier at `package.module.name`; a class is called without arguments.

    Raises UsageError if there is none.
    """
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
        made = found() if isinstance(found, type) else found
    except Exception as e:  # whatever the module of the deployment raises
        raise UsageError(
            f"KAFKATS_NOTIFIER: {path!r} cannot be used: {type(e).__name__}: {e}. The module must"
            " be importable by the DAG processor and the workers"
        ) from e
    if not callable(made):
        raise UsageError(f"KAFKATS_NOTIFIER: {path!r} is not callable")
    called: Notifier = made
    return called


def _notify(context: Mapping[str, Any], sentence: str) -> None:
    """Log the sentence, and hand it to the notifier. A notifier that fails fails the callback."""
    _LOG.error(sentence)
    if settings.NOTIFIER:
        notifier(settings.NOTIFIER)({**context, "kafkats": sentence})


def _where(dag_id: str, run_id: str) -> str:
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"See {base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
