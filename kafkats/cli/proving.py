"""Prove the files that a plan or a run wrote, and report it: for verify and certify."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats.cli.generated import options
from kafkats.cli.options import policy_of
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted
from kafkats.inspect.options import ProofOptions

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.inspect.verify import VerifyOptions
    from kafkats.plans.proof import Proof
    from kafkats.plans.units import Unit

_SHOWN: Final = 200


PROOF = options(ProofOptions)


def verify_options(
    rule: str, policy_file: Path | None, settings: Iterable[str], *, deep: bool
) -> VerifyOptions:
    """Return the options; settings that verify does not read are reported on standard error."""
    from kafkats.inspect.verify import VerifyOptions

    policy = policy_of(policy_file, settings, reads=INDEXES)
    return VerifyOptions(rule=rule, deep=deep, policy=policy)


def check_written(of_plan: Path | None, of_run: Sequence[Path]) -> None:
    """Raise Refused where a path is another volume than the one that was written."""
    from kafkats.plans.plan import read_plan
    from kafkats.plans.run import read_run, run_of
    from kafkats.plans.volumes import check_volumes

    if of_plan:
        check_volumes(of_plan, run_of(read_plan(of_plan)).directories)
    for folder in of_run:
        check_volumes(folder, read_run(folder).directories)


def prove_written(
    executor: Executor,
    of_plan: Path | None,
    of_run: Sequence[Path],
    units: Sequence[Unit],
    options: VerifyOptions,
) -> tuple[Proof, dict[str, Any]]:
    """Prove what a plan or runs wrote. Return the proof and its summary. Raises as flow.proving."""
    from kafkats.flow.proving import prove
    from kafkats.flow.proving_runs import prove_runs
    from kafkats.plans.plan import read_plan

    if of_plan:
        proof = prove(executor, read_plan(of_plan), of_plan, units, options)
        return proof, proof.summary()
    proof = prove_runs(executor, of_run, units, options)
    return proof, proof.summary() | {"runs": [str(folder) for folder in of_run]}


def proof_sentences(proof: Proof) -> list[str]:
    """Return a line for each wrong file, and the number of those that are as planned."""
    sentences = [f"not as it should be: {reason}" for reason in proof.reasons[:_SHOWN]]
    return [*sentences, f"proved: {proof.equal} of {counted(proof.files, 'file')} as planned"]
