"""census and certify: which message formats are on the disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.generated import options, taking
from kafkats.cli.options import (
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    REPORT,
    TOPICS,
    given_policy,
    units_in,
)
from kafkats.cli.proving import (
    proof_sentences,
)
from kafkats.cli.session import session
from kafkats.cli.streams import say
from kafkats.cli.terminal import formats_sentences, say_summary, show_rows
from kafkats.config.given import Given
from kafkats.config.options import IndexSettings, Settings, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted
from kafkats.errors import UsageError
from kafkats.flow.steps import check_step, tell_step
from kafkats.inspect.options import Census, ProofOptions
from kafkats.migration.options import Certify, Step
from kafkats.plans.current_user import this_user
from kafkats.plans.options import User

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution import Executor
    from kafkats.migration.certificate import Certificate, CertifiedRow
    from kafkats.plans.proof import Proof
    from kafkats.plans.units import Unit
    from kafkats.result import Certified

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
_WHERE = ("partition_dir", "base_offset")
_BY_MAGIC = tuple(f"magic_{magic}_{what}" for what in ("batches", "bytes") for magic in range(3))
_ZERO_COPY = (
    "log_dir",
    "topic",
    "bytes",
    "fetch_0_1_converted",
    "fetch_2_3_converted",
    "zstd_bytes",
)


def show_formats(
    log_dirs: tuple[Path, ...], topics: str, executor: Executor, as_json: bool
) -> None:
    """Bytes, batches and records by magic, codec and timestamp type, and what that costs in
    zero-copy.
    """
    from kafkats.flow.looking import count_formats

    show_census(count_formats(executor, units_in(log_dirs, topics)), "topic", {}, as_json)


def show_census(table: pa.Table, by: str, more: Mapping[str, Any], as_json: bool) -> None:
    """Show census.CENSUS by one of its groups; the summary also has `more`."""
    from kafkats.migration import census as operation

    rows = operation.group_census(table, by)
    show_rows(rows, _worth_showing(_COLUMNS, rows), as_json)
    losing = [row for row in operation.zero_copy(table) if row["fetch_0_1_converted"]]
    for_people = not as_json and not session().scheduled
    if for_people and losing:
        say(
            "\nbytes that a broker of 0.10 to 3.9 converts, instead of sending them from the file,"
            " for old fetches:"
        )
    show_rows(losing, _worth_showing(_ZERO_COPY, losing), as_json)
    if for_people and losing:
        say(f"{operation.ON_4X}\n")
    summary = operation.summarize(table) | {"groups": len(rows), **more}
    say_summary(summary, as_json, formats_sentences(summary, operation.problems(table)))


@click.command()
@LOG_DIRS
@options(Census)
@REPORT
@TOPICS
@JOBS
@JSON
@MAX_BATCH_BYTES
def census(
    log_dirs: tuple[Path, ...],
    by: str,
    deep: bool,
    report: Path | None,
    topics: str,
    executor: Executor,
    as_json: bool,
) -> None:
    """List bytes, batches and records by message format.

    Use it for a migration: it has more groups than inventory --by format, and writes a report.

    It reads every batch header and checks every checksum. The report has all rows (census.parquet),
    and the bytes of each topic that a broker has to convert for old fetches, so that it cannot send
    them from the file (zero-copy.json).
    """
    from kafkats.flow.keeping import keep_census
    from kafkats.flow.looking import count_formats
    from kafkats.migration.census import summarize, zero_copy
    from kafkats.plans.disks import keep_disks
    from kafkats.plans.files import write_json

    table = count_formats(executor, units_in(log_dirs, topics), deep=deep)
    more: dict[str, Any] = {"log_dirs": list(map(str, log_dirs))}
    if report is None:
        more["census"] = dict(summarize(table))
    else:
        more |= {"census": keep_census(table, report), "report": str(report)}
        write_json(report / "zero-copy.json", {"topics": zero_copy(table)})
        keep_disks(log_dirs, report)
    show_census(table, by, more, as_json)


def _worth_showing(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without the columns that say nothing here: one log dir, no problems."""
    silent = {name for name in ("log_dir", "problem") if len({row.get(name) for row in rows}) <= 1}
    return [name for name in columns if name not in silent]


@click.command()
@click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, type=click.Path(path_type=Path))
@taking(
    Certify,
    ProofOptions,
    IndexSettings,
    Step,
    User,
    Topics,
    Settings,
    by={"default": this_user},
)
@JOBS
@JSON
@MAX_BATCH_BYTES
def certify(log_dirs: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Certify that no batch has an older or newer message format.

    --min-magic and --max-magic are the bounds. It reads every batch, and exits with 1 if one lies
    outside.

    With --of-plan or --of-run it first proves what was written, and exits with 1 only if that is
    wrong.
    """
    from kafkats.flow import looking
    from kafkats.flow.keeping import keep_census, keep_certificate
    from kafkats.migration.certificate import CertifyOptions

    asked, step, topics = given.of(Certify), given.of(Step), given.of(Topics).topics
    if bool(log_dirs) == bool(asked.check):
        raise UsageError("name log directories, or a certificate to --check")
    if asked.check:
        return _check(asked.check, executor, as_json)
    check_step(step.ledger, step.phase, step.broker, topics)
    bounds = asked.min_magic, asked.max_magic
    options = CertifyOptions(tuple(map(str, log_dirs)), topics, *bounds, asked.deep)
    units = units_in(log_dirs, topics)
    proof, about = _proof(executor, given, units)
    certificate = looking.certify(executor, units, options)
    show_rows(certificate.refusals, (*_WHERE, "kind", "reason"), as_json)
    exceptions = certificate.exceptions if as_json else _by_magic(certificate.exceptions)
    show_rows(exceptions, (*_WHERE, *_BY_MAGIC), as_json)
    kept = keep_certificate(certificate, asked.output)
    summary = {"log_dirs": list(options.log_dirs), **about, **kept.summary()}
    summary["digest"] = certificate.digest
    if asked.report:
        table = looking.count_formats(executor, units)
        summary |= {"census": keep_census(table, asked.report), "report": str(asked.report)}
    sentences = proof_sentences(proof) if proof else []
    say_summary(summary, as_json, sentences + certificate_sentences(kept))
    wrong = bool(proof and proof.not_equal)
    if certificate.certified and not wrong:
        _tell_certified(given, certificate)
    return int(wrong or not (proof or certificate.certified))


def _proof(
    executor: Executor, given: Given, units: list[Unit]
) -> tuple[Proof | None, dict[str, Any]]:
    """Prove what --of-plan or --of-run wrote. Return the proof and its summary, None without."""
    from kafkats.flow.keeping import keep_segments
    from kafkats.flow.proving_runs import prove_written
    from kafkats.inspect.verify import VerifyOptions

    asked, written = given.of(Certify), given.of(ProofOptions)
    if not (written.of_plan or written.of_run):
        return None, {}
    policy = given_policy(given, reads=INDEXES)
    verify = VerifyOptions(rule=given.of(IndexSettings).rule, deep=asked.deep, policy=policy)
    proof = prove_written(executor, written.of_plan, written.of_run, units, verify)
    runs = {"runs": [str(run) for run in written.of_run]} if not written.of_plan else {}
    seen = keep_segments(proof.segments, asked.report)
    return proof, {**proof.summary(), **runs, "seen": seen}


def _tell_certified(given: Given, certificate: Certificate) -> None:
    """Tell the ledger of the migration, if there is one, that its broker is certified."""
    step, options = given.of(Step), certificate.options
    details = {
        "min_magic": options.min_magic,
        "max_magic": options.max_magic,
        "digest": certificate.digest,
        "log_dirs": list(options.log_dirs),
    }
    tell_step(
        step.ledger,
        "certified",
        step.phase,
        step.broker,
        by=given.of(User).by,
        details={key: value for key, value in details.items() if value is not None},
    )


def _by_magic(rows: Sequence[CertifiedRow]) -> list[dict[str, object]]:
    """Return segments with a number in each column: batches and bytes of magic 0, 1 and 2."""
    return [
        dict(row) | dict(zip(_BY_MAGIC, (*row["magic_batches"], *row["magic_bytes"]), strict=True))
        for row in rows
    ]


def certificate_sentences(certified: Certified) -> list[str]:
    """Return what a certificate states, and how to look again if it was written."""
    sentences = [certified.statement, f"digest {certified.digest}"]
    if folder := certified.folder:
        sentences.append(
            f"certificate {folder}; to look again: kafkats certify --check {quote(folder)}"
        )
    return sentences


def _check(folder: Path, executor: Executor, as_json: bool) -> int:
    from kafkats.flow.looking import recheck
    from kafkats.migration.certificate import read_certificate

    certificate = read_certificate(folder)
    found = recheck(executor, certificate)
    rows = [one._asdict() for one in found.differences]
    show_rows(
        rows, ("what", "log_dir", "partition_dir", "base_offset", "was", "now", "breaks"), as_json
    )
    state = "holds" if found.holds else "does not hold any more"
    rest = f"; {counted(len(rows), 'difference')} from the certificate" if rows else ""
    rest += ", all through normal work of the broker" if rows and found.unchanged else ""
    summary = {
        "holds": found.holds,
        "unchanged": found.unchanged,
        "differences": len(rows),
        "statement": certificate.statement,
    }
    say_summary(summary, as_json, [certificate.statement, f"{state}{rest}"])
    return int(not found.unchanged)
