"""Reservations of all the log dirs of a plan or a run: what the kafkats command and the Spark jobs do alike.

    with planning(log_dirs, wish) as ours:      reserves, unless nobody wishes it
        ... look at ours.log_dirs ...
        ours.write(plan, folder)                keeps what the plan writes to; the rest is released at the end
    with changing(run, folder) as held:         reserves while it writes, and releases at the end

A reserved plan's folder and a run's folder hold `reservation.json`, which no digest covers: holder, end, and the token
of each log dir. By it `apply` and `undo` know their own reservation again.
"""

from kafkats.reserving.plans import Planning, Wish, planning
from kafkats.reserving.record import DAY_MS, RECORD, now_ms, read_record, root_of, somebody
from kafkats.reserving.releasing import release_all, release_sentences
from kafkats.reserving.runs import Held, changing

__all__ = [
    "DAY_MS",
    "RECORD",
    "Held",
    "Planning",
    "Wish",
    "changing",
    "now_ms",
    "planning",
    "read_record",
    "release_all",
    "release_sentences",
    "root_of",
    "somebody",
]
