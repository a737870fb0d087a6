"""The operation `migrate` (kafkats.plans.operation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats.config.given import Given, stored
from kafkats.config.options import Dialect
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted, size_text
from kafkats.migration.options import Back, ClientMix, Migrate, Step, ToDialect
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.plans.operation import (
    Decide,
    Joined,
    Operation,
    Parts,
    Planned,
    Proving,
    Stages,
    always,
)
from kafkats.text import Flag

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.plans.proof import Proof
    from kafkats.plans.rows import Header
    from kafkats.plans.units import Unit


def _prepare(given: Given, policy: Policy, *, some: bool = False) -> Decide:
    """Prepare to decide about all partitions, or about some: then a loss is not refused yet."""
    from kafkats.migration.client_costs import estimate, read_mix
    from kafkats.migration.forecast import FORECAST, forecast_unit, target_of
    from kafkats.migration.plan import MigrateOptions, check_phase, check_rule, decide_migrate
    from kafkats.plans.contradictions import noted
    from kafkats.plans.dialect_hook import migration_of
    from kafkats.plans.dialects import refuse_broker

    migrate, step, to = given.of(Migrate), given.of(Step), given.of(ToDialect).to
    source = given.of(Dialect).dialect
    magic = _magic(given, migrate.to_magic, to, source)
    target = target_of(magic, migrate.compression_type, to, source)
    ledger = str(step.ledger.absolute()) if step.ledger else ""
    instead = {"to_magic": magic, "ledger": ledger, "to": to or "", "dialect": source or ""}
    options = stored(MigrateOptions, migrate, step, **instead)
    check_rule(options.rule)
    check_phase(options)
    path = given.of(ClientMix).clients
    mix = None if path is None else read_mix(path, magic, to)

    def decide(stages: Stages, units: Sequence[Unit]) -> Planned:
        for log_dir in {unit.log_dir for unit in units} if to else ():
            refuse_broker(Path(log_dir), to or "")
        segments = stages.verify(units, rule=options.rule, policy=policy)
        do = partial(forecast_unit, target=target)
        forecast = stages.executor.map(
            "forecast", units, do, FORECAST, size=lambda unit: unit.bytes
        )
        segments = migration_of(source).trusted(segments) if source else segments
        plan, lost = decide_migrate(segments, forecast, options)
        notes: Mapping[str, Any] = {"lost": list(lost), **noted(plan, segments)}
        planned = Planned(plan, segments, {"forecast": forecast}, notes=notes)
        if some:
            return planned
        planned = planned._replace(remarks=_join(given, (notes,)).remarks)
        if mix is None:
            return planned
        told = estimate(mix, units, magic)
        return planned._replace(more={"clients": told.summary}, sentences=told.sentences)

    return decide


def _in_parts(given: Given) -> bool:
    """Return whether no option asks about all partitions at once, or about earlier runs."""
    back = given.of(Back)
    return not any((given.of(ClientMix).clients, back.only_newer, back.runs))


def _join(_: Given, notes: Sequence[Mapping[str, Any]]) -> Joined:
    """Return the remarks about all partitions. Raises Refused for a loss that was not accepted."""
    from kafkats.migration.plan import Lost, refuse_losses
    from kafkats.plans.contradictions import noted_remarks

    refuse_losses([Lost(*one["lost"]) for one in notes])
    return Joined(noted_remarks(notes))


def _magic(given: Given, to_magic: int | None, to: str | None, source: str | None) -> int:
    """Return the magic to write. Raises UsageError, Refused as the dialect's `check`."""
    from kafkats.errors import UsageError
    from kafkats.plans.dialect_hook import dialect

    if (to_magic is None) == (to is None):
        raise UsageError("name the format to convert to: ", Flag("--to-magic"))
    name = to or source
    if name is None:
        assert to_magic is not None
        return to_magic
    migration = dialect(name).migration
    if migration is None:
        raise UsageError(Flag("--dialect"), f" {name}: logs of this dialect are not converted")
    migration.check(given)
    return migration.magic if to_magic is None else to_magic


def prove(request: Proving) -> Proof:
    """Prove indexes and logs, also of a dialect. Raises as plans.proof.prove."""
    from kafkats.plans.dialect_hook import migration_of
    from kafkats.plans.proof import prove

    to = request.plan.header["options"].get("to")
    return migration_of(str(to)).prove_written(request) if to else prove(request)


def _sentences(header: Header) -> Iterator[str]:
    totals = header["totals"]
    yield (
        f"rewrites {counted(totals['batches_before'], 'batch')} into"
        f" {totals['batches_after']}: {counted(totals['records'], 'record')} converted, the others"
        " copied as they are"
    )
    yield (
        f"{size_text(totals['read_bytes'])} of logs become {size_text(totals['write_bytes'])}; both"
        " are on the disk until purge"
    )
    if header["options"].get("to"):
        yield f"no broker can read them: the dialect {header['options']['to']}"
    if totals["losses"]:
        losses = ", ".join(f"{loss} ({count})" for loss, count in totals["losses"].items())
        yield f"LOST by this: {losses}"


OPERATION: Final = Operation(
    "migrate",
    "Plan which segments to convert to another message format. The plan has the size of each new"
    " file and every loss.",
    (Migrate, ToDialect, Dialect, Back, Step, ClientMix),
    always(INDEXES),
    _prepare,
    "kafkats.migration.stage",
    "migrated",
    proof="kafkats.migration.operation",
    follows=(OFFSET_INDEX, TIME_INDEX),
    sentences=_sentences,
    parts=Parts(_in_parts, lambda _: False, _join, partial(_prepare, some=True)),
    totals=("batches_before", "batches_after", "records", "losses"),
    proved_by_settings=True,
)
