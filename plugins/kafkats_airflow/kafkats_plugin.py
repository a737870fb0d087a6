"""Registers the pages of kafkats in Airflow, and the links of our operators."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from kafkats_airflow.jobs.spark_job import SparkUiLink
from kafkats_airflow.links import PlanLink, ResultsLink
from kafkats_airflow.metrics import endpoint
from kafkats_airflow.metrics.endpoint import Metrics
from kafkats_airflow.ui.mounted import Pages

PREFIX = "/kafkats"


class KafkatsPlugin(AirflowPlugin):
    # Airflow wants lists.
    # ruff: disable[mutable-class-default]
    name = "kafkats"
    operator_extra_links = [SparkUiLink(), PlanLink(), ResultsLink()]
    fastapi_apps = [
        {"app": Pages(), "url_prefix": PREFIX, "name": "kafkats"},
        {"app": Metrics(), "url_prefix": endpoint.PREFIX, "name": "kafkats metrics"},
    ]
    external_views = [
        {
            "name": "Kafka log directories",
            "href": "kafkats/volumes",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafkats",
        },
        {
            "name": "kafkats",
            "href": "kafkats/dag?dag_id={DAG_ID}",
            "destination": "dag",
            "url_route": "kafkats-dag",
        },
        {
            "name": "kafkats",
            "href": "kafkats/run?dag_id={DAG_ID}&run_id={RUN_ID}",
            "destination": "dag_run",
            "url_route": "kafkats-run",
        },
    ]
    # ruff: enable[mutable-class-default]
