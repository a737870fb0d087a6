"""Check that this api-server sees the folder of all runs that the workers see.

The XCom of the newest first task tells what they see (kafkats_airflow.shared_folder).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Collection
from pathlib import Path

from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from kafkats_airflow.shared_folder import KEY, Seen, seen_in, variable_of

LOOKED_AT = 20
"""XComs, the newest first: runs with another folder are passed over."""


def elsewhere(folder: Path, dag_ids: Collection[str]) -> Seen | None:
    """Return what a worker saw at this path, if it is not what is seen here; notes it for the next
    run.
    """
    seen = _newest(folder, dag_ids)
    if seen is None:
        return None
    try:
        found = None if seen.is_at(folder) else seen
    except OSError:
        found = seen
    _keep(seen.folder, found)
    return found


def _newest(folder: Path, dag_ids: Collection[str]) -> Seen | None:
    """Return what the newest first task of these DAGs saw, None if none has told it."""
    with create_session() as session:
        rows = session.scalars(
            select(XComModel)
            .where(XComModel.key == KEY, XComModel.dag_id.in_(dag_ids))
            .order_by(XComModel.timestamp.desc())
            .limit(LOOKED_AT)
        )
        told = [seen_in(XComModel.deserialize_value(row)) for row in rows]
    return next((one for one in told if one and Path(one.folder) == folder), None)


def _keep(folder: str, found: Seen | None) -> None:
    """Note in a Variable what is not seen from here; remove the note if all is seen."""
    key = variable_of(folder)
    with create_session() as session:
        known = session.scalar(select(Variable).where(Variable.key == key))
        old = seen_in(json.loads(known.val)) if known is not None and known.val else None
        made = found and found.model_copy(update={"host": socket.gethostname()})
        if old == made:
            return
        if made is None:
            Variable.delete(key, session=session)
        else:
            said = f"{folder} on the workers is not seen from this api-server (kafkats)"
            Variable.set(key, made.model_dump_json(), description=said, session=session)
