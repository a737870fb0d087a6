"""kafkats <verb> LOG_DIR: every operation, without Spark or Airflow.

Tables for people on standard output, or with --json one JSON object per line; progress on standard error. Exit codes:
0 fine, 1 findings, 2 bad usage or bad input, 3 refused for safety.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats import __version__
from kafkats.errors import KafkatsError, UsageError
from kafkats.findings import SEVERITIES
from kafkats.generations import RULES
from kafkats.terminal import (
    census_sentences,
    plan_sentences,
    progress,
    ready_streams,
    run_sentences,
    say,
    say_summary,
    seen_sentences,
    show_rows,
    shown,
    unread_sentences,
)

# Everything that imports numpy, pyarrow or numba is imported by the verb that needs it: --help answers at once.
if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.config import Policy
    from kafkats.plan import Plan
    from kafkats.units import Unit

FINDINGS_EXIT: Final = 1
_BATCHES_AT_ONCE: Final = 500
"""Batches of one row are held until they are made one table: each takes 80 kB, a row in a table less than one."""
_LOG_DIRS = click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
_TOPICS = click.option("--topics", default="*", show_default=True, metavar="GLOB", help="Only these topics.")
_POLICY = click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="A policy file (YAML): settings by topic."
)
_CONFIG = click.option(
    "--config", "settings", multiple=True, metavar="KEY=VALUE",
    help="index.interval.bytes or segment.index.bytes of the topics, over the policy; may be repeated.",
)  # fmt: skip
_RULE = click.option(
    "--generation", "rule", type=click.Choice(list(RULES)), default="last-offset", show_default=True,
    help="Whose recovery to match: last-offset is Kafka 2.0 and later, first-offset 0.8 to 1.1, kip33 no broker's.",
)  # fmt: skip
_STOPPED = click.option(
    "--owner-stopped", is_flag=True,
    help="You vouch that no broker runs on it, where a lock proves nothing: network file systems, snapshots.",
)  # fmt: skip
_PLACE = click.option(
    "--work-area",
    "place",
    type=click.Path(path_type=Path),
    help="Where to keep undo material, instead of beside LOG_DIR.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="kafkats")
def cli() -> None:
    """Keeps Kafka log directories right by time.

    LOG_DIR is a broker's log.dirs root, one partition directory, or one segment's .log. The usual order: verify, plan
    rebuild, show, apply, verify; then undo, or purge. Only apply and undo change a log directory, and only one whose
    broker is stopped.

    Exit codes: 0 fine, 1 findings, 2 bad usage or bad input, 3 refused for safety.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in ("", "0"):  # else every log would be called unreadable
        raise UsageError("NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line. Exits with 0 fine, 1 findings, 2 bad usage or input, 3 refused for safety."""
    ready_streams()
    try:
        code = cli.main(args=None if argv is None else list(argv), prog_name="kafkats", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("kafkats: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except KafkatsError as e:
        again = " (trying again may help)" if e.retryable else ""
        click.echo(f"kafkats: {shown(str(e))}{again}", err=True)
        sys.exit(e.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


@cli.command()
@_LOG_DIRS
@click.option(
    "--by",
    type=click.Choice(["segment", "partition", "topic", "format"]),
    default="partition",
    show_default=True,
    help="One row for each of these; `format` walks the logs.",
)
@_TOPICS
@_JSON
def inventory(log_dirs: tuple[Path, ...], by: str, topics: str, as_json: bool) -> None:
    """What is on the disks: bytes, offsets, times, formats. Reads the ends of indexes and logs: only verify proves health."""
    from kafkats import report
    from kafkats.operations import inventory as operation

    full = by == "format"
    units = _units(log_dirs, topics)
    chunks = [units[i : i + 1000] for i in range(0, len(units), 1000)]
    seen = _table([
        operation.inventory_units(chunk, full=full)
        for chunk in progress(chunks, "looking", lambda c: sum(u.bytes for u in c))
    ])
    rows = operation.group(seen, by)
    show_rows(rows, list(rows[0]) if rows else (), as_json)
    summary = report.summary(seen)
    sentences = census_sentences if full else seen_sentences
    say_summary(summary, as_json, [*sentences(summary), *unread_sentences(seen)])


@cli.command()
@_LOG_DIRS
@click.option("--deep", is_flag=True, help="Also decode every record.")
@_RULE
@_TOPICS
@_POLICY
@_CONFIG
@click.option("--remarks", is_flag=True, help="Also list remarks and states, which harm nobody.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Also write the full report into this folder.")
@_JSON
def verify(
    log_dirs: tuple[Path, ...],
    deep: bool,
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    remarks: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Every defect, classified. Exits with 1 when there is one."""
    from kafkats import report
    from kafkats.operations.verify import VerifyOptions

    options = VerifyOptions(rule=rule, deep=deep, policy=_policy(policy_file, settings))
    segments = _verified(log_dirs, topics, options)
    summary = report.summary(segments)
    if output is not None:
        report.write_report(output, segments, summary)
    found = report.all_findings(segments)
    found.sort(key=lambda f: -SEVERITIES.index(f["severity"]))
    shown = found if remarks or as_json else [f for f in found if f["severity"] in ("damage", "danger")]
    show_rows(shown, ("severity", "kind", "partition_dir", "file", "position", "reason"), as_json)
    said = seen_sentences(summary)
    if any(
        state in ("missing", "defective")
        for c in ("offset_index", "time_index")
        for state in segments[c].unique().to_pylist()
    ):
        said.append(f"next: kafkats plan rebuild {' '.join(map(str, log_dirs))} -o PLAN")
    say_summary(summary, as_json, said)
    return FINDINGS_EXIT if summary["worst"] in ("damage", "danger") else 0


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Also show every record of a .log.")
def dump(file: Path, deep: bool) -> None:
    """Any file of a log directory, entry by entry. Prints one JSON object per line."""
    from kafkats.operations.dump import dump as operation

    for row in operation(file, deep=deep):
        say(json.dumps(row))


@cli.group()
def plan() -> None:
    """Decide what to do, and write it down for approval. Changes nothing."""


@plan.command("rebuild")
@_LOG_DIRS
@click.option(
    "-o", "--output", required=True, metavar="PLAN", type=click.Path(path_type=Path), help="The plan's folder."
)
@click.option("--all", "rewrite_sound", is_flag=True, help="Also rewrite sound indexes that differ from a rebuild.")
@click.option(
    "--valid-prefix", is_flag=True, help="Where the log is corrupt, rebuild for the part before the corruption."
)
@click.option("--only-after-unclean-stop", is_flag=True, help="Leave directories with a clean-shutdown marker alone.")
@click.option("--not-for-a-broker", is_flag=True, help="Allows --generation kip33, which would mislead a broker.")
@_RULE
@_TOPICS
@_POLICY
@_CONFIG
@_JSON
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

    segments = _verified(log_dirs, topics, VerifyOptions(rule=rule, policy=_policy(policy_file, settings)))
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
    _show_plan(made, output, as_json)


@cli.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@_JSON
def show(folder: Path, as_json: bool) -> None:
    """What a plan would do, to which bytes, and why."""
    from kafkats.plan import read_plan

    _show_plan(read_plan(folder), folder, as_json)


@cli.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--digest", help="The digest that was approved (8 digits will do); `any` is for throw-away copies.")
@click.option(
    "--run",
    "run_folder",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="The run's folder; PLAN.run if not given.",
)
@_STOPPED
@_PLACE
@_JSON
def apply(
    folder: Path, digest: str | None, run_folder: Path | None, owner_stopped: bool, place: Path | None, as_json: bool
) -> int:
    """Do what the approved plan says. Repeating it finishes an interrupted run, and does nothing to a finished one."""
    from kafkats.operations.apply import apply_partition, partition_works, summarize
    from kafkats.plan import check_digest, read_plan
    from kafkats.report import ACTIONS
    from kafkats.run import finish_run, open_run

    made = read_plan(folder)
    if digest is None:
        digest = _ask_for_approval(made, folder)
    check_digest(made, digest)
    run, run_folder = open_run(made, folder, run_folder, place=place, owner_stopped=owner_stopped)
    works = partition_works(made, run, run_folder)
    batches = [apply_partition(work) for work in progress(works, "writing", lambda w: w.bytes)]
    actions = _table(batches, ACTIONS)
    summary = summarize(actions)
    try:
        finish_run(run_folder, actions, summary)
    finally:  # should the report not be written, this is all there is to know of what was done
        shown = [row for row in actions.to_pylist() if as_json or row["outcome"] != "already"]
        show_rows(shown, ("outcome", "action", "partition_dir", "file", "after_bytes", "reason", "error"), as_json)
        say_summary(summary | {"run": str(run_folder)}, as_json, run_sentences(summary, run_folder))
    return int(summary["exit_code"])


@cli.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@_JSON
def undo(folder: Path, as_json: bool) -> int:
    """Put back every file of a run. Bytes, times, mode, owner and attributes are as before."""
    return _end_of_run(folder, "undo", as_json)


@cli.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--abandon", is_flag=True, help="Also end an interrupted run: its files stay as they are now.")
@_JSON
def purge(folder: Path, abandon: bool, as_json: bool) -> int:
    """End the undo window of a run: only this frees the old bytes."""
    return _end_of_run(folder, "purge", as_json, abandon=abandon)


def _end_of_run(folder: Path, verb: str, as_json: bool, *, abandon: bool = False) -> int:
    from kafkats.operations.apply import end_partition
    from kafkats.run import directories, read_run, wrote_in

    run = read_run(folder)
    rows = [end_partition(run, verb, *where, abandon=abandon) for where in directories(run)]
    written = wrote_in(folder) if verb == "undo" else set()
    for row in rows:
        if row["outcome"] == "nothing" and (row["log_dir"], row["partition_dir"]) in written:
            row |= {"outcome": "failed", "error": "this run wrote here, but its undo material is gone", "exit_code": 2}
    show_rows(rows, ("outcome", "partition_dir", "files", "error"), as_json)
    return max((row["exit_code"] for row in rows), default=0)


def _units(log_dirs: Iterable[Path], topics: str) -> list[Unit]:
    from kafkats.units import list_units

    units = list(list_units(log_dirs, topics=topics))
    if topics != "*" and not any(unit.partition_dir for unit in units):
        raise UsageError(f"no topic there matches {topics!r}")
    return units


def _verified(log_dirs: Iterable[Path], topics: str, options: Any) -> pa.Table:
    from kafkats.operations.verify import verify_unit

    units = _units(log_dirs, topics)
    return _table(verify_unit(u, options) for u in progress(units, "verifying", lambda u: u.bytes))


def _table(batches: Iterable[Any], schema: Any = None) -> pa.Table:
    import pyarrow as pa

    from kafkats.report import SEGMENTS

    schema = schema or SEGMENTS
    tables, rest = [], []
    for batch in batches:
        rest.append(batch)
        if len(rest) == _BATCHES_AT_ONCE:
            tables.append(pa.Table.from_batches(rest, schema).combine_chunks())
            rest = []
    return pa.concat_tables([*tables, pa.Table.from_batches(rest, schema)])


def _policy(file: Path | None, settings: Iterable[str]) -> Policy:
    from kafkats.config import Policy, read_policy, with_settings

    return with_settings(read_policy(file) if file else Policy(), settings)


def _ask_for_approval(made: Plan, folder: Path) -> str:
    if not sys.stdin.isatty():
        raise UsageError("apply needs --digest where nobody can be asked; `kafkats show` prints it")
    _show_plan(made, folder, as_json=False)
    click.confirm("Apply this plan?", abort=True)
    return made.digest


def _show_plan(made: Plan, folder: Path, as_json: bool) -> None:
    rows = made.items.select(["action", "log_dir", "partition_dir", "file", "after_bytes", "reason"]).to_pylist()
    show_rows(rows, ("action", "partition_dir", "file", "after_bytes", "reason"), as_json)
    summary = {"plan": str(folder), "digest": made.digest} | dict(made.header["totals"])
    say_summary(summary, as_json, plan_sentences(made, folder))
