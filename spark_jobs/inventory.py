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
from fanout import run_job, spread
from looking import ORDER, keep
from pyspark.sql import SparkSession

from kafkats.operations.inventory import GROUPS, group, inventory_units
from kafkats.report import SEGMENTS
from kafkats.units import list_units

CHUNK = 100
"""Segments that one call looks at; the end of one is read in a fraction of a millisecond."""
END_BYTES = 16 * 1024
"""What is read of a segment's files when only their ends are looked at."""
PRINTED = 200


def inventory(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    chunks = [tuple(units[n : n + CHUNK]) for n in range(0, len(units), CHUNK)]
    seen = spread(spark, "inventory", chunks, inventory_units, SEGMENTS, size=lambda chunk: len(chunk) * END_BYTES)
    segments = seen.sort_by(ORDER)
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
