"""What retain's verbs share, and simulate: what a broker with these settings will do, and when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.options import (
    CONFIG,
    EXPORT,
    JSON,
    LOG_DIRS,
    POLICY,
    SIZE,
    TIME,
    TOPICS,
    policy_of,
    table_of,
    units_in,
    verified,
)
from kafkats.generations import DEFAULT_RETENTION_RULE, DEFAULT_ROLL_RULE, RETENTION_RULES, ROLL_RULES, rule_remarks
from kafkats.terminal import board_sentences, progress, remark_sentences, say_summary, show_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.config import Policy
    from kafkats.operations.retain import RetainOptions
    from kafkats.plan import Plan
    from kafkats.units import Unit

_UNITS_AT_ONCE = 1000
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


def now_or(now_ms: int | None) -> int:
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def retention(
    units: list[Unit], policy: Policy, options: RetainOptions, *, inside_segments: bool = False
) -> tuple[Plan, pa.Table, list[str]]:
    """Look at the ends of all files, and decide; `inside_segments` also of expired heads, which are looked for.

    The plan, RETENTION, and remarks on the settings by which it writes.
    """
    from kafkats.contradictions import interval_remarks
    from kafkats.operations.retain import plan_retain
    from kafkats.operations.retain.heads import check_options, look_at, plan_inside
    from kafkats.operations.verify import VerifyOptions
    from kafkats.parts import PARTS
    from kafkats.units import refuse_parts

    refuse_parts(units)
    check_options(options, inside_segments=inside_segments)
    segments = looked_at(units)
    if not inside_segments:
        return *plan_retain(segments, policy, options), []
    seen: list[pa.Table] = []

    def verify(chosen: Sequence[Unit]) -> pa.Table:
        seen.append(verified(chosen, VerifyOptions(policy=policy)))
        return seen[-1]

    made, verdicts = plan_inside(
        units,
        segments,
        policy,
        options,
        look=lambda targets: table_of(
            map(look_at, progress(targets, "looking inside", lambda one: one[0].bytes)), PARTS
        ),
        verify=verify,
    )
    return made, verdicts, [remark for table in seen for remark in interval_remarks(made, table)]


def policy_remarks(policy: Policy, units: list[Unit], topics: str) -> list[str]:
    """Of the topics that were looked for by the glob `topics`."""
    from kafkats.units import topics_of

    return list(policy.remarks(topics_of(units), all_topics=topics == "*"))


def looked_at(units: list[Unit]) -> pa.Table:
    """Facts from the ends of the files."""
    from kafkats.operations.inventory import inventory_units

    chunks = [units[i : i + _UNITS_AT_ONCE] for i in range(0, len(units), _UNITS_AT_ONCE)]
    looked = progress(chunks, "looking", lambda chunk: sum(unit.bytes for unit in chunk))
    return table_of(inventory_units(chunk) for chunk in looked)


@click.group()
def simulate() -> None:
    """What a broker with these settings will do, and when. Changes nothing, and may look at a running broker's disk."""


@simulate.command("retain")
@LOG_DIRS
@RETAIN
@TOPICS
@POLICY
@CONFIG
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
    as_json: bool,
) -> int:
    """What retention deletes now, in a day, in a week; and what keeps the rest. Exits with 1 when something expired is kept."""
    from kafkats.operations.retain import RetainOptions, board
    from kafkats.operations.retain.suspects import SHARES, look_into, suspects, with_shares

    policy = policy_of(policy_file, settings, export)
    options = RetainOptions(now_or(now), rule, before, free_bytes, over_guard, last_segment)
    units = units_in(log_dirs, topics)
    made, verdicts, said_of_settings = retention(units, policy, options, inside_segments=inside_segments)
    remarks = rule_remarks(rule) + policy_remarks(policy, units, topics) + said_of_settings
    rows = board(verdicts, options.now_ms)
    rows = with_shares(rows, table_of(map(look_into, suspects(rows)), SHARES))
    show_rows(rows, _BOARD, as_json)
    totals = dict(made.header["totals"]) | {
        name: sum(row[name] for row in rows) for name in _BOARD if name.endswith("bytes")
    }
    said = [*board_sentences(totals), *remark_sentences(remarks)]
    say_summary(totals | {"remarks": remarks}, as_json, said)
    return int(totals["pinned_bytes"] > 0)


@simulate.command("roll")
@LOG_DIRS
@ROLL
@click.option("--seed", type=int, default=0, show_default=True, help="Of the jitter that segment.jitter.ms allows.")
@TOPICS
@POLICY
@CONFIG
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
    as_json: bool,
) -> int:
    """What segments the stored batches would lie in with these settings, how many files that keeps open, how long it is kept."""
    from kafkats.operations import simulate as operation

    policy = policy_of(policy_file, settings, export)
    options = operation.SimulateOptions(now_or(now), rule, seed=seed)
    units = units_in(log_dirs, topics)
    found = progress(list(operation.partitions(units)), "replaying", lambda some: sum(u.bytes for u in some))
    table = table_of((operation.simulate_partition(units, policy, options) for units in found), operation.SIMULATED)
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
    remarks = policy_remarks(policy, units, topics)
    say_summary(totals | {"remarks": remarks}, as_json, said + remark_sentences(remarks))
    return int(any(row["error"] for row in rows))
