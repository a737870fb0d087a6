"""Delete the old files of runs: only this frees their space."""

from __future__ import annotations

from kafkats.flow.applying import purge
from kafkats.flow.dispatch import Work
from kafkats.flow.verbs.undo import digest_of
from kafkats.plans.options import Purge
from kafkats.plans.run import ended_ms
from kafkats.result import Ran


def perform(work: Work) -> None:
    """Purge the request's runs, of which one may have ended too recently. Raises as flow.purge."""
    request, done = work.request, work.done
    options = request.of(Purge)
    now_ms = request.made_ms if options.now is None else options.now
    for run in request.runs:
        digest, folder = digest_of(run), str(run.folder)
        if options.older_than and ended_ms(run.folder) + options.older_than > now_ms:
            done.runs.append(Ran(folder=folder, digest=digest, not_due=True))
            continue
        ended = purge(work.executor, run.folder, abandon=options.abandon)
        freed = {name: ended.total(name) for name in ("files", "freed_bytes")}
        done.runs.append(Ran(folder=folder, digest=digest, errors=ended.errors, **freed))
        done.remarks += ended.remarks
        done.end_with(ended.exit_code)
        work.show.ended("purge", ended)
