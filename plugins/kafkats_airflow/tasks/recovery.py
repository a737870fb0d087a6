"""The task of a rebuild that starts a run of the DAG that recovers, at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context

from kafkats.errors import UsageError
from kafkats_airflow.airflow_versions import AirflowSkipException, bag_of, taken_by
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.tags import TAG, chosen, deployed_dag, missing, tag_of
from kafkats_airflow.forms.values import params_of

_SAME: Final = ("policy", "volumes", "topics", "rule", "need_approval", "dry_run", "folder")
"""Params that both DAGs have, and that the started run takes over."""


class RecoverOperator(TriggerDagRunOperator):
    """Starts the DAG that recovers, with the params of this run, if its param `recover` is on.

    A repeated try runs the same run again: there is one for each run of this DAG.
    """

    # A template in a param would be rendered, and can read passwords.
    template_fields = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=tag_of("recover"),  # for pictures: `execute` finds the DAG
            logical_date=None,
            reset_dag_run=True,
            **taken_by(TriggerDagRunOperator, openlineage_inject_parent_info=False),
            **kwargs,
        )

    @in_our_words
    def execute(self, context: Context) -> None:
        params = params_of(context)
        if not params.get("recover"):
            raise AirflowSkipException("recover is off")
        folder = Path(context["dag"].fileloc).parent
        self.trigger_dag_id = dag_of(folder, "recover", params["policy"], params["folder"])
        self.conf = {name: value for name, value in params.items() if name in _SAME}
        self.trigger_run_id = f"recover__{context['dag_run'].run_id}"
        super().execute(context)


def dag_of(folder: Path, operation: str, policy: str, runs: str) -> str:
    """Return the id of the DAG of an operation among the DAG files of a folder, of the set whose
    runs have the folder `runs`. Raises UsageError.

    A worker cannot ask Airflow's database for tags, so it parses the files that name kafkats.
    """
    found = []
    broken: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        if TAG not in path.read_text(errors="replace"):
            continue
        bag = bag_of(path, folder)
        broken += bag.import_errors
        found += [deployed_dag(one.dag_id, one.tags, one.params) for one in bag.dags.values()]
    dag_id = chosen([one for one in found if one is not None], operation, policy, runs)
    if not dag_id:
        unread = f"; it may be in {', '.join(broken)}, which cannot be imported" if broken else ""
        raise UsageError(f"{folder}: {missing(operation)}{unread}")
    return dag_id
