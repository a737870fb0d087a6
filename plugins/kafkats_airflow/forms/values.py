"""The params of a DAG run, as the plugin reads them.

Their declarations are in forms.catalogue; a run has those of its DAG's form. Airflow checks their
values against the form when the run is triggered.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from airflow.sdk import Context

from kafkats.config.values import suggestion
from kafkats.errors import UsageError

RunParams: TypeAlias = dict[str, Any]
"""The values of a run's params, by id, with the types that the form's options declare."""


def is_first(context: Context) -> bool:
    """Return whether no task of the run comes before this one."""
    task = context.get("task")
    return task is not None and not task.upstream_task_ids


def refuse_unknown(context: Context) -> None:
    """Raise UsageError for a run whose conf has a key that is no param: Airflow takes it, and the
    run would do its defaults to all volumes.
    """
    run, dag = context.get("dag_run"), context.get("dag")
    conf = getattr(run, "conf", None)
    if dag is None or not isinstance(conf, dict):
        return
    known = list(dag.params)
    for key in conf:
        if key not in known:
            hint = suggestion(str(key), known)
            raise UsageError(f"conf: {key!r} is no param of {dag.dag_id}; {hint}")


def given_params(context: Context) -> RunParams | None:
    """Return the params of the task's run, None for a context without a run."""
    return params_of(context) if "params" in context else None


def params_of(context: Context) -> RunParams:
    """Return the params of the task's run."""
    params: RunParams = context["params"]
    return params
