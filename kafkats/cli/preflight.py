"""preflight: what a broker does with its log directories when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import taking
from kafkats.cli.options import JOBS, JSON, LOG_DIRS
from kafkats.cli.performing import log_dirs_at, perform, request_of
from kafkats.cli.rows import Rows
from kafkats.config.given import Given
from kafkats.config.options import Report
from kafkats.recovery.options import Preflight

if TYPE_CHECKING:
    from kafkats.execution import Executor


@click.command()
@LOG_DIRS
@taking(Preflight, Report, JOBS, JSON)
def preflight(log_dirs: tuple[Path, ...], given: Given, executor: Executor, as_json: bool) -> int:
    """Predict the start of a broker on its log directories.

    Name all log.dirs of the broker. Beside a running broker it predicts the start after a kill at
    this moment. Exits with 0 if the broker starts and loses nothing.
    """
    request = request_of("preflight", given, log_dirs=log_dirs_at(log_dirs))
    rows = Rows(as_json=as_json)
    return perform(request, executor, rows, lambda _: rows.said, as_json=as_json)
