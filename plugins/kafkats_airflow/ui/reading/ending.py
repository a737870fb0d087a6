"""The RUNs of a DAG run that can still be undone or purged, as end_run names them."""

from __future__ import annotations

from typing import NamedTuple

from kafkats_airflow.approvals.answers import joined
from kafkats_airflow.ui.reading.run import Detail


class Open(NamedTuple):
    """RUNs with undo material. `bytes` is what a purge frees, None if no report tells.

    `name` is that of the DAG run's folder: with verb and digest it names the run of end_run, so
    that a second click makes no second one.
    """

    digest: str
    runs: int
    files: int
    bytes: int | None
    name: str


def open_of(run: Detail) -> Open | None:
    """Return the RUNs that are neither undone nor purged, None if there is none."""
    standing = [one for one in run.changes if one.undone_ms is None and one.purged_ms is None]
    if not standing:
        return None
    kept = (
        {one.digest: sum(one.bytes.values()) for one in run.overview.undo} if run.overview else {}
    )
    known = [kept[one.digest] for one in standing if one.digest in kept]
    return Open(
        joined(one.digest for one in standing),
        len(standing),
        sum(one.outcomes.get("done", 0) + one.outcomes.get("already", 0) for one in standing),
        sum(known) if len(known) == len(standing) else None,
        run.folder.name,
    )
