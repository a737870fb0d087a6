"""The operation `roll` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import MissingRecords
from kafkats.paths import SEGMENT_KINDS
from kafkats.plans.operation import Decide, Joined, Operation, Parts, Planned, Stages
from kafkats.rolling.options import Roll, Simulation

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.units import Unit

READS: Final = frozenset({
    "segment.ms", "segment.bytes", "segment.jitter.ms", "segment.index.bytes", "cleanup.policy",
    "max.compaction.lag.ms",
})  # fmt: skip
SIMULATION_READS: Final = READS | {
    "index.interval.bytes", "retention.ms", "retention.bytes", "message.timestamp.type",
    "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms",
}  # fmt: skip
"""The topic settings that `simulate roll` reads."""


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.rolling.early_rolls import early_remarks
    from kafkats.rolling.plan import RollOptions, damaged_in, plan_roll, rolled
    from kafkats.rolling.simulate import SIMULATED, SimulateOptions, simulate_units

    roll = given.of(Roll)
    options = stored(RollOptions, roll, given.of(MissingRecords), now_ms=given.at(roll.now))

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments = stages.ends(units)
        plan, due = plan_roll(segments, policy, options)
        closes = rolled(due)
        verified = stages.verify([unit for unit in units if unit.key in closes])
        if damaged := damaged_in(verified, options.accept_loss):
            plan, due = plan_roll(segments, policy, options, damaged)
        beside, remarks = {"due": due}, list[str]()
        if given.of(Simulation).simulate:
            simulation = stored(SimulateOptions, roll, now_ms=options.now_ms)
            rows = simulate_units(stages.executor, units, policy, simulation)
            beside["simulated"] = rows.select(SIMULATED.names)
            remarks = early_remarks(rows.to_pylist(), policy)
        return Planned(plan, segments, beside, remarks, more={"now_ms": options.now_ms})

    return decide


def _join(given: Given, _: Sequence[Mapping[str, Any]]) -> Joined:
    return Joined(more={"now_ms": given.at(given.of(Roll).now)})


def _reads(given: Given) -> frozenset[str]:
    return SIMULATION_READS if given.of(Simulation).simulate else READS


OPERATION: Final = Operation(
    "roll",
    "Plan which active segments to roll by message time. Retention can then delete their records.",
    (Roll, Simulation, MissingRecords),
    _reads,
    _prepare,
    "kafkats.rolling.plan",
    "rolled",
    proof="kafkats.rolling.proof",
    follows=SEGMENT_KINDS[1:],
    parts=Parts(lambda given: not given.of(Simulation).simulate, lambda _: True, _join),
    by_topic=True,
    proves_log_end=True,
)
