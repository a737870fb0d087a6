"""Certify the message formats in log directories, or look whether a certificate is still true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats.config.options import IndexSettings, Topics
from kafkats.errors import UsageError
from kafkats.flow import looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_census, keep_certificate, keep_proof, keep_segments
from kafkats.flow.looking import units_of
from kafkats.flow.proving import prove_written
from kafkats.flow.steps import check_step, tell_step
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
    units, proof = units_of(work), None
    written = request.of(ProofOptions)
    if written.of_plan or written.of_run:
        rule, policy = request.of(IndexSettings).rule, request.settings()
        reading = VerifyOptions(rule=rule, deep=asked.deep, policy=policy)
        proof = prove_written(work.executor, written, units, reading)
    certificate = looking.certify(work.executor, units, options)
    work.show.certified(certificate)
    work.done.found = keep_segments(proof.segments, asked.report) if proof else None
    keep(work, asked, certificate, units)
    work.done.more = {"log_dirs": list(log_dirs)}
    if proof:
        work.show.proof(proof)
        keep_proof(proof, written, work.done)
    wrong = bool(proof and proof.not_equal)
    work.done.end_with(int(wrong or not (proof or certificate.certified)))
    if certificate.certified and not wrong:
        _tell_certified(work, step, certificate)


def keep(
    work: Work, asked: Certify | UndoCertify, certificate: Certificate, units: Sequence[Unit]
) -> None:
    """Write the certificate, and the formats into the folder of the report, and note both."""
    kept = keep_certificate(certificate, asked.output)
    if asked.report:
        table = looking.count_formats(work.executor, units)
        work.done.census = keep_census(table, asked.report)
        work.done.reports["report"] = str(asked.report)
    work.done.certificate = kept


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
    again = looking.recheck(work.executor, certificate)
    work.show.rechecked(again)
    work.done.found = {
        "holds": again.holds,
        "unchanged": again.unchanged,
        "differences": len(again.differences),
        "statement": certificate.statement,
    }
    work.done.end_with(int(not again.unchanged))
