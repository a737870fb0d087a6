"""preflight: what a broker does with its log directories when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import options
from kafkats.cli.options import JOBS, JSON, LOG_DIRS, REPORT, text_of_file
from kafkats.cli.streams import say
from kafkats.cli.terminal import say_summary
from kafkats.recovery.options import Preflight

if TYPE_CHECKING:
    from kafkats.execution import Executor


@click.command()
@LOG_DIRS
@options(Preflight)
@REPORT
@JOBS
@JSON
def preflight(
    log_dirs: tuple[Path, ...],
    kafka: str,
    recovery_rate: int | None,
    describe: Path | None,
    cluster_id: str,
    node_id: int | None,
    go_on: bool,
    report: Path | None,
    executor: Executor,
    as_json: bool,
) -> int:
    """Predict the start of a broker on its log directories.

    Name all log.dirs of the broker. Beside a running broker it predicts the start after a kill at
    this moment. Exits with 0 if the broker starts and loses nothing.
    """
    import json
    import time

    from kafkats.recovery.meta_properties import Expected
    from kafkats.recovery.rows import start_row, write_starts
    from kafkats.recovery.sentences import loses, sentences, summary
    from kafkats.recovery.start import predict_start
    from kafkats.recovery.strays import read_cluster

    cluster = None if describe is None else read_cluster(text_of_file(describe), str(describe))
    began = time.monotonic()
    start = predict_start(
        executor, log_dirs, kafka, expected=Expected(cluster_id, node_id), cluster=cluster
    )
    said = list(sentences(start, recovery_rate, time.monotonic() - began))
    totals = summary(start)
    if report is not None:
        write_starts(report, start.partitions, totals | {"said": said})
    if as_json:
        for one in start.partitions:
            say(json.dumps(start_row(one)))
    say_summary(totals, as_json, said)
    return int(loses(start) and not go_on)
