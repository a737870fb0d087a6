"""Put back the files of runs, and certify what lies there then."""

from __future__ import annotations

from functools import partial

from kafkats.errors import Changed, UsageError
from kafkats.flow.applying import Ended, undo
from kafkats.flow.dispatch import Work, seen
from kafkats.migration.options import UndoCertify
from kafkats.plans.run import read_run
from kafkats.request import Folder
from kafkats.result import Ran
from kafkats.text import Flag


def perform(work: Work) -> None:
    """Undo the request's runs in their order, up to the first that cannot be undone: what the runs
    after it left lies below that.

    Raises UsageError, Refused and its children, and as flow.undo.
    """
    request, options = work.request, work.request.of(UndoCertify)
    if not options.certified and (
        options.max_magic is not None or options.output or options.report
    ):
        raise UsageError(
            Flag("--max-magic"), ", -o and ", Flag("--report"), " go with ", Flag("--certify")
        )
    done = work.done
    digests = [digest_of(run) for run in request.runs]
    done.approval = work.deployment.check_approval(request.record, digests)
    for run, digest in zip(request.runs, digests, strict=True):
        ended = undo(work.executor, run.folder, holder=request.holder or "", by=request.by)
        note_end(work, Ran(folder=str(run.folder), digest=digest), ended)
        if ended.exit_code:
            return
    if options.certified:
        _certify(work, options)


def note_end(work: Work, ran: Ran, ended: Ended) -> None:
    """Note how a run was undone or purged, and show its rows."""
    done = work.done
    ran.files, ran.freed_bytes, ran.errors = ended.files, ended.freed_bytes, ended.errors
    done.runs.append(ran)
    done.remarks += ended.remarks
    done.end_with(ended.exit_code)
    work.show.ended(done.verb, ended)


def digest_of(run: Folder) -> str:
    """Return the digest of a run's plan. Raises Changed if another one was named."""
    digest = read_run(run.folder).digest
    if run.digest not in (None, digest):
        raise Changed(f"is a run of the plan {digest}, not of {run.digest}", path=run.folder)
    return digest


def _certify(work: Work, options: UndoCertify) -> None:
    from kafkats.flow import certifying
    from kafkats.flow.verbs.certify import count, keep
    from kafkats.migration.certificate import CertifyOptions
    from kafkats.plans.units import list_units

    units = list(list_units(options.certified))
    asked = CertifyOptions(tuple(map(str, options.certified)), max_magic=options.max_magic)
    certificate = certifying.certify(work.executor, units, asked)
    keep(work, options, certificate, partial(count, work.executor, units))
    work.done.log_dirs = seen(map(str, options.certified))
