"""Break the reservations of log directories."""

from __future__ import annotations

from kafkats.config.options import WorkArea
from kafkats.flow.dispatch import Work
from kafkats.reserving.releasing import release_all


def perform(work: Work) -> None:
    """Release the request's log directories, or only the reservations of its holder and of those
    that it takes over: they are known to have ended.
    """
    request, done = work.request, work.done
    over = request.reservation.take_over if request.reservation else ()
    log_dirs = [one.path for one in request.log_dirs]
    place = request.of(WorkArea).place
    done.released = release_all(log_dirs, holder=request.holder, over=over, place=place)
    done.end_with(max((one.exit_code for one in done.released), default=0))
