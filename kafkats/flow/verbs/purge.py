"""Delete the old files of runs: only this frees their space."""

from __future__ import annotations

from kafkats.flow.applying import purge
from kafkats.flow.dispatch import Work
from kafkats.flow.verbs.undo import digest_of, note_end
from kafkats.plans.options import Purge
from kafkats.plans.run import ended_ms
from kafkats.result import Ran


def perform(work: Work) -> None:
    """Purge the request's runs. A run that ended too recently is kept. Raises as flow.purge."""
    request, done = work.request, work.done
    options = request.of(Purge)
    now_ms = request.made_ms if options.now is None else options.now
    for run in request.runs:
        ran = Ran(folder=str(run.folder), digest=digest_of(run))
        if options.older_than and ended_ms(run.folder) + options.older_than > now_ms:
            ran.not_due = True
            done.runs.append(ran)
        else:
            note_end(work, ran, purge(work.executor, run.folder, abandon=options.abandon))
