"""`simulate`, which forecasts what a broker will do; parts that the commands of retention share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import taking
from kafkats.cli.options import JOBS, JSON, LOG_DIRS, given_policy, units_of
from kafkats.cli.spark import Commands
from kafkats.cli.terminal import all_but, retention_sentences, say_summary, show_rows
from kafkats.config.given import Given, stored
from kafkats.config.options import Settings, Topics
from kafkats.counts import counted
from kafkats.generations import rule_remarks
from kafkats.result import first_remarks
from kafkats.retention.operation import OPERATION as RETENTION
from kafkats.retention.options import Retain
from kafkats.rolling.operation import SIMULATION_READS
from kafkats.rolling.options import Roll, Simulate

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.execution.executor import Executor
    from kafkats.plans.units import Unit


def policy_remarks(
    policy: Policy, units: list[Unit], topics: str, reads: frozenset[str]
) -> list[str]:
    """Return remarks on topics that the glob `topics` matched, and on settings that are not in
    `reads`.
    """
    from kafkats.plans.units import topics_of

    return list(policy.remarks(topics_of(units), all_topics=topics == "*", reads=reads))


@click.group(cls=Commands)
def simulate() -> None:
    """Forecast what a broker with these settings will do, and when.

    It changes nothing. A broker may run on the directory.
    """


@simulate.command("retain")
@LOG_DIRS
@taking(Retain, Topics, Settings)
@JOBS
@JSON
def simulate_retain(log_dirs: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Show what retention deletes, when, and what keeps the rest.

    Exits with 1 if an expired segment lies behind one that has not expired.
    """
    from kafkats.flow.looking import LogStages
    from kafkats.retention.looking import retain, retain_options, suspect_shares
    from kafkats.retention.summary import summary_rows, sums_of, with_shares

    policy = given_policy(given)
    options, inside = retain_options(given), given.of(Retain).inside_segments
    topics = given.of(Topics).topics
    units = units_of(log_dirs, topics, policy)
    planned = retain(LogStages(executor), units, options, policy, inside_segments=inside)
    remarks = [
        *rule_remarks(options.rule),
        *policy_remarks(policy, units, topics, RETENTION.reads(given)),
        *planned.remarks,
    ]
    rows = summary_rows(planned.beside["retention"], options.now_ms)
    rows = with_shares(rows, suspect_shares(executor, rows))
    hidden = ("vetoed_bytes", "kept_bytes", "until_ms", "unit", "topic")
    show_rows(rows, all_but(rows, *hidden))
    sums = sums_of(rows)
    sizes = {name: size for name, size in sums.items() if name.endswith("bytes")}
    totals = {**planned.plan.header["totals"], **sizes}
    sentences = [*retention_sentences(totals), *first_remarks(remarks)]
    say_summary({**totals, "remarks": remarks}, sentences)
    return int(sums["pinned_bytes"] > 0)


@simulate.command("roll")
@LOG_DIRS
@taking(Roll, Simulate, Topics, Settings)
@JOBS
@JSON
def simulate_roll(log_dirs: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Show the segments that a broker with these settings would have.

    They are made from the stored batches. The output has their number and sizes, the files that
    they keep open, and how long they are kept.
    """
    from kafkats.rolling import simulate as operation
    from kafkats.rolling.early_rolls import early_remarks

    policy, roll = given_policy(given), given.of(Roll)
    options = stored(operation.SimulateOptions, roll, given.of(Simulate), now_ms=given.at(roll.now))
    topics = given.of(Topics).topics
    units = units_of(log_dirs, topics, policy)
    rows = operation.simulate_units(executor, units, policy, options).to_pylist()
    hidden = ("segment_ms", "segment_bytes", "segment_jitter_ms", "days", "early_rolls")
    show_rows(rows, all_but(rows, *hidden))
    totals = {
        name: sum(row[name] or 0 for row in rows)
        for name in ("segments", "simulated", "open_files", "simulated_open_files")
    }
    sentences = [
        f"{counted(totals['segments'], 'segment')} would be {totals['simulated']};"
        f" {counted(totals['open_files'], 'open file')} would be"
        f" {totals['simulated_open_files']}, after"
        " retention"
    ]
    remarks = [
        *policy_remarks(policy, units, topics, SIMULATION_READS),
        *early_remarks(rows, policy),
    ]
    say_summary(totals | {"remarks": remarks}, sentences + first_remarks(remarks))
    return int(any(row["error"] for row in rows))
