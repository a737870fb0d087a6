"""plan and show: decide what to do, write it down, read it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.options import CONFIG, JSON, LOG_DIRS, POLICY, RULE, TOPICS, policy_of, verified
from kafkats.terminal import plan_sentences, say_summary, show_rows

if TYPE_CHECKING:
    from kafkats.plan import Plan


@click.group()
def plan() -> None:
    """Decide what to do, and write it down for approval. Changes nothing."""


@plan.command("rebuild")
@LOG_DIRS
@click.option(
    "-o", "--output", required=True, metavar="PLAN", type=click.Path(path_type=Path), help="The plan's folder."
)
@click.option("--all", "rewrite_sound", is_flag=True, help="Also rewrite sound indexes that differ from a rebuild.")
@click.option(
    "--valid-prefix", is_flag=True, help="Where the log is corrupt, rebuild for the part before the corruption."
)
@click.option("--only-after-unclean-stop", is_flag=True, help="Leave directories with a clean-shutdown marker alone.")
@click.option("--not-for-a-broker", is_flag=True, help="Allows --generation kip33, which would mislead a broker.")
@RULE
@TOPICS
@POLICY
@CONFIG
@JSON
def plan_rebuild(
    log_dirs: tuple[Path, ...],
    output: Path,
    rewrite_sound: bool,
    valid_prefix: bool,
    only_after_unclean_stop: bool,
    not_for_a_broker: bool,
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Which index files to write anew, made from what, and why."""
    from kafkats.operations import rebuild
    from kafkats.operations.apply import refuse_unpermitted
    from kafkats.operations.verify import VerifyOptions
    from kafkats.plan import write_plan

    segments = verified(log_dirs, topics, VerifyOptions(rule=rule, policy=policy_of(policy_file, settings)))
    made = rebuild.plan_rebuild(
        segments,
        rebuild.RebuildOptions(
            rule=rule,
            topics=topics,
            all=rewrite_sound,
            valid_prefix=valid_prefix,
            only_after_unclean_stop=only_after_unclean_stop,
            not_for_a_broker=not_for_a_broker,
        ),
    )
    refuse_unpermitted(made)
    write_plan(made, output)
    show_plan(made, output, as_json)


@click.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@JSON
def show(folder: Path, as_json: bool) -> None:
    """What a plan would do, to which bytes, and why."""
    from kafkats.plan import read_plan

    show_plan(read_plan(folder), folder, as_json)


def show_plan(made: Plan, folder: Path, as_json: bool) -> None:
    rows = made.items.select(["action", "log_dir", "partition_dir", "file", "after_bytes", "reason"]).to_pylist()
    show_rows(rows, ("action", "partition_dir", "file", "after_bytes", "reason"), as_json)
    summary = {"plan": str(folder), "digest": made.digest} | dict(made.header["totals"])
    say_summary(summary, as_json, plan_sentences(made, folder))
