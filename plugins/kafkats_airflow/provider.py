"""The entry of kafkats in Airflow's list of providers."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Final

_OPERATORS: Final = ("jobs.spark_job", "jobs.plan_job", "jobs.write_job", "approvals.asking")


def get_provider_info() -> dict[str, Any]:
    """Return the fields that Airflow asks a provider for. Connections are those of others."""
    found = metadata.metadata("kafkats")
    return {
        "package-name": found["Name"],
        "name": "kafkats",
        "description": found["Summary"],
        "versions": [found["Version"]],
        "integrations": [
            {
                "integration-name": "Kafka log directories",
                "external-doc-url": "https://kafka.apache.org/documentation/",
                "tags": ["software"],
            }
        ],
        "bundles": [
            {
                "integration-name": "Kafka log directories",
                "python-modules": ["kafkats_airflow.bundle"],
            }
        ],
        "operators": [
            {
                "integration-name": "Kafka log directories",
                "python-modules": [f"kafkats_airflow.{name}" for name in _OPERATORS],
            }
        ],
    }
