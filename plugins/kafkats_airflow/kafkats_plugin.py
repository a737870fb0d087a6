"""Makes Airflow show the Spark UI link of our operator."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from kafkats_airflow.spark_job import SparkUiLink


class KafkatsPlugin(AirflowPlugin):
    name = "kafkats"
    # Airflow wants a list.
    operator_extra_links = [SparkUiLink()]  # ruff: ignore[mutable-class-default]
