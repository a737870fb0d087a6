"""Break the reservations of log directories."""

from __future__ import annotations

from kafkats.config.options import WorkArea
from kafkats.flow.dispatch import Work
from kafkats.reserving import release_all
from kafkats.result import Released


def perform(work: Work) -> None:
    """Release the request's log directories, or only the reservations of its holder."""
    request, done = work.request, work.done
    log_dirs = [one.path for one in request.log_dirs]
    place = request.of(WorkArea).place
    for row in release_all(log_dirs, holder=request.holder, place=place):
        done.end_with(row["exit_code"])
        done.released.append(Released.model_validate(row))
