"""Verbs that read log directories and change nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.formats import census, show_formats
from kafkats.cli.generated import options
from kafkats.cli.options import (
    BY,
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    POLICY,
    REPORT,
    RULE,
    STEP,
    TOPICS,
    units_in,
)
from kafkats.cli.proving import (
    PROOF,
    check_written,
    proof_sentences,
    prove_written,
    verify_options,
)
from kafkats.cli.streams import say
from kafkats.cli.terminal import (
    say_summary,
    seen_sentences,
    show_rows,
    unread_sentences,
)
from kafkats.config.options import Dialect
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats.findings import SEVERITIES
from kafkats.flow.steps import check_step, tell_step
from kafkats.generations import DEFAULT_RULE
from kafkats.inspect.options import Deep, Inventory, Remarks, VerifyDepth

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution import Executor
    from kafkats.plans.depths import Looked
    from kafkats.plans.rows import LocatedFinding

FINDINGS_EXIT: Final = 1


@click.command()
@LOG_DIRS
@options(Inventory)
@REPORT
@TOPICS
@JOBS
@JSON
@MAX_BATCH_BYTES
def inventory(
    log_dirs: tuple[Path, ...],
    by: str,
    report: Path | None,
    topics: str,
    executor: Executor,
    as_json: bool,
) -> None:
    """List what is on the disks: bytes, offsets, times, formats.

    It reads only the ends of files; with --by format, every batch. Use verify to find damage, and
    census for the formats of a migration.
    """
    from kafkats.flow.keeping import keep_segments
    from kafkats.flow.looking import look_at_ends
    from kafkats.inspect.inventory import group

    if by == "format":
        if report is not None:
            raise UsageError("kafkats census writes the report of formats, inventory does not")
        show_formats(log_dirs, topics, executor, as_json)
        return
    seen = look_at_ends(executor, units_in(log_dirs, topics))
    rows = group(seen, by)
    columns = list(rows[0]) if rows else []
    if by == "partition":
        columns = [name for name in columns if name != "partitions"]
    show_rows(rows, columns, as_json)
    summary = keep_segments(seen, report) | {"groups": len(rows)}
    say_summary(summary, as_json, [*seen_sentences(summary), *unread_sentences(seen)])


@click.command()
@LOG_DIRS
@options(Deep, VerifyDepth)
@RULE
@TOPICS
@POLICY
@options(Remarks)
@REPORT
@PROOF
@STEP
@BY
@JOBS
@JSON
@MAX_BATCH_BYTES
def verify(
    log_dirs: tuple[Path, ...],
    deep: bool,
    depth: str,
    rule: str,
    topics: str,
    policy_file: Path | None,
    settings: tuple[str, ...],
    remarks: bool,
    report: Path | None,
    of_plan: Path | None,
    of_run: tuple[Path, ...],
    ledger: Path | None,
    phase: str,
    broker: str,
    by: str,
    executor: Executor,
    as_json: bool,
) -> int:
    """List the defects of logs and indexes, by kind and severity.

    Exits with 1 if one is damage or danger. With --of-plan or --of-run it reads only what was
    written, and exits with 1 unless each file is as planned.
    """
    from kafkats.flow import depths
    from kafkats.flow.keeping import keep_segments
    from kafkats.plans.depths import depth_totals
    from kafkats.plans.facts import all_findings

    check_step(ledger, phase, broker, topics)
    deep = deep or depth == "deep"
    _check_depth(depth, whole=deep or bool(ledger or of_plan or of_run))
    options = verify_options(rule, policy_file, settings, deep=deep)
    check_written(of_plan, of_run)
    proves = bool(of_plan or of_run)
    units = units_in(log_dirs, topics, policy=options.policy, proves=proves)
    if of_plan or of_run:
        if ledger:
            raise UsageError("--ledger records whole brokers: leave --of-plan and --of-run out")
        proof, about = prove_written(executor, of_plan, of_run, units, options)
        seen = keep_segments(proof.segments, report)
        say_summary(seen | about, as_json, proof_sentences(proof))
        return FINDINGS_EXIT if proof.not_equal else 0
    looked = depths.look(executor, units, options, depth=depth)
    summary = keep_segments(looked.segments, report) | depth_totals(looked.segments)
    if depth == "tail":
        summary["looked_bytes"] = looked.read_bytes
    found = all_findings(looked.segments)
    _show_findings(found, remarks=remarks, as_json=as_json)
    sentences = _verified_sentences(looked, summary, depth)
    if _to_rebuild(looked.segments, found):
        how = [] if depth == "tail" else ["--from", report] if report else ["--depth", "full"]
        same = _given_words(rule, topics, policy_file, settings)
        words = map(str, (*log_dirs, *how, *same))
        sentences.append(f"next: kafkats plan rebuild {shlex.join(words)} -o PLAN")
    say_summary(summary, as_json, sentences)
    if summary["worst"] in ("damage", "danger"):
        return FINDINGS_EXIT
    tell_step(ledger, "verified", phase, broker, by=by, details={"deep": deep})
    return 0


def _check_depth(depth: str, *, whole: bool) -> None:
    if depth == "tail" and whole:
        raise UsageError(
            "--depth tail does not read whole segments: --deep, --ledger, --of-plan and --of-run"
            " need --depth full"
        )


def _show_findings(findings: Iterable[LocatedFinding], *, remarks: bool, as_json: bool) -> None:
    """Show the findings, the worst first; without `remarks` damage and danger only."""
    shown = sorted(
        (f for f in findings if remarks or as_json or f["severity"] in ("damage", "danger")),
        key=lambda f: -SEVERITIES.index(f["severity"]),
    )
    show_rows(shown, ("severity", "kind", "partition_dir", "file", "position", "reason"), as_json)


def _verified_sentences(looked: Looked, summary: Mapping[str, Any], depth: str) -> list[str]:
    """Return the sentences about the segments, what the depth cannot see, and missing records."""
    from kafkats.plans.depths import depth_sentences, looked_sentences
    from kafkats.plans.missing import missing_records

    sentences = seen_sentences(summary)
    if depth == "tail":
        sentences += looked_sentences(looked)
        sentences += depth_sentences(summary["depths"], summary["indexes_not_compared"])
    lacking = missing_records(looked.segments)
    if lacking:
        sentences.append(
            f"records are missing in {counted(len(lacking), 'partition')}: plans leave them alone,"
            " docs/findings.md says what to do"
        )
    return sentences


def _given_words(
    rule: str, topics: str, policy_file: Path | None, settings: Iterable[str]
) -> Iterator[str]:
    """Yield the options with which a plan compares indexes as this command did."""
    if rule != DEFAULT_RULE.name:
        yield from ("--generation", rule)
    if topics != "*":
        yield from ("--topics", topics)
    if policy_file is not None:
        yield from ("--policy", str(policy_file))
    for setting in settings:
        yield from ("--config", setting)


def _to_rebuild(segments: pa.Table, findings: Iterable[LocatedFinding]) -> bool:
    """Return whether a rebuild would write something, and no evidence of what the log lacks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bad = pa.array(["missing", "defective"])
    rows = segments.filter(
        pc.or_(pc.is_in(segments["offset_index"], bad), pc.is_in(segments["time_index"], bad))
    )
    lacking = ("missing-records", "gap-not-flushed", "end-not-flushed")
    held = {(f["log_dir"], f["partition_dir"]) for f in findings if f["kind"] in lacking}
    places = zip(rows["log_dir"].to_pylist(), rows["partition_dir"].to_pylist(), strict=True)
    return any(place not in held for place in places)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@options(Deep, Dialect)
@MAX_BATCH_BYTES
def dump(file: Path, deep: bool, dialect: str | None) -> int:
    """Print a file of a log directory: one JSON object per entry.

    Exits with 1 if the file ends in bytes that are no entries, as a write that was not finished
    leaves them: the kinds tail and zeros. Of a corrupt file it prints what can be read, and exits
    with 2. It does not judge entries: verify does.
    """
    from kafkats.inspect.dump import LEFT
    from kafkats.inspect.dump import dump as operation

    left = False
    for row in operation(file, deep=deep, dialect=dialect):
        left |= row["kind"] in LEFT
        say(json.dumps(row))
    return FINDINGS_EXIT if left else 0


COMMANDS: Final = (inventory, census, verify, dump)
