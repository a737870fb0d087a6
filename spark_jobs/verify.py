"""Every defect of every segment, as a Spark job: spark-submit spark_jobs/verify.py LOG_DIR... [--deep]

Prints each finding and a summary; exits 1 when something is damaged. With --of-plan PLAN it looks only at the segments
that the plan writes to, and exits 1 unless each planned file now equals a rebuild: the proof after an apply.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import pyarrow as pa
import pyarrow.compute as pc
from fanout import run_job
from looking import keep, look
from pyspark.sql import SparkSession

from kafkats.paths import TIME_INDEX
from kafkats.plan import Plan, read_plan
from kafkats.report import all_findings
from kafkats.units import Unit, list_units

PRINTED = 200
"""Findings printed one by one; the report has them all."""


def verify(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    if args.of_plan:
        return prove(spark, args, read_plan(args.of_plan), units)
    segments = look(spark, units, arguments.verify_options(args))
    tell(segments)
    said = keep(segments, args.report)
    return {**said, "exit_code": int(said["worst"] in {"damage", "danger"})}


def prove(spark: SparkSession, args: Namespace, plan: Plan, units: list[Unit]) -> Mapping[str, Any]:
    """Compare every file that the plan wrote with a rebuild from the log as it is now."""
    writes = plan.items.filter(pc.not_equal(plan.items["action"], "blocked")).to_pylist()
    wanted = {(row["log_dir"], row["partition_dir"], row["base_offset"]) for row in writes}
    chosen = [unit for unit in units if (unit.log_dir, unit.partition_dir, unit.base_offset) in wanted]
    segments = look(spark, chosen, arguments.verify_options(args))
    states = {
        (row["log_dir"], row["partition_dir"], row["base_offset"]): (row["offset_index"], row["time_index"])
        for row in segments.to_pylist()
    }
    wrong = []
    for row in writes:
        offset_index, time_index = states.get((row["log_dir"], row["partition_dir"], row["base_offset"]), ("", ""))
        if (time_index if row["file"].endswith(TIME_INDEX) else offset_index) != "equal":
            wrong.append(f"{row['log_dir']}/{row['partition_dir']}/{row['file']}")
    for path in wrong[:PRINTED]:
        print(f"not equal to a rebuild: {path}")
    said = keep(segments, args.report, files=len(writes), equal=len(writes) - len(wrong), not_equal=wrong[:20])
    return {**said, "exit_code": int(bool(wrong))}


def tell(segments: pa.Table) -> None:
    findings = all_findings(segments)
    for row in findings[:PRINTED]:
        place = f"{row['log_dir']}/{row['partition_dir']}/{row['file']}"
        print(f"{row['severity']:8}{row['kind']:24}{place}: {row['reason']}")
    if len(findings) > PRINTED:
        print(f"... and {len(findings) - PRINTED} more")


def main() -> int:
    parser = arguments.parser(__doc__)
    arguments.reading(parser)
    parser.add_argument("--deep", action="store_true", help="decode every record")
    parser.add_argument("--of-plan", type=Path, metavar="PLAN", help="prove what this plan wrote, nothing else")
    args = parser.parse_args()
    return run_job("kafkats verify", lambda spark: verify(spark, args))


if __name__ == "__main__":
    sys.exit(main())
