"""What is on the disks by message format, as a Spark job: spark-submit spark_jobs/census.py LOG_DIR... [--by topic] -o FOLDER

Reads every batch header and checks every checksum; with --deep it also counts the records inside wrappers. Prints one JSON
object per group; FOLDER gets all rows (census.parquet), and whom each topic costs zero-copy (zero-copy.json).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import arguments
from fanout import run_job
from reports import keep_census, print_rows

from kafkats.execution import Executor
from kafkats.flow.looking import count_formats
from kafkats.migration.census import GROUPS, group_census, zero_copy
from kafkats.plans.facts import write_json
from kafkats.plans.units import list_units


def census(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    table = count_formats(executor, units, deep=args.deep)
    rows = group_census(table, args.by)
    print_rows(rows)
    seen = keep_census(table, args.report)
    said = {"census": dict(seen), "log_dirs": args.log_dirs, "groups": len(rows)}
    if args.report:
        write_json(args.report / "zero-copy.json", {"topics": zero_copy(table)})
        said["report"] = str(args.report)
    return said


def main() -> int:
    parser = arguments.parser(__doc__)
    arguments.decoding(parser)
    arguments.naming(parser)
    parser.add_argument("--by", default="format", choices=list(GROUPS), help="what a line is about")
    parser.add_argument(
        "--deep", action="store_true", help="also count the records inside wrappers"
    )
    args = parser.parse_args()
    return run_job("kafkats census", lambda executor: census(executor, args))


if __name__ == "__main__":
    sys.exit(main())
