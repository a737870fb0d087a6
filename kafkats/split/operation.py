"""The operation `split` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import IndexSettings, MissingRecords
from kafkats.config.settings_read import INDEXES
from kafkats.paths import SEGMENT_KINDS
from kafkats.plans.operation import Decide, Joined, Operation, Parts, Planned, Stages, always
from kafkats.split.options import Split

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.units import Unit


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.plans.contradictions import noted, noted_remarks
    from kafkats.split.parts import PARTS, SplitOptions, check_options, look
    from kafkats.split.plan import plan_split

    split = given.of(Split)
    models = split, given.of(MissingRecords), given.of(IndexSettings)
    options = stored(SplitOptions, *models, latest_ms=given.at(split.latest))
    check_options(options)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments = stages.verify(units, rule=options.rule, policy=policy)
        do = partial(look, options=options)
        parts = stages.executor.map("parts", units, do, PARTS, size=lambda unit: unit.bytes)
        plan = plan_split(segments, parts, options)
        notes = noted(plan, segments)
        return Planned(plan, segments, {"parts": parts}, noted_remarks((notes,)), notes=notes)

    return decide


def _join(_: Given, notes: Sequence[Mapping[str, Any]]) -> Joined:
    from kafkats.plans.contradictions import noted_remarks

    return Joined(noted_remarks(notes))


OPERATION: Final = Operation(
    "split",
    "Plan which segments to split between two batches. Retention by time then works again.",
    (Split, MissingRecords, IndexSettings),
    always(INDEXES),
    _prepare,
    "kafkats.split.plan",
    "split",
    proof="kafkats.split.proof",
    follows=SEGMENT_KINDS[1:],
    parts=Parts(lambda _: True, lambda _: False, _join),
    proved_by_settings=True,
)
