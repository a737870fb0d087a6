"""Checks before a submit: a readable policy, a writable folder, known connections.

Only a person can mend what is wrong here, so every failure is a UsageError, which is not retried.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from airflow.sdk import BaseHook

from kafkats.config.policy import Policy
from kafkats.config.reading import read_policy
from kafkats.errors import DiskFull, StorageFailed, UsageError, storage
from kafkats_airflow import settings
from kafkats_airflow.airflow_versions import AirflowNotFoundException
from kafkats_airflow.forms.values import RunParams


def policy_of(params: RunParams) -> Policy:
    """Return the run's policy. Raises UsageError if it cannot be read or is wrong."""
    path, other = Path(params["policy"]), "name another with the param policy, or KAFKATS_POLICY"
    try:
        with storage(path, "looking for it"):
            path.stat()
        return read_policy(path)
    except StorageFailed as e:
        why = f"the policy cannot be read on this worker: {e.reason}; {other}"
        raise UsageError(why, path=e.path or path) from e


def one_pyspark() -> None:
    """Raise UsageError where pyspark and pyspark-client have different versions: both install into
    the folder pyspark, where the one that came last has overwritten files of the other.

    Only if jobs run in this Python.
    """
    if settings.job_python() != sys.executable:
        return
    found = {}
    for name in ("pyspark", "pyspark-client"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if len({*found.values()}) > 1:
        versions = " and ".join(map(" ".join, found.items()))
        raise UsageError(
            f"this Python has {versions}, which overwrite each other's files; install both in one"
            " version, or name another Python for the jobs with KAFKATS_JOB_PYTHON"
        )


def amount(parse: Callable[[str], int], text: str, name: str) -> int:
    """Return the parsed value of the param `name`. Raises UsageError."""
    try:
        return parse(text)
    except ValueError as e:
        raise UsageError(f"{name}: {e}") from e


def writable(folder: str | Path) -> Path:
    """Return the folder of all runs; create it if it is missing. Raises UsageError if it is not
    writable, DiskFull.
    """
    path = Path(folder)
    try:
        with storage(path, "writing in it"):
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path) as file:
                file.write(b"written")
                file.flush()
    except DiskFull:
        raise
    except StorageFailed as e:
        raise UsageError(
            f"the folder cannot be written on this worker: {e.reason}; name another with the param"
            " folder, or KAFKATS_FOLDER, or let the user of the workers write there",
            path=path,
        ) from e
    return path


def connected(conn_id: str) -> str:
    """Return the type of a connection.

    Raises UsageError for one unknown to Airflow: the provider would submit to YARN; and for one
    whose driver would run elsewhere.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
        mode = connection.extra_dejson.get("deploy-mode")
    except AirflowNotFoundException:
        raise UsageError(
            f"Airflow has no connection {conn_id!r}, which the policy names for its volumes; add it"
            f" (airflow connections add {conn_id} --conn-type spark --conn-host ...), or mend"
            " `connection` in the policy"
        ) from None
    if mode == "cluster":
        raise UsageError(
            f"the connection {conn_id!r} has deploy mode cluster: the driver must run on this"
            " worker; set its deploy mode to client"
        )
    return str(connection.conn_type or "")
