"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.options import (
    ACCEPT_OFFSETS,
    CONFIG,
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    PLAN_FOLDER,
    POLICY,
    RESERVE,
    RULE,
    SIZE,
    STEP,
    TIME,
    TOPICS,
    check_step,
    policy_of,
    units_in,
    words_of,
)
from kafkats.cli.retention import RETAIN, ROLL, now_or, policy_remarks
from kafkats.cli.terminal import plan_sentences, remark_sentences, say_summary, show_rows
from kafkats.config.settings_read import READS, retaining
from kafkats.generations import (
    ALL_LOSSES,
    COMPRESSION_TYPES,
    LOSSES,
    OFFSETS_LOSS,
    PRODUCER,
    rule_remarks,
)
from kafkats.paths import LEADER_EPOCH, LOG_START, OFFSET_INDEX, SEGMENT_KINDS, TIME_INDEX

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.flow.planning import Planned
    from kafkats.plans.plan import Plan
    from kafkats.reserving import Planning, Wish


@click.group()
def plan() -> None:
    """Decide what to do, and write it down for approval. Changes nothing. Exits with 1 when the plan has blocked rows."""


@plan.command("rebuild")
@LOG_DIRS
@PLAN_FOLDER
@RESERVE
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
@JSON
@MAX_BATCH_BYTES
def plan_rebuild(
    log_dirs: tuple[Path, ...],
    output: Path,
    wish: Wish | None,
    place: Path | None,
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
    as_json: bool,
) -> int:
    """Plan which index files to rebuild, and say why."""
    from kafkats.flow.planning import rebuild, write
    from kafkats.rebuild.plan import RebuildOptions
    from kafkats.reserving import planning

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
    with planning(log_dirs, wish, place) as ours:
        planned = rebuild(executor, units_in(ours.log_dirs, topics), options, policy)
        write(planned, ours, output)
    return show_planned(planned, output, as_json, ours=ours)


@plan.command("migrate")
@LOG_DIRS
@PLAN_FOLDER
@RESERVE
@click.option(
    "--to-magic", required=True, type=click.IntRange(0, 2),
    help="The format: 0 is Kafka 0.8 and 0.9, 1 is 0.10, 2 is 0.11 and later (4.x writes no other).",
)  # fmt: skip
@click.option(
    "--compression-type", type=click.Choice(COMPRESSION_TYPES), default=PRODUCER, show_default=True,
    help="Kafka's compression.type; `producer` leaves each batch its own.",
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
@JSON
@MAX_BATCH_BYTES
def plan_migrate(
    log_dirs: tuple[Path, ...],
    output: Path,
    wish: Wish | None,
    place: Path | None,
    to_magic: int,
    compression_type: str,
    accept_loss: str,
    ledger: Path | None,
    phase: str,
    broker: str,
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Plan which segments to convert to another message format, with the result's size and every
    loss.
    """
    from kafkats.flow.planning import migrate, write
    from kafkats.migration.forecast import target_of
    from kafkats.migration.plan import MigrateOptions, check_phase
    from kafkats.reserving import planning

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
    with planning(log_dirs, wish, place) as ours:
        planned = migrate(executor, units_in(ours.log_dirs, topics), options, policy)
        write(planned, ours, output)
    return show_planned(planned, output, as_json, ours=ours)


@plan.command("retain")
@LOG_DIRS
@PLAN_FOLDER
@RESERVE
@RETAIN
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@CONFIG
@JOBS
@JSON
@MAX_BATCH_BYTES
def plan_retain(
    log_dirs: tuple[Path, ...],
    output: Path,
    wish: Wish | None,
    place: Path | None,
    rule: str,
    now: int | None,
    before: int | None,
    export: Path | None,
    free_bytes: int | None,
    over_guard: bool,
    inside_segments: bool,
    last_segment: bool,
    accept_loss: tuple[str, ...],
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Plan which segments to delete, as a broker would, and say why the others are kept."""
    from kafkats.flow.planning import retain, write
    from kafkats.reserving import planning
    from kafkats.retention.plan import RetainOptions

    policy = policy_of(policy_file, settings, export)
    options = RetainOptions(
        now_or(now), rule, before, free_bytes, over_guard, last_segment, accept_loss
    )
    with planning(log_dirs, wish, place) as ours:
        units = units_in(ours.log_dirs, topics)
        planned = retain(executor, units, options, policy, inside_segments=inside_segments)
        write(planned, ours, output)
    operation = retaining(inside_segments=inside_segments)
    remarks = policy_remarks(policy, units, topics, operation=operation)
    return show_planned(planned, output, as_json, remarks, ours=ours)


@plan.command("roll")
@LOG_DIRS
@PLAN_FOLDER
@RESERVE
@ROLL
@ACCEPT_OFFSETS
@TOPICS
@POLICY
@CONFIG
@JOBS
@JSON
@MAX_BATCH_BYTES
def plan_roll(
    log_dirs: tuple[Path, ...],
    output: Path,
    wish: Wish | None,
    place: Path | None,
    rule: str,
    now: int | None,
    export: Path | None,
    accept_loss: tuple[str, ...],
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Plan which active segments to roll by message time, so that retention can reach their
    records.
    """
    from kafkats.flow.planning import roll, write
    from kafkats.reserving import planning
    from kafkats.rolling.plan import RollOptions

    policy = policy_of(policy_file, settings, export)
    with planning(log_dirs, wish, place) as ours:
        units = units_in(ours.log_dirs, topics)
        planned = roll(executor, units, RollOptions(now_or(now), rule, accept_loss), policy)
        write(planned, ours, output)
    return show_planned(
        planned, output, as_json, policy_remarks(policy, units, topics, operation="roll"), ours=ours
    )


@plan.command("split")
@LOG_DIRS
@PLAN_FOLDER
@RESERVE
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
@JSON
@MAX_BATCH_BYTES
def plan_split(
    log_dirs: tuple[Path, ...],
    output: Path,
    wish: Wish | None,
    place: Path | None,
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
    as_json: bool,
) -> int:
    """Plan which segments to cut at batch borders, and where, so that retention by time works
    again.
    """
    from kafkats.flow import planning as flow
    from kafkats.reserving import planning
    from kafkats.split.parts import SplitOptions, check_options

    options = SplitOptions(
        where, segment_bytes, segment_ms, earliest, now_or(latest), before, rule, accept_loss
    )
    check_options(options)
    policy = policy_of(policy_file, settings, reads=READS["split"])
    with planning(log_dirs, wish, place) as ours:
        planned = flow.split(executor, units_in(ours.log_dirs, topics), options, policy)
        flow.write(planned, ours, output)
    return show_planned(planned, output, as_json, ours=ours)


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


def follows(made: Plan, row: Mapping[str, Any]) -> bool:
    """Return whether the row's file changes together with the .log of its segment: the table then
    leaves it out.
    """
    beside = SEGMENT_KINDS[1:]
    kinds = {
        "migrate": (OFFSET_INDEX, TIME_INDEX),
        "retain": (*beside, LEADER_EPOCH, LOG_START),
        "roll": beside,
        "split": beside,
    }
    return str(row["file"]).endswith(kinds.get(made.operation, ("/",)))


def show_planned(
    planned: Planned, folder: Path, as_json: bool, remarks: Sequence[str] = (), *, ours: Planning
) -> int:
    """Show the plan. Returns the exit code."""
    show_plan(planned.plan, folder, as_json, [*remarks, *planned.remarks], ours=ours)
    return planned.plan.exit_code


def show_plan(
    made: Plan,
    folder: Path,
    as_json: bool,
    remarks: Sequence[str] = (),
    *,
    ours: Planning | None = None,
) -> None:
    """`remarks`, and the reservations of `ours`, are for whoever plans, and no part of the plan."""
    rows = made.items.select([
        "action",
        "log_dir",
        "partition_dir",
        "file",
        "after_bytes",
        "reason",
    ]).to_pylist()
    rows = [row for row in rows if as_json or not follows(made, row)]
    show_rows(rows, ("action", "partition_dir", "file", "after_bytes", "reason"), as_json)
    remarks = [
        *(rule_remarks(str(made.header["options"]["rule"])) if made.operation == "retain" else ()),
        *remarks,
    ]
    remarks += ours.remarks if ours else []
    said = [*(ours.sentences() if ours else ()), *plan_sentences(made, folder)]
    summary = {"plan": str(folder), "digest": made.digest} | dict(made.header["totals"])
    summary |= (dict(ours.said()) if ours else {}) | {"remarks": remarks}
    say_summary(summary, as_json, [*remark_sentences(remarks), *said])
