"""certify, and the census of inventory: which message formats lie on the disks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.options import (
    BY,
    JOBS,
    JSON,
    MAX_BATCH_BYTES,
    STEP,
    TOPICS,
    check_step,
    tell_step,
    units_in,
)
from kafkats.cli.terminal import formats_sentences, say, say_summary, show_rows
from kafkats.errors import UsageError

if TYPE_CHECKING:
    from kafkats.execution import Executor

_COLUMNS = (
    "log_dir",
    "topic",
    "magic",
    "codec",
    "timestamp_type",
    "problem",
    "segments",
    "bytes",
    "share",
    "batches",
    "records",
)
_ZERO_COPY = (
    "log_dir",
    "topic",
    "bytes",
    "fetch_0_1_converted",
    "fetch_2_3_converted",
    "zstd_bytes",
)


def census(log_dirs: tuple[Path, ...], topics: str, executor: Executor, as_json: bool) -> None:
    """Bytes, batches and records by magic, codec and timestamp type, and what that costs in zero-copy."""
    from kafkats.flow.looking import count_formats
    from kafkats.migration import census as operation

    table = count_formats(executor, units_in(log_dirs, topics))
    rows = operation.group_census(table, "topic")
    show_rows(rows, _worth_showing(_COLUMNS, rows), as_json)
    losing = [row for row in operation.zero_copy(table) if row["fetch_0_1_converted"]]
    if not as_json and losing:
        say(
            "\nbytes that a broker of 0.10 to 3.9 converts, instead of sending them from the file, for old fetches:"
        )
    show_rows(losing, _worth_showing(_ZERO_COPY, losing), as_json)
    if not as_json and losing:
        say(f"{operation.ON_4X}\n")
    summary = operation.summarize(table)
    say_summary(summary, as_json, formats_sentences(summary, operation.problems(table)))


def _worth_showing(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without the columns that say nothing here: one log dir, no problems."""
    silent = {name for name in ("log_dir", "problem") if len({row.get(name) for row in rows}) <= 1}
    return [name for name in columns if name not in silent]


@click.command()
@click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--min-magic", type=click.IntRange(0, 2), help="Certify that there is nothing below.")
@click.option("--max-magic", type=click.IntRange(0, 2), help="Certify that there is nothing above.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also decode every record; one that does not decode stands in the way.",
)
@click.option(
    "-o",
    "--output",
    metavar="CERT",
    type=click.Path(path_type=Path),
    help="The certificate's folder.",
)
@click.option(
    "--check",
    metavar="CERT",
    type=click.Path(path_type=Path),
    help="Look again: is this one still true?",
)
@STEP
@BY
@TOPICS
@JOBS
@JSON
@MAX_BATCH_BYTES
def certify(
    log_dirs: tuple[Path, ...],
    min_magic: int | None,
    max_magic: int | None,
    deep: bool,
    output: Path | None,
    check: Path | None,
    ledger: Path | None,
    phase: str,
    broker: str,
    by: str,
    topics: str,
    executor: Executor,
    as_json: bool,
) -> int:
    """State, from every batch, that nothing below or above a format lies there. Exits with 1 when that is not so."""
    from kafkats.flow import looking
    from kafkats.migration import certificate as made

    if bool(log_dirs) == bool(check):
        raise UsageError("name log directories, or a certificate to --check")
    if check:
        return _check(check, executor, as_json)
    check_step(ledger, phase, broker, topics)
    options = made.CertifyOptions(tuple(map(str, log_dirs)), topics, min_magic, max_magic, deep)
    found = looking.certify(executor, units_in(log_dirs, topics), options)
    where = ("partition_dir", "base_offset")
    show_rows(found.refusals, (*where, "kind", "reason"), as_json)
    show_rows(found.exceptions, (*where, "magic_batches", "magic_bytes"), as_json)
    summary = {"certified": found.certified, "statement": found.statement, "digest": found.digest}
    said = [found.statement, f"digest {found.digest}"]
    if found.certified and output is not None:
        made.write_certificate(found, output, at=datetime.now(tz=UTC).isoformat(timespec="seconds"))
        said.append(f"certificate {output}; to look again: kafkats certify --check {output}")
    say_summary(summary, as_json, said)
    if found.certified:
        bounds = {"min_magic": min_magic, "max_magic": max_magic}
        details = bounds | {"digest": found.digest, "log_dirs": list(found.options.log_dirs)}
        told = {key: value for key, value in details.items() if value is not None}
        tell_step(
            ledger,
            "certified",
            phase,
            broker,
            by=by,
            now_ms=time.time_ns() // 1_000_000,
            details=told,
        )
    return int(not found.certified)


def _check(folder: Path, executor: Executor, as_json: bool) -> int:
    from kafkats.flow.looking import recheck
    from kafkats.migration.certificate import read_certificate

    certificate = read_certificate(folder)
    found = recheck(executor, certificate)
    rows = [one._asdict() for one in found.differences]
    show_rows(
        rows, ("what", "log_dir", "partition_dir", "base_offset", "was", "now", "breaks"), as_json
    )
    said = "holds" if found.holds else "does not hold any more"
    rest = f"; {len(rows)} segments are not as certified" if rows else ""
    rest += ", as the broker that was running leaves them" if rows and found.unchanged else ""
    summary = {
        "holds": found.holds,
        "unchanged": found.unchanged,
        "statement": certificate.statement,
    }
    say_summary(summary, as_json, [certificate.statement, f"{said}{rest}"])
    return int(not found.unchanged)
