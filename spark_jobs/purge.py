"""End the undo window of runs, as a Spark job: spark-submit spark_jobs/purge.py RUN... [--older-than 7d]

Only this frees the bytes of old files. A run that ended more recently is left alone. What was purged is written to
purge.json in the run's folder.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
from fanout import run_job

from kafkats.errors import storage
from kafkats.execution import Executor
from kafkats.flow import applying
from kafkats.plans.run import read_run


def purge(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    said: dict[str, Any] = {
        "runs": [],
        "not_due": [],
        "files": 0,
        "freed_bytes": 0,
        "errors": [],
        "exit_code": 0,
    }
    for folder in args.runs:
        read_run(folder)
        if ended_ms(folder) + args.older_than > arguments.now(args):
            said["not_due"].append(str(folder))
            continue
        ended = applying.purge(executor, folder)
        for line in (*ended.errors, *ended.remarks):
            print(line)
        said["runs"].append(str(folder))
        said["errors"] += ended.errors
        said |= {name: said[name] + ended.total(name) for name in ("files", "freed_bytes")}
        said["exit_code"] = max(said["exit_code"], ended.exit_code)
    return said


def ended_ms(folder: Path) -> int:
    """When the run's last apply ended, or, without a report, when it began."""
    with storage(folder, "looking how old the run is"):
        path = next(
            (path for path in (folder / "report.json", folder / "run.json") if path.exists()),
            folder,
        )
        return path.stat().st_mtime_ns // 1_000_000


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--older-than",
        type=arguments.DURATION,
        default=0,
        metavar="TIME",
        help="only runs that ended so long ago",
    )
    parser.add_argument(
        "--now",
        type=arguments.TIME,
        metavar="TIME",
        help="how late it is; the clock's time if not given",
    )
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats purge", lambda executor: purge(executor, args))


if __name__ == "__main__":
    sys.exit(main())
