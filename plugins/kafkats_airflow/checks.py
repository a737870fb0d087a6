"""Checks before a submit: a readable policy, a writable folder, known connections.

Only a person can mend what is wrong here, so every failure is a UsageError, which is not retried.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from airflow.providers.common.compat.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from kafkats.config.policy import Policy
from kafkats.config.reading import read_policy
from kafkats.errors import DiskFull, StorageFailed, UsageError, storage
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


def connected(conn_id: str) -> None:
    """Raises UsageError for a connection unknown to Airflow: the provider would submit to YARN; and
    for one whose driver would run elsewhere.
    """
    try:
        mode = BaseHook.get_connection(conn_id).extra_dejson.get("deploy-mode")
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
