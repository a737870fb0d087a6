"""The params of a DAG run, as the plugin reads them.

Their declarations are in forms.catalogue; a run has those of its DAG's form. Airflow checks their
values against the form when the run is triggered.
"""

from __future__ import annotations

import difflib
from typing import Any, TypedDict

from airflow.providers.common.compat.sdk import Context

from kafkats.errors import UsageError

RunParams = TypedDict(
    "RunParams",
    {
        "policy": str,
        "folder": str,
        "volumes": list[str] | None,
        "topics": str,
        "dry_run": bool,
        "need_approval": bool,
        "rule": str,
        "depth": str,
        "generation": str,
        "only_after_unclean_stop": bool,
        "like_kafka": bool,
        "mend_magic": bool,
        "kafka": str | None,
        "recover": bool,
        "phase": str,
        "from_magic": int,
        "to_magic": int,
        "compression_type": str,
        "accept_loss": list[str] | None,
        "clients": str | None,
        "attested_by": str | None,
        "ledger": str | None,
        "as_of": str | None,
        "before": str | None,
        "free": str | None,
        "inside_segments": bool,
        "last_segment": bool,
        "undo_days": int,
        "split": str,
        "simulate": bool,
        "segment_bytes": str | None,
        "segment_ms": int | None,
        "earliest": str,
        "step": str,
        "exact": bool,
        "high_watermark": str,
        "from": str | None,
        "to": str | None,
        "tables": str | None,
        "time": str,
        "until": str | None,
        "margin": str | None,
        "format": str,
        "missing": str,
        "group": str | None,
        "source": str,
        "keep_days": int,
        "verb": str,
        "of_dag": str | None,
        "of_run": str | None,
        "digest": str | None,
    },
    total=False,
)
"""The values of a run's params, by id."""


def refuse_unknown(context: Context) -> None:
    """Raise UsageError in the first task of a run whose conf has a key that is no param: Airflow
    takes it, and the run would do its defaults to all volumes.
    """
    task, run, dag = context.get("task"), context.get("dag_run"), context.get("dag")
    conf = getattr(run, "conf", None)
    if task is None or dag is None or task.upstream_task_ids or not isinstance(conf, dict):
        return
    known = list(dag.params)
    for key in conf:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise UsageError(f"conf: {key!r} is no param of {dag.dag_id}; {hint}")


def given_params(context: Context) -> RunParams | None:
    """Return the params of the task's run, None for a context without a run."""
    return params_of(context) if "params" in context else None


def params_of(context: Context) -> RunParams:
    """Return the params of the task's run."""
    given: Any = context["params"]  # Airflow has no type for them
    params: RunParams = given
    return params
