"""What is on the disks, as a Spark job: spark-submit spark_jobs/inventory.py LOG_DIR... [--by topic] --report FOLDER

Reads the ends of logs and indexes (formats are told by census.py). Prints one JSON object per group; the report has
the segments themselves.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import arguments
from fanout import run_job
from looking import keep, look_at_ends
from pyspark.sql import SparkSession

from kafkats.operations.inventory import GROUPS, group
from kafkats.units import list_units

PRINTED = 200


def inventory(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    segments = look_at_ends(spark, list(list_units(args.log_dirs, topics=args.topics)))
    rows = group(segments, args.by)
    for row in rows[:PRINTED]:
        print(json.dumps(row))
    if len(rows) > PRINTED:
        print(f"... and {len(rows) - PRINTED} more")
    return keep(segments, args.report, groups=len(rows))


def main() -> int:
    parser = arguments.parser(__doc__)
    arguments.naming(parser)
    parser.add_argument("--by", default="partition", choices=GROUPS, help="what a line is about")
    args = parser.parse_args()
    return run_job("kafkats inventory", lambda spark: inventory(spark, args))


if __name__ == "__main__":
    sys.exit(main())
