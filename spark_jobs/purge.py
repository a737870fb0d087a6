"""End the undo window of runs, as a Spark job: spark-submit spark_jobs/purge.py RUN... [--older-than 7d]

Only this frees the bytes of old files. A run that ended more recently is left alone. What was purged is written to
purge.json in the run's folder.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import pyarrow as pa
from fanout import run_job, spread
from pyspark.sql import SparkSession

from kafkats.errors import storage
from kafkats.operations.ending import ENDED, end_partition, note_purged
from kafkats.run import Run, directories, read_run


def purge(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    said: dict[str, Any] = {"runs": [], "not_due": [], "files": 0, "freed_bytes": 0, "errors": [], "exit_code": 0}
    for folder in args.runs:
        run = read_run(folder)
        if ended_ms(folder) + args.older_than > arguments.now(args):
            said["not_due"].append(str(folder))
            continue
        rows = _purge(spark, run)
        for row in rows:
            if row["error"]:
                print(f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}: {row['error']}")
                said["errors"].append(f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}: {row['error']}")
        ended = {name: sum(row[name] for row in rows) for name in ("files", "freed_bytes")}
        code = max((row["exit_code"] for row in rows), default=0)
        if not code and (remark := note_purged(folder, rows, now_ms=time.time_ns() // 1_000_000)):
            print(remark)
        said["runs"].append(str(folder))
        said |= {name: said[name] + ended[name] for name in ended} | {"exit_code": max(said["exit_code"], code)}
    return said


def ended_ms(folder: Path) -> int:
    """When the run's last apply ended, or, without a report, when it began."""
    with storage(folder, "looking how old the run is"):
        path = next((path for path in (folder / "report.json", folder / "run.json") if path.exists()), folder)
        return path.stat().st_mtime_ns // 1_000_000


def _purge(spark: SparkSession, run: Run) -> list[dict[str, Any]]:
    """A row of ENDED per partition directory."""

    def do(where: tuple[str, str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([end_partition(run, "purge", *where)], schema=ENDED)

    rows: list[dict[str, Any]] = spread(spark, "purge", list(directories(run)), do, ENDED, size=lambda _: 1).to_pylist()
    return rows


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--older-than", type=arguments.DURATION, default=0, metavar="TIME", help="only runs that ended so long ago"
    )
    parser.add_argument(
        "--now", type=arguments.TIME, metavar="TIME", help="how late it is; the clock's time if not given"
    )
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats purge", lambda spark: purge(spark, args))


if __name__ == "__main__":
    sys.exit(main())
