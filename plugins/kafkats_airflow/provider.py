"""The entry of kafkats in Airflow's list of providers."""

from __future__ import annotations

from importlib import metadata


def get_provider_info() -> dict[str, str]:
    """Return the fields that Airflow asks a provider for."""
    return {
        "package-name": "kafkats",
        "name": "kafkats",
        "description": metadata.metadata("kafkats")["Summary"],
    }
