"""`simulate`, which forecasts what a broker with these settings will do, and what the verbs of
retention share.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.options import (
    CONFIG,
    EXPORT,
    JOBS,
    JSON,
    LOG_DIRS,
    POLICY,
    SIZE,
    TIME,
    TOPICS,
    now_or,
    policy_of,
    units_in,
)
from kafkats.cli.session import first_remarks
from kafkats.cli.spark import Commands
from kafkats.cli.terminal import board_sentences, say_summary, show_rows
from kafkats.config.settings_read import READS, retaining
from kafkats.generations import (
    DEFAULT_RETENTION_RULE,
    DEFAULT_ROLL_RULE,
    RETENTION_RULES,
    ROLL_RULES,
    rule_remarks,
)

if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.execution import Executor
    from kafkats.plans.units import Unit

_BOARD = (
    "partition_dir",
    "segments",
    "bytes",
    "now_bytes",
    "day_bytes",
    "week_bytes",
    "pinned_bytes",
    "kept_by",
    "kept_offset",
    "why",
)


def RETAIN(command: Any) -> Any:  # noqa: N802  # stands among the constants, and is used like one
    """The words that decide what retention deletes."""
    for option in (
        click.option("--last-segment", is_flag=True, help="Also the last one, as a broker does; an empty one takes its place."),
        click.option(
            "--inside-segments", is_flag=True,
            help="Also expired heads of segments that stay: what has not expired of one is written anew, from its first batch on.",
        ),
        click.option("--over-guard", is_flag=True, help="Lift the policy's guards: somebody has approved it."),
        click.option("--free", "free_bytes", type=SIZE, metavar="SIZE", help="Stop when purge would free that much, oldest first."),
        EXPORT,
        click.option("--before", type=TIME, metavar="TIME", help="Delete what is older than this, whatever retention.ms says."),
        click.option("--now", type=TIME, metavar="TIME", help="Decide for this moment; the clock's if not given."),
        click.option(
            "--generation", "rule", type=click.Choice(list(RETENTION_RULES)), default=DEFAULT_RETENTION_RULE.name,
            show_default=True,
            help="Which Kafka's retention; kip33 is the text of KIP-33. Only 3.0 and 0.11 stop at the high watermark.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def ROLL(command: Any) -> Any:  # noqa: N802  # likewise
    """The words that decide when a segment rolls."""
    for option in (
        EXPORT,
        click.option("--now", type=TIME, metavar="TIME", help="The stamp of the append to think of; the clock's if not given."),
        click.option(
            "--generation", "rule", type=click.Choice(list(ROLL_RULES)), default=DEFAULT_ROLL_RULE.name,
            show_default=True, help="Which Kafka's rolling; `largest` is the interface section of KIP-32 and KIP-33.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def policy_remarks(policy: Policy, units: list[Unit], topics: str, *, operation: str) -> list[str]:
    """Return remarks on topics that the glob `topics` matched, and on settings that `operation`
    (kafkats.config.settings_read.READS) does not read.
    """
    from kafkats.plans.units import topics_of

    return list(policy.remarks(topics_of(units), all_topics=topics == "*", reads=READS[operation]))


@click.group(cls=Commands)
def simulate() -> None:
    """Forecast what a broker with these settings will do, and when. Changes nothing; a broker may
    run on the directory.
    """


@simulate.command("retain")
@LOG_DIRS
@RETAIN
@TOPICS
@POLICY
@CONFIG
@JOBS
@JSON
def simulate_retain(
    log_dirs: tuple[Path, ...],
    rule: str,
    now: int | None,
    before: int | None,
    export: Path | None,
    free_bytes: int | None,
    over_guard: bool,
    inside_segments: bool,
    last_segment: bool,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Show what retention deletes now, within a day and within a week, and what keeps the rest.
    Exits with 1 when an expired segment is kept.
    """
    from kafkats.flow.planning import retain, suspect_shares
    from kafkats.retention.plan import RetainOptions
    from kafkats.retention.summary import board, sums_of, with_shares

    policy = policy_of(policy_file, settings, export)
    options = RetainOptions(now_or(now), rule, before, free_bytes, over_guard, last_segment)
    units = units_in(log_dirs, topics)
    planned = retain(executor, units, options, policy, inside_segments=inside_segments)
    operation = retaining(inside_segments=inside_segments)
    remarks = [
        *rule_remarks(rule),
        *policy_remarks(policy, units, topics, operation=operation),
        *planned.remarks,
    ]
    rows = board(planned.beside["retention"], options.now_ms)
    rows = with_shares(rows, suspect_shares(executor, rows))
    show_rows(rows, _BOARD, as_json)
    sums = sums_of(rows)
    totals = {
        **planned.plan.header["totals"],
        "bytes": sums["bytes"],
        "now_bytes": sums["now_bytes"],
        "day_bytes": sums["day_bytes"],
        "week_bytes": sums["week_bytes"],
        "pinned_bytes": sums["pinned_bytes"],
    }
    said = [*board_sentences(totals), *first_remarks(remarks)]
    say_summary({**totals, "remarks": remarks}, as_json, said)
    return int(sums["pinned_bytes"] > 0)


@simulate.command("roll")
@LOG_DIRS
@ROLL
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Of the jitter that segment.jitter.ms allows.",
)
@TOPICS
@POLICY
@CONFIG
@JOBS
@JSON
def simulate_roll(
    log_dirs: tuple[Path, ...],
    rule: str,
    now: int | None,
    export: Path | None,
    seed: int,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    executor: Executor,
    as_json: bool,
) -> int:
    """Show the segments that the stored batches would make with these settings, the files they keep
    open, and how long they are kept.
    """
    from kafkats.rolling import simulate as operation

    policy = policy_of(policy_file, settings, export)
    options = operation.SimulateOptions(now_or(now), rule, seed=seed)
    units = units_in(log_dirs, topics)
    do = partial(operation.simulate_partition, policy=policy, options=options)
    table = executor.map(
        "simulate",
        list(operation.partitions(units)),
        do,
        operation.SIMULATED,
        size=lambda some: sum(u.bytes for u in some),
    )
    rows = table.to_pylist()
    show_rows(rows, [name for name in table.column_names if name != "log_dir"], as_json)
    totals = {
        name: sum(row[name] or 0 for row in rows)
        for name in ("segments", "simulated", "open_files", "simulated_open_files")
    }
    said = [
        f"{totals['segments']} segments would be {totals['simulated']}; {totals['open_files']} open files"
        f" {totals['simulated_open_files']}, after retention"
    ]
    remarks = policy_remarks(policy, units, topics, operation="simulate roll")
    say_summary(totals | {"remarks": remarks}, as_json, said + first_remarks(remarks))
    return int(any(row["error"] for row in rows))
