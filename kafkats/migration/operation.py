"""The operation `migrate` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkats.config.given import Given, stored
from kafkats.config.settings_read import INDEXES
from kafkats.migration.options import Back, Migrate, Step
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.plans.operation import (
    Decide,
    Operation,
    Planned,
    Stages,
    Writer,
    always,
    size_text,
)

if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit


def _prepare(given: Given, policy: Policy) -> Decide:
    from kafkats.migration.forecast import FORECAST, forecast_unit, target_of
    from kafkats.migration.plan import MigrateOptions, check_phase, check_rule, plan_migrate
    from kafkats.plans.contradictions import interval_remarks

    migrate, step = given.of(Migrate), given.of(Step)
    target = target_of(migrate.to_magic, migrate.compression_type)
    ledger = str(step.ledger.absolute()) if step.ledger else ""
    options = stored(MigrateOptions, migrate, step, ledger=ledger)
    check_rule(options.rule)
    check_phase(options)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        segments = stages.verify(units, rule=options.rule, policy=policy)
        do = partial(forecast_unit, target=target)
        forecast = stages.executor.map(
            "forecast", units, do, FORECAST, size=lambda unit: unit.bytes
        )
        plan = plan_migrate(segments, forecast, options)
        return Planned(plan, segments, {"forecast": forecast}, interval_remarks(plan, segments))

    return decide


def _writer() -> Writer:
    from kafkats.migration import stage

    return stage


def _sentences(header: Header) -> list[str]:
    totals = header["totals"]
    sentences = [
        f"{totals['batches_before']} batches become {totals['batches_after']},"
        f" {totals['records']} records; {size_text(totals['read_bytes'])} of logs become"
        f" {size_text(totals['write_bytes'])}, and both lie on the disk until purge"
    ]
    if totals["losses"]:
        losses = ", ".join(f"{loss} ({count})" for loss, count in totals["losses"].items())
        sentences.append(f"LOST by this: {losses}")
    return sentences


OPERATION: Final = Operation(
    "migrate",
    "Plan which segments to convert to another message format. The plan has the size of each new"
    " file and every loss.",
    (Migrate, Back, Step),
    always(INDEXES),
    _prepare,
    _writer,
    "migrated",
    follows=(OFFSET_INDEX, TIME_INDEX),
    sentences=_sentences,
    numbers=("batches_before", "batches_after", "records"),
    counts=("losses",),
    proved_by_settings=True,
)
