"""What is on the disks, as a Spark job: spark-submit spark_jobs/inventory.py LOG_DIR... [--by topic] --report FOLDER

Reads the ends of logs and indexes (formats are told by census.py). Prints one JSON object per group; the report has
the segments themselves.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import arguments
from fanout import run_job
from reports import keep, print_rows

from kafkats.execution import Executor
from kafkats.flow.looking import look_at_ends
from kafkats.inspect.inventory import GROUPS, group
from kafkats.plans.units import list_units


def inventory(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    segments = look_at_ends(executor, list(list_units(args.log_dirs, topics=args.topics)))
    rows = group(segments, args.by)
    print_rows(rows)
    return keep(segments, args.report, groups=len(rows))


def main() -> int:
    parser = arguments.parser(__doc__)
    arguments.naming(parser)
    parser.add_argument("--by", default="partition", choices=GROUPS, help="what a line is about")
    args = parser.parse_args()
    return run_job("kafkats inventory", lambda executor: inventory(executor, args))


if __name__ == "__main__":
    sys.exit(main())
