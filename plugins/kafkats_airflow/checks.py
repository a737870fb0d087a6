"""What a run needs before anything is submitted: a policy that can be read, a folder that can be written, connections.

Whatever is wrong here stays wrong until somebody mends it, so all of it is a UsageError: no task tries it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from kafkats.config import Policy, read_policy
from kafkats.errors import DiskFull, StorageFailed, UsageError, storage

Params = Mapping[str, Any]


def policy_of(params: Params) -> Policy:
    """The run's policy. Raises UsageError when it cannot be read or says something wrong."""
    path, other = Path(params["policy"]), "name another with the param policy, or KAFKATS_POLICY"
    try:
        with storage(path, "looking for it"):
            path.stat()
        return read_policy(path)
    except StorageFailed as e:
        why = f"the policy cannot be read on this worker: {e.reason}; {other}"
        raise UsageError(why, path=e.path or path) from e


def amount(parse: Callable[[str], int], text: str, name: str) -> int:
    """What `parse` makes of the param `name`. Raises UsageError."""
    try:
        return parse(text)
    except ValueError as e:
        raise UsageError(f"{name}: {e}") from e


def writable(folder: str | Path) -> Path:
    """The folder of all runs, which is made if it is not there. Raises UsageError when nothing can be written in it, DiskFull."""
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
            f"the folder cannot be written on this worker: {e.reason}; name another with the param folder, or KAFKATS_FOLDER,"
            " or let the user of the workers write there",
            path=path,
        ) from e
    return path


def connected(conn_id: str) -> None:
    """Raises UsageError for a connection that Airflow does not know: a submit would go to a YARN that is not there."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise UsageError(
            f"Airflow has no connection {conn_id!r}, which the policy names for its volumes; add it"
            f" (airflow connections add {conn_id} --conn-type spark --conn-host ...), or mend `connection` in the policy"
        ) from None
