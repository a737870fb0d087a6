"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.formats import keep_census, keep_certificate
from kafkats.cli.making import MAKING, Decision, Making, show_plan
from kafkats.cli.options import (
    ACCEPT_OFFSETS,
    CONFIG,
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    POLICY,
    RULE,
    SIZE,
    STEP,
    TIME,
    TOPICS,
    Spread,
    Spreading,
    check_step,
    now_or,
    policy_of,
    units_in,
    words_of,
)
from kafkats.cli.retention import RETAIN, ROLL, policy_remarks
from kafkats.cli.session import session
from kafkats.cli.spark import Commands
from kafkats.config.settings_read import READS, retaining
from kafkats.errors import UsageError
from kafkats.generations import (
    ALL_LOSSES,
    COMPRESSION_TYPES,
    LOSSES,
    OFFSETS_LOSS,
    PRODUCER,
)

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.reserving import Planning


@click.group(cls=Commands)
def plan() -> None:
    """Decide what to do, and write it down for approval. Changes nothing. Exits with 1 when the plan has blocked rows."""


@plan.command("rebuild")
@MAKING
@click.option(
    "--all",
    "rewrite_sound",
    is_flag=True,
    help="Also rewrite sound indexes that differ from a rebuild.",
)
@click.option(
    "--valid-prefix",
    is_flag=True,
    help="Where the log is corrupt, rebuild for the part before the corruption.",
)
@click.option(
    "--only-after-unclean-stop",
    is_flag=True,
    help="Leave directories with a clean-shutdown marker alone.",
)
@click.option(
    "--not-for-a-broker",
    is_flag=True,
    help="Allows --generation kip33, which would mislead a broker.",
)
@ACCEPT_OFFSETS
@RULE
@TOPICS
@POLICY
@CONFIG
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
@click.option(
    "--to-magic", required=True, type=click.IntRange(0, 2),
    help="The format: 0 is Kafka 0.8 and 0.9, 1 is 0.10, 2 is 0.11 and later (4.x writes no other).",
)  # fmt: skip
@click.option(
    "--compression-type", type=click.Choice(COMPRESSION_TYPES), default=PRODUCER, show_default=True,
    help="Kafka's compression.type; `producer` leaves each batch its own.",
)  # fmt: skip
@click.option(
    "--only-newer", is_flag=True,
    help="Only partitions with batches newer than --to-magic; a certificate where there are none.",
)  # fmt: skip
@click.option(
    "--certify", "certificate_folder", metavar="CERT", type=click.Path(path_type=Path),
    help="With --only-newer: where that certificate goes.",
)  # fmt: skip
@click.option(
    "--undo", "runs", multiple=True, metavar="RUN...", cls=Spread, type=click.Path(path_type=Path),
    help="Plan only if these runs cannot be undone any more; the latest first.",
)  # fmt: skip
@click.option(
    "--accept-loss", default="", metavar="LOSS,...",
    help=f"What an older format may lose: {', '.join(LOSSES)}, or {ALL_LOSSES}; {OFFSETS_LOSS}: also where records are missing.",
)  # fmt: skip
@STEP
@RULE
@TOPICS
@POLICY
@CONFIG
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
    accept_loss: str,
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
        raise UsageError(
            "a ledger is told of all log dirs of a broker: --skip-reserved does not go with --ledger"
        )
    if certificate_folder and not only_newer:
        raise UsageError("--certify goes with --only-newer")
    check_step(ledger, phase, broker, topics)
    target_of(to_magic, compression_type)  # before anything is read
    options = MigrateOptions(
        to_magic=to_magic,
        compression_type=compression_type,
        accept_loss=words_of(accept_loss),
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
@click.option(
    "--beyond-guard", metavar="PLAN", type=click.Path(path_type=Path),
    help="Where a guard of the policy keeps something, also write the plan without guards, to be approved in"
    " the other's place; with --into the digest is added to its name.",
)  # fmt: skip
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@CONFIG
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
@CONFIG
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
@click.option(
    "--where", required=True, type=click.Choice(["rolled", "mixed", "expired"]),
    help="Where segment.bytes or segment.ms would have rolled; around timestamps that cannot be; behind what has expired.",
)  # fmt: skip
@click.option("--segment-bytes", type=SIZE, metavar="SIZE", help="For `rolled`.")
@click.option("--segment-ms", type=click.IntRange(1), metavar="MS", help="For `rolled`.")
@click.option(
    "--earliest", type=TIME, default=0, metavar="TIME", help="For `mixed`: nothing can be older."
)
@click.option(
    "--latest",
    type=TIME,
    metavar="TIME",
    help="For `mixed`: nothing can be younger; now if not given.",
)
@click.option(
    "--before", type=TIME, metavar="TIME", help="For `expired`: what is older has expired."
)
@ACCEPT_OFFSETS
@RULE
@TOPICS
@POLICY
@CONFIG
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
    """What a plan would do, to which bytes, and why. Exits with 1 when the plan has blocked rows."""
    from kafkats.plans.plan import check_totals, read_plan

    made = read_plan(folder)
    check_totals(made, folder)
    show_plan(made, folder, as_json)
    return made.exit_code
