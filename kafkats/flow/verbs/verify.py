"""List the defects of logs and indexes, or prove what was written."""

from __future__ import annotations

from collections.abc import Sequence

from kafkats.config.options import IndexSettings, Report, Topics
from kafkats.errors import UsageError
from kafkats.findings import DEFECTS
from kafkats.flow import looking
from kafkats.flow.dispatch import Work
from kafkats.flow.keeping import keep_proof, keep_segments
from kafkats.flow.looking import units_of
from kafkats.flow.proving import check_written, prove_written
from kafkats.flow.steps import check_step, tell_step
from kafkats.inspect.options import Deep, ProofOptions, VerifyDepth
from kafkats.inspect.verify import VerifyOptions
from kafkats.migration.options import Step
from kafkats.plans.depths import depth_totals
from kafkats.plans.units import Unit
from kafkats.text import Flag


def perform(work: Work) -> None:
    """Verify the request's log directories. Ends with findings if one is damage or danger, or if a
    written file is not as planned.

    Raises UsageError for options that do not go together, and as `units_of`.
    """
    request, step, proof = work.request, work.request.of(Step), work.request.of(ProofOptions)
    topics, depth = request.of(Topics).topics, request.of(VerifyDepth).depth
    check_step(step.ledger, step.phase, step.broker, topics)
    deep = request.of(Deep).deep or depth == "deep"
    proves = bool(proof.of_plan or proof.of_run)
    if depth == "tail" and (deep or step.ledger or proves):
        raise UsageError(
            *(Flag("--depth"), " tail does not read whole segments: "),
            *(Flag("--deep"), ", ", Flag("--ledger"), ", ", Flag("--of-plan"), " and "),
            *(Flag("--of-run"), " need ", Flag("--depth"), " full"),
        )
    policy = request.settings()
    options = VerifyOptions(rule=request.of(IndexSettings).rule, deep=deep, policy=policy)
    check_written(proof)
    units = units_of(work, policy=policy, proves=proves)
    if proves and step.ledger:
        raise UsageError(
            *(Flag("--ledger"), " records whole brokers: leave "),
            *(Flag("--of-plan"), " and ", Flag("--of-run"), " out"),
        )
    if proves:
        _prove(work, proof, units, options)
    else:
        _look(work, units, options, depth)


def _prove(work: Work, asked: ProofOptions, units: Sequence[Unit], options: VerifyOptions) -> None:
    done, report = work.done, work.request.of(Report).report
    proof = prove_written(work.executor, asked, units, options)
    done.found = keep_segments(proof.segments, report)
    keep_proof(proof, asked, done)
    done.end_with(int(bool(proof.not_equal)))
    work.show.proof(proof)


def _look(work: Work, units: Sequence[Unit], options: VerifyOptions, depth: str) -> None:
    done, request, step = work.done, work.request, work.request.of(Step)
    looked = looking.look(work.executor, units, options, depth=depth)
    found = keep_segments(looked.segments, request.of(Report).report)
    done.found = found | depth_totals(looked.segments)
    if depth == "tail":
        done.found["looked_bytes"] = looked.read_bytes
    done.end_with(int(found["worst"] in DEFECTS))
    work.show.verified(looked)
    if not done.exit_code:
        details = {"deep": options.deep}
        tell_step(step.ledger, "verified", step.phase, step.broker, by=request.by, details=details)
