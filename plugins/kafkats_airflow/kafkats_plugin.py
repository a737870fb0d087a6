"""Registers the pages of kafkats in Airflow, and the links of our operators."""

from __future__ import annotations

from typing import Final

from airflow.plugins_manager import AirflowPlugin

from kafkats_airflow import settings
from kafkats_airflow.jobs.spark_job import SparkUiLink
from kafkats_airflow.links import PlanLink, ResultsLink
from kafkats_airflow.metrics import endpoint
from kafkats_airflow.metrics.endpoint import Metrics
from kafkats_airflow.ui.mounted import Pages, folders

PREFIX = "/kafkats"


def _view(destination: str, href: str, route: str, name: str = "kafkats") -> dict[str, str]:
    """Return what Airflow has to know to show a page of ours in a place of its own."""
    return {"name": name, "href": href, "destination": destination, "url_route": route}


TABS: Final = (
    _view("dag", "kafkats/dag?dag_id={DAG_ID}", "kafkats-dag"),
    _view("dag_run", "kafkats/run?dag_id={DAG_ID}&run_id={RUN_ID}", "kafkats-run"),
)
"""The tabs that Airflow shows on every DAG and run, also on those of others."""


class KafkatsPlugin(AirflowPlugin):
    # Airflow wants lists.
    # ruff: disable[mutable-class-default]
    name = "kafkats"
    operator_extra_links = [SparkUiLink(), PlanLink(), ResultsLink()]
    fastapi_apps = [
        {"app": Pages(), "url_prefix": PREFIX, "name": "kafkats"},
        {"app": Metrics(folders), "url_prefix": endpoint.PREFIX, "name": "kafkats metrics"},
    ]
    external_views = [
        _view("nav", "kafkats/volumes", "kafkats", "Kafka log directories")
        | {"category": "browse"},
        *(TABS if settings.TABS else ()),
    ]
    # ruff: enable[mutable-class-default]
