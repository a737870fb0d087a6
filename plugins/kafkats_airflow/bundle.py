"""The bundle of the DAGs of kafkats, for Airflow's `dag_bundle_config_list`."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from kafkats_airflow import shipped


class KafkatsDagBundle(LocalDagBundle):
    """The DAGs for the policy of the deployment. Takes the arguments of Airflow's BaseDagBundle."""

    def __init__(self, **given: Any) -> None:
        super().__init__(path=str(shipped.DAGS), **given)
