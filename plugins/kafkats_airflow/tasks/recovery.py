"""The task of rebuild_time_indexes that starts a run of recover_log_dirs at its end."""

from __future__ import annotations

from typing import Any, Final

from airflow.providers.common.compat.sdk import AirflowSkipException, Context
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from kafkats_airflow.forms.values import RunParams, params_of

_SAME: Final = ("policy", "volumes", "topics", "rule", "need_approval", "dry_run", "folder")
"""Params that both DAGs have, and that the started run takes over."""


class RecoverOperator(TriggerDagRunOperator):
    """Starts recover_log_dirs with the params of this run, if its param `recover` is on.

    A repeated try runs the same run again: there is one for each run of this DAG.
    """

    # A template in a param would be rendered, and can read passwords.
    template_fields = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id="recover_log_dirs",
            logical_date=None,
            reset_dag_run=True,
            openlineage_inject_parent_info=False,
            **kwargs,
        )

    def execute(self, context: Context) -> None:
        params = params_of(context)
        if not params.get("recover"):
            raise AirflowSkipException("recover is off")
        self.conf = conf_of(params)
        self.trigger_run_id = f"recover__{context['dag_run'].run_id}"
        super().execute(context)


def conf_of(params: RunParams) -> dict[str, object]:
    """Return the conf of the run of recover_log_dirs."""
    return {name: value for name, value in params.items() if name in _SAME}
