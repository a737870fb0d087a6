"""Release log dirs that were reserved, as a Spark job: spark-submit spark_jobs/release.py LOG_DIR... [--holder HOLDER]

Only reservations of HOLDER, or whoever's when none is given. `released` and `kept` (another's) in the result are lists of
{log_dir, holder, until_ms}, `free` and `failed` lists of log dirs. Releasing what is not reserved is no error.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

import arguments
from fanout import run_job

from kafkats.execution import Executor
from kafkats.reserving import release_all, release_sentences


def release(_: Executor, args: Namespace) -> Mapping[str, Any]:
    rows = release_all(args.log_dirs, holder=args.holder, place=args.work_area)
    for line in release_sentences(rows):
        print(line)
    said: dict[str, Any] = {"exit_code": max(row["exit_code"] for row in rows)}
    for outcome in ("released", "kept"):
        of_it = (row for row in rows if row["outcome"] == outcome)
        said[outcome] = [
            {name: row[name] for name in ("log_dir", "holder", "until_ms")} for row in of_it
        ]
    for outcome in ("free", "failed"):
        said[outcome] = [row["log_dir"] for row in rows if row["outcome"] == outcome]
    return said


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "log_dirs", nargs="+", metavar="LOG_DIR", help="a log.dirs root, or a directory in one"
    )
    parser.add_argument("--holder", metavar="HOLDER", help="only what HOLDER has reserved")
    arguments.work_area(parser)
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats release", lambda executor: release(executor, args))


if __name__ == "__main__":
    sys.exit(main())
