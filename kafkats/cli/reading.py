"""Verbs that read log directories and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.generated import options, taking
from kafkats.cli.next_steps import after_verify
from kafkats.cli.options import (
    BY,
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    given_policy,
)
from kafkats.cli.performing import perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.streams import say
from kafkats.cli.terminal import (
    certificate_sentences,
    formats_sentence,
    seen_sentences,
)
from kafkats.config.given import Given
from kafkats.config.options import Dialect, IndexSettings, Report, Settings, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted
from kafkats.generations import DEFAULT_RULE
from kafkats.inspect.options import Deep, Inventory, ProofOptions, Remarks, VerifyDepth
from kafkats.releases import releases_of
from kafkats.request import PolicyContent, models_of

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor
    from kafkats.result import Result


_ENDS_ONLY: Final = "only the ends of the files were read: kafkats verify reads them whole"


@click.command()
@LOG_DIRS
@taking(*models_of("inventory"), JOBS, JSON)
def inventory(log_dirs: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """List what is on the disks: bytes, offsets, times, formats.

    It reads only the ends of files; with --by format, every batch. Use verify to find damage, and
    census for the formats of a migration.
    """
    request = request_of("inventory", given, log_dirs)
    rows, by_format = Rows(), given.of(Inventory).by == "format"

    def sentences(result: Result) -> list[str]:
        summary = result.summary()
        if by_format:
            return [formats_sentence(summary), *rows.said]
        return [*seen_sentences(summary), _ENDS_ONLY, *rows.said]

    return perform(request, executor, rows, sentences)


@click.command()
@LOG_DIRS
@taking(*models_of("census"), JOBS, JSON)
def census(log_dirs: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """List bytes, batches and records by message format.

    Use it for a migration: it has more groups than inventory --by format, and writes a report.

    It reads every batch header and checks every checksum. The report has all rows (census.parquet),
    and the bytes of each topic that a broker has to convert for old fetches, so that it cannot send
    them from the file (zero-copy.json).
    """
    rows = Rows()
    return perform(
        request_of("census", given, log_dirs),
        executor,
        rows,
        lambda result: [formats_sentence(result.summary()), *rows.said],
    )


@click.command()
@click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, type=click.Path(path_type=Path))
@taking(*models_of("certify"), Settings, BY, JOBS, JSON)
def certify(log_dirs: tuple[Path, ...], given: Given, executor: Executor, by: str) -> int:
    """Certify that no batch has an older or newer message format.

    --min-magic and --max-magic are the bounds. It reads every batch, and exits with 1 if one lies
    outside.

    With --of-plan or --of-run it first proves what was written, and exits with 1 only if that is
    wrong.
    """
    written = given.of(ProofOptions)
    proves = written.of_plan or written.of_run
    policy = given_policy(given, reads=INDEXES) if proves else None
    content = policy and PolicyContent.of(policy)
    request = request_of("certify", given, log_dirs, policy=content, by=by)
    rows = Rows()

    def sentences(result: Result) -> list[str]:
        certified = result.certificate
        told = certificate_sentences(certified) if certified else _check_sentences(result.summary())
        return [*rows.said, *told]

    return perform(request, executor, rows, sentences)


def _check_sentences(found: Mapping[str, Any]) -> list[str]:
    """Return whether a certificate is still true."""
    state = "holds" if found["holds"] else "does not hold any more"
    count = found["differences"]
    rest = f"; {counted(count, 'difference')} from the certificate" if count else ""
    rest += ", all through normal work of the broker" if count and found["unchanged"] else ""
    return [found["statement"], f"{state}{rest}"]


@click.command()
@LOG_DIRS
@taking(*models_of("preflight"), JOBS, JSON)
def preflight(log_dirs: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Predict the start of a broker on its log directories.

    Name all log.dirs of the broker. Beside a running broker it predicts the start after a kill at
    this moment. Exits with 0 if the broker starts and loses nothing.
    """
    rows = Rows()
    return perform(request_of("preflight", given, log_dirs), executor, rows, lambda _: rows.said)


@click.command()
@LOG_DIRS
@taking(*models_of("verify"), Settings, Remarks, BY, JOBS, JSON)
def verify(log_dirs: tuple[Path, ...], given: Given, executor: Executor, by: str) -> int:
    """List the defects of logs and indexes, by kind and severity.

    Exits with 1 if one is damage or danger. With --of-plan or --of-run it reads only what was
    written, and exits with 1 unless each file is as planned.
    """
    policy = given_policy(given, reads=INDEXES)
    request = request_of("verify", given, log_dirs, policy=PolicyContent.of(policy), by=by)
    rows = Rows(remarks=given.of(Remarks).remarks)

    def sentences(result: Result) -> list[str]:
        if rows.defects is None:
            return rows.said
        depth = given.of(VerifyDepth).depth
        told = _verified_sentences(result.summary(), depth, rows.lacking)
        return told + after_verify(rows.defects, log_dirs, _same(given))

    return perform(request, executor, rows, sentences, policy=policy)


def _verified_sentences(summary: Mapping[str, Any], depth: str, lacking: int) -> list[str]:
    """Return the sentences about the segments, what the depth cannot see, and missing records."""
    from kafkats.plans.depths import Reading, depth_sentences, looked_sentences

    sentences = seen_sentences(summary)
    if depth == "tail":
        sentences += looked_sentences(Reading(summary["segments"], summary["looked_bytes"]))
        sentences += depth_sentences(summary["depths"], summary["indexes_not_compared"])
    if lacking:
        sentences.append(
            f"records are missing in {counted(lacking, 'partition')}: plans leave them alone,"
            " kafkats help findings says what to do"
        )
    return sentences


def _same(given: Given) -> list[str]:
    """Return the options with which a plan of a rebuild looks as this verify did."""
    depth, report = given.of(VerifyDepth).depth, given.of(Report).report
    how = [] if depth == "tail" else ["--from", str(report)] if report else ["--depth", "full"]
    settings = given.of(Settings)
    rule, topics = given.of(IndexSettings).rule, given.of(Topics).topics
    return [*how, *_given_words(rule, topics, settings.policy_file, settings.settings)]


def _given_words(
    rule: str, topics: str, policy_file: Path | None, settings: Iterable[str]
) -> Iterator[str]:
    """Yield the options with which a plan compares indexes as this command did."""
    if rule != DEFAULT_RULE.name:
        releases = releases_of("recovery", rule)
        yield from ("--kafka", releases[-1]) if releases else ("--generation", rule)
    if topics != "*":
        yield from ("--topics", topics)
    if policy_file is not None:
        yield from ("--policy", str(policy_file))
    for setting in settings:
        yield from ("--config", setting)


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
    return int(left)
