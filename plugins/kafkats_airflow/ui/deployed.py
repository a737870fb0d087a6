"""The settings of this deployment that pages read: the folder of all runs, the policy's volumes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kafkats.config.reading import read_policy
from kafkats_airflow import settings
from kafkats_airflow.reading import runs
from kafkats_airflow.reading.files import Unreadable, cached
from kafkats_airflow.reading.runs import Found
from kafkats_airflow.runs.volumes import named


class Listed(NamedTuple):
    """The volumes of the policy, {label: broker}; `why` they could not be read, or ""."""

    volumes: dict[str, str]
    why: str


def folder() -> Path:
    """Return the folder of all runs, which the api-server sees at the same path as workers."""
    return Path(settings.FOLDER)


def runs_of(dag_ids: Iterable[str]) -> tuple[list[Found], str]:
    """Return the runs of these DAGs, and why their folder cannot be listed, or ""."""
    try:
        return runs.runs_in(folder(), dag_ids), ""
    except OSError as e:
        return [], (e.strerror or str(e)).lower()


def listed() -> Listed:
    """Return the volumes of the policy."""
    path = Path(settings.POLICY)
    try:
        found = cached(path.resolve(), _parse)
    except (OSError, RuntimeError) as e:  # a loop of links
        found = Unreadable(path, str(e))
    if isinstance(found, dict):
        return Listed(found, "")
    return Listed({}, found.why if found else "it is not there")


def _parse(path: Path) -> dict[str, str]:
    """Parse the policy. Raises KafkatsError."""
    return {one.label: one.broker for one in named(read_policy(path).volumes)}
