"""The RUNs of a DAG run that can still be undone or purged, and its reservations, for end_run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkats.errors import KafkatsError
from kafkats_airflow.approvals.answers import joined
from kafkats_airflow.reading.files import is_dir
from kafkats_airflow.reading.runs import chosen_by
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


class Held(NamedTuple):
    """The reservations that a run has left. `made_ms` is the time of one of them: with the run's
    `name` it names the run of end_run that releases them.
    """

    log_dirs: list[str]
    made_ms: int
    name: str


def held_by(run: Detail, holder: str) -> Held | None:
    """Return what `holder` has reserved, as far as it is seen from here, None for nothing.

    A run that was ended while it asked has reserved what it asks about, seen from here or not.
    """
    from kafkats.logdir.reservation import read_reservation, reservation_area

    times: dict[str, int] = {}
    for log_dir in sorted(chosen_by(run.folder)):
        if not is_dir(Path(log_dir)):
            if run.over and run.question is not None:
                times[log_dir] = run.question.asked_ms
            continue
        with suppress(KafkatsError):
            found = read_reservation(reservation_area(log_dir))
            if found is not None and found.holder == holder:
                times[log_dir] = found.made_ms
    return Held(list(times), max(times.values()), run.folder.name) if times else None
