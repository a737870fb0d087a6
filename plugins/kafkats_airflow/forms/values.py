"""The params of a DAG run, as the plugin reads them.

Their declarations are in forms.catalogue; a run has those of its DAG's form. Airflow checks their
values against the form when the run is triggered.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import Context

RunParams: TypeAlias = dict[str, Any]
"""The values of a run's params, by id, with the types that the form's options declare."""


def given_params(context: Context) -> RunParams | None:
    """Return the params of the task's run, None for a context without a run."""
    return params_of(context) if "params" in context else None


def params_of(context: Context) -> RunParams:
    """Return the params of the task's run."""
    params: RunParams = context["params"]
    return params
