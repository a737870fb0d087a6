"""The proof of a plan by its operation, on the stages of this flow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from kafkats.execution import Executor
from kafkats.flow.looking import LogStages
from kafkats.inspect.verify import VerifyOptions
from kafkats.operations import operation
from kafkats.plans.operation import Proving
from kafkats.plans.plan import Plan
from kafkats.plans.proof import Proof
from kafkats.plans.units import Unit


def prove(
    executor: Executor,
    plan: Plan,
    folder: Path,
    units: Iterable[Unit],
    options: VerifyOptions,
    *,
    later: Collection[tuple[str, str]] = (),
) -> Proof:
    """Prove what the plan in `folder` wrote. In the partitions of `later` another run has written
    since.

    Raises CorruptFile, CorruptPlan, StorageFailed.
    """
    stages = LogStages(executor, options)
    return operation(plan.operation).prove(Proving(stages, plan, folder, units, later))
