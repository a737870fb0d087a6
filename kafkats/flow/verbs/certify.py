"""Certify the message formats in log directories, or look whether a certificate is still true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafkats.config.options import IndexSettings, Topics
from kafkats.errors import UsageError
from kafkats.execution.executor import Executor
from kafkats.flow import certifying
from kafkats.flow.certifying import keep_census, keep_certificate
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_proof, kept_in
from kafkats.flow.looking import listing_of, units_of
from kafkats.flow.proving import prove_written
from kafkats.flow.steps import check_step, tell_step
from kafkats.flow.verbs.census import keep_census_of
from kafkats.flow.viewing import groups_of
from kafkats.inspect.options import ProofOptions
from kafkats.inspect.verify import VerifyOptions
from kafkats.migration.certificate import Certificate, CertifyOptions, read_certificate
from kafkats.migration.options import Certify, Step, UndoCertify
from kafkats.plans.units import Unit
from kafkats.text import Flag


def perform(work: Work) -> None:
    """Certify the request's log directories. Ends with findings if a batch lies outside of the
    bounds; after a proof only if that is wrong.

    Raises UsageError for options that do not go together, StorageFailed, and as `units_of`.
    """
    request, asked = work.request, work.request.of(Certify)
    if bool(request.log_dirs) == bool(asked.check):
        raise UsageError("name log directories, or a certificate to ", Flag("--check"))
    if asked.check:
        _check(work, asked.check)
        return
    step, topics = request.of(Step), request.of(Topics).topics
    check_step(step.ledger, step.phase, step.broker, topics)
    log_dirs = tuple(str(one.path) for one in request.log_dirs)
    options = CertifyOptions(log_dirs, topics, asked.min_magic, asked.max_magic, asked.deep)
    groups, proof = groups_of(work), None
    units = [] if groups else units_of(work)
    written = request.of(ProofOptions)
    if written.of_plan or written.of_run:
        rule, policy = request.of(IndexSettings).rule, request.settings()
        whole = VerifyOptions(rule=rule, deep=asked.deep, policy=policy)
        with kept_in(asked.report) as read:
            proof = prove_written(work.executor, written, listing_of(work), whole, read.keep)
        work.done.found = read.found
    if groups:
        certificate = certifying.certify_groups(work.executor, groups, options)
        census = partial(keep_census_of, work.executor, groups)
    else:
        certificate = certifying.certify(work.executor, units, options)
        census = partial(count, work.executor, units)
    work.show.certified(certificate)
    keep(work, asked, certificate, census)
    work.done.more = {"log_dirs": list(log_dirs)}
    if proof:
        work.show.proof(proof)
        keep_proof(proof, written, work.done)
    wrong = bool(proof and proof.not_equal)
    work.done.end_with(int(wrong or not (proof or certificate.certified)))
    if certificate.certified and not wrong:
        _tell_certified(work, step, certificate)


def keep(
    work: Work,
    asked: Certify | UndoCertify,
    certificate: Certificate,
    census: Callable[[Path], dict[str, Any]],
) -> None:
    """Write the certificate, and with `census` the formats into the folder of the report, and note
    both.
    """
    kept = keep_certificate(certificate, asked.output)
    if asked.report:
        work.done.census = census(asked.report)
        work.done.reports["report"] = str(asked.report)
    work.done.certificate = kept


def count(executor: Executor, units: Sequence[Unit], report: Path) -> dict[str, Any]:
    """Count the formats of units into the folder of a report, as `keep_census`."""
    return keep_census(certifying.count_formats(executor, units), report)


def _tell_certified(work: Work, step: Step, certificate: Certificate) -> None:
    """Tell the ledger of the migration, if there is one, that its broker is certified."""
    options = certificate.options
    details = {
        "min_magic": options.min_magic,
        "max_magic": options.max_magic,
        "digest": certificate.digest,
        "log_dirs": list(options.log_dirs),
    }
    known = {key: value for key, value in details.items() if value is not None}
    by = work.request.by
    tell_step(step.ledger, "certified", step.phase, step.broker, by=by, details=known)


def _check(work: Work, folder: Path) -> None:
    """Look again at what a certificate states."""
    certificate = read_certificate(folder)
    again = certifying.recheck(work.executor, certificate)
    work.show.rechecked(again)
    work.done.found = {
        "holds": again.holds,
        "unchanged": again.unchanged,
        "differences": len(again.differences),
        "statement": certificate.statement,
    }
    work.done.end_with(int(not again.unchanged))
