"""census and certify: which message formats are on the disks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.generated import taking
from kafkats.cli.options import JOBS, JSON, LOG_DIRS, given_policy
from kafkats.cli.performing import log_dirs_at, perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.terminal import formats_sentence
from kafkats.config.given import Given
from kafkats.config.options import BatchLimit, IndexSettings, Report, Settings, Topics
from kafkats.config.settings_read import INDEXES
from kafkats.counts import counted
from kafkats.inspect.options import Census, ProofOptions
from kafkats.migration.options import Certify, Step
from kafkats.plans.current_user import this_user
from kafkats.plans.options import User
from kafkats.request import PolicyContent

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.result import Certified, Result


@click.command()
@LOG_DIRS
@taking(Census, Report, Topics, JOBS, JSON, BatchLimit)
def census(log_dirs: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """List bytes, batches and records by message format.

    Use it for a migration: it has more groups than inventory --by format, and writes a report.

    It reads every batch header and checks every checksum. The report has all rows (census.parquet),
    and the bytes of each topic that a broker has to convert for old fetches, so that it cannot send
    them from the file (zero-copy.json).
    """
    request = request_of("census", given, log_dirs=log_dirs_at(log_dirs))
    rows = Rows(as_json=as_json)

    def sentences(result: Result) -> list[str]:
        return [formats_sentence(result.summary()), *rows.said]

    return perform(request, executor, rows, sentences, as_json=as_json)


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
    JOBS,
    JSON,
    BatchLimit,
    by={"default": this_user},
)
def certify(log_dirs: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Certify that no batch has an older or newer message format.

    --min-magic and --max-magic are the bounds. It reads every batch, and exits with 1 if one lies
    outside.

    With --of-plan or --of-run it first proves what was written, and exits with 1 only if that is
    wrong.
    """
    written = given.of(ProofOptions)
    proves = written.of_plan or written.of_run
    policy = given_policy(given, reads=INDEXES) if proves else None
    request = request_of(
        "certify",
        given,
        log_dirs=log_dirs_at(log_dirs),
        policy=policy and PolicyContent.of(policy),
        by=given.of(User).by,
    )
    rows = Rows(as_json=as_json)

    def sentences(result: Result) -> list[str]:
        certified = result.certificate
        told = certificate_sentences(certified) if certified else _check_sentences(result.summary())
        return [*rows.said, *told]

    return perform(request, executor, rows, sentences, as_json=as_json)


def certificate_sentences(certified: Certified) -> list[str]:
    """Return what a certificate states, and how to look again if it was written."""
    sentences = [certified.statement, f"digest {certified.digest}"]
    if folder := certified.folder:
        sentences.append(
            f"certificate {folder}; to look again: kafkats certify --check {quote(folder)}"
        )
    return sentences


def _check_sentences(found: Mapping[str, Any]) -> list[str]:
    """Return whether a certificate is still true."""
    state = "holds" if found["holds"] else "does not hold any more"
    count = found["differences"]
    rest = f"; {counted(count, 'difference')} from the certificate" if count else ""
    rest += ", all through normal work of the broker" if count and found["unchanged"] else ""
    return [found["statement"], f"{state}{rest}"]
