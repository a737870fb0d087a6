"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.formats import keep_census, keep_certificate
from kafkats.cli.generated import Spreading, options
from kafkats.cli.making import MAKING, Decision, Making, show_plan
from kafkats.cli.options import (
    ACCEPT_OFFSETS,
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    POLICY,
    RULE,
    STEP,
    TOPICS,
    check_step,
    now_or,
    policy_of,
    units_in,
)
from kafkats.cli.retention import RETAIN, ROLL, policy_remarks
from kafkats.cli.session import session
from kafkats.cli.spark import Commands
from kafkats.config.settings_read import READS, retaining
from kafkats.errors import UsageError
from kafkats.migration.options import Back, Migrate
from kafkats.rebuild.options import Rebuild
from kafkats.retention.options import Beyond
from kafkats.split.options import Split

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.reserving import Planning


@click.group(cls=Commands)
def plan() -> None:
    """Decide what to do, and write it down for approval. Changes nothing. Exits with 1 when the
    plan has blocked rows.
    """


@plan.command("rebuild")
@MAKING
@options(Rebuild, all={"dest": "rewrite_sound"})
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def plan_rebuild(
    log_dirs: tuple[Path, ...],
    making: Making,
    rewrite_sound: bool,
    valid_prefix: bool,
    only_after_unclean_stop: bool,
    not_for_a_broker: bool,
    accept_loss: tuple[str, ...],
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Plan which index files to rebuild, and say why."""
    from kafkats.flow.planning import rebuild
    from kafkats.rebuild.plan import RebuildOptions

    options = RebuildOptions(
        rule=rule,
        topics=topics,
        all=rewrite_sound,
        valid_prefix=valid_prefix,
        only_after_unclean_stop=only_after_unclean_stop,
        not_for_a_broker=not_for_a_broker,
        accept_loss=accept_loss,
    )
    policy = policy_of(policy_file, settings, reads=READS["rebuild"])
    return making.make(
        log_dirs,
        lambda ours: Decision(rebuild(executor, units_in(ours.log_dirs, topics), options, policy)),
    )


@plan.command("migrate", cls=Spreading)
@MAKING
@options(Migrate, Back)
@STEP
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def plan_migrate(
    log_dirs: tuple[Path, ...],
    making: Making,
    to_magic: int,
    compression_type: str,
    only_newer: bool,
    certificate_folder: Path | None,
    runs: tuple[Path, ...],
    accept_loss: tuple[str, ...],
    ledger: Path | None,
    phase: str,
    broker: str,
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Plan which segments to convert to another message format, with the result's size and every
    loss.
    """
    from kafkats.migration.forecast import target_of
    from kafkats.migration.plan import MigrateOptions, check_phase

    if ledger and making.wish and making.wish.skip:
        raise UsageError("--ledger records whole brokers: leave --skip-reserved out")
    if certificate_folder and not only_newer:
        raise UsageError("--certify goes with --only-newer")
    check_step(ledger, phase, broker, topics)
    target_of(to_magic, compression_type)  # before anything is read
    options = MigrateOptions(
        to_magic=to_magic,
        compression_type=compression_type,
        accept_loss=accept_loss,
        rule=rule,
        ledger=str(ledger.absolute()) if ledger else "",
        phase=phase,
        broker=broker,
    )
    check_phase(options)
    policy = policy_of(policy_file, settings, reads=READS["migrate"])

    def decide(ours: Planning) -> Decision:
        from kafkats.flow import looking, planning
        from kafkats.flow.applying import closed
        from kafkats.flow.rolling_back import undoing, undone_in
        from kafkats.migration.certificate import CertifyOptions

        units = units_in(ours.log_dirs, topics)
        more: dict[str, Any] = {}
        said: list[str] = []
        if making.report:
            more["census"] = keep_census(looking.count_formats(executor, units), making.report)
        if runs and not closed(executor, runs):
            names = " ".join(map(str, runs))
            said = [f"can be undone, so nothing is planned: {names}"]
            return Decision(None, more | undoing(runs), said=said, undone=undone_in(runs))
        if only_newer:
            bounds = CertifyOptions(tuple(ours.log_dirs), topics, max_magic=to_magic)
            certificate = looking.certify(executor, units, bounds)
            told, said = keep_certificate(certificate, certificate_folder)
            more |= told
            newer = {(row["log_dir"], row["partition_dir"]) for row in certificate.exceptions}
            units = [unit for unit in units if (unit.log_dir, unit.partition_dir) in newer]
        return Decision(planning.migrate(executor, units, options, policy), more, said=said)

    return making.make(log_dirs, decide)


@plan.command("retain")
@MAKING
@RETAIN
@options(Beyond)
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def plan_retain(
    log_dirs: tuple[Path, ...],
    making: Making,
    rule: str,
    now: int | None,
    before: int | None,
    export: Path | None,
    free_bytes: int | None,
    over_guard: bool,
    inside_segments: bool,
    last_segment: bool,
    beyond_guard: Path | None,
    accept_loss: tuple[str, ...],
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Plan which segments to delete, as a broker would, and say why the others are kept."""
    from kafkats.flow.planning import write
    from kafkats.flow.retaining import retain_and_beyond
    from kafkats.retention.plan import RetainOptions

    policy = policy_of(policy_file, settings, export)
    options = RetainOptions(
        now_or(now), rule, before, free_bytes, over_guard, last_segment, accept_loss
    )
    operation = retaining(inside_segments=inside_segments)

    def decide(ours: Planning) -> Decision:
        units = units_in(ours.log_dirs, topics)
        found = retain_and_beyond(
            executor,
            units,
            options,
            policy,
            inside_segments=inside_segments,
            beyond=beyond_guard is not None,
            suspects=making.report is not None or session().scheduled,
        )
        more: dict[str, Any] = {"now_ms": options.now_ms, "before_ms": options.before_ms}
        more["over_guard"] = found.over_guard
        if found.beyond is not None:
            plan = found.beyond.plan
            folder = making.folder_of(plan, beyond_guard)
            write(found.beyond, ours, folder)
            totals = dict(plan.header["totals"])
            more["beyond"] = {"plan": str(folder), "digest": plan.digest, "totals": totals}
        remarks = policy_remarks(policy, units, topics, operation=operation)
        return Decision(found.planned, more, remarks)

    return making.make(log_dirs, decide)


@plan.command("roll")
@MAKING
@ROLL
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def plan_roll(
    log_dirs: tuple[Path, ...],
    making: Making,
    rule: str,
    now: int | None,
    export: Path | None,
    accept_loss: tuple[str, ...],
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Plan which active segments to roll by message time, so that retention can reach their
    records.
    """
    from kafkats.flow.planning import roll
    from kafkats.rolling.plan import RollOptions

    policy = policy_of(policy_file, settings, export)
    options = RollOptions(now_or(now), rule, accept_loss)

    def decide(ours: Planning) -> Decision:
        units = units_in(ours.log_dirs, topics)
        remarks = policy_remarks(policy, units, topics, operation="roll")
        planned = roll(executor, units, options, policy)
        return Decision(planned, {"now_ms": options.now_ms}, remarks)

    return making.make(log_dirs, decide)


@plan.command("split")
@MAKING
@options(Split)
@ACCEPT_OFFSETS
@RULE
@TOPICS
@POLICY
@JOBS
@MAX_BATCH_BYTES
def plan_split(
    log_dirs: tuple[Path, ...],
    making: Making,
    where: str,
    segment_bytes: int | None,
    segment_ms: int | None,
    earliest: int,
    latest: int | None,
    before: int | None,
    accept_loss: tuple[str, ...],
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
) -> int:
    """Plan which segments to cut at batch borders, and where, so that retention by time works
    again.
    """
    from kafkats.flow.planning import split
    from kafkats.split.parts import SplitOptions, check_options

    options = SplitOptions(
        where, segment_bytes, segment_ms, earliest, now_or(latest), before, rule, accept_loss
    )
    check_options(options)
    policy = policy_of(policy_file, settings, reads=READS["split"])
    return making.make(
        log_dirs,
        lambda ours: Decision(split(executor, units_in(ours.log_dirs, topics), options, policy)),
    )


@click.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@JSON
def show(folder: Path, as_json: bool) -> int:
    """List the changes of a plan, their bytes and reasons. Exit with 1 if the plan has blocked rows."""
    from kafkats.plans.plan import check_totals, read_plan

    made = read_plan(folder)
    check_totals(made, folder)
    show_plan(made, folder, as_json)
    return made.exit_code
