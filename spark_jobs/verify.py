"""Every defect of every segment, as a Spark job: spark-submit spark_jobs/verify.py LOG_DIR... [--deep]

Prints each finding and a summary; exits 1 when something is damaged. With --of-plan PLAN it looks only at the segments
that the plan writes to, and exits 1 unless each planned file is now as it should be: the proof after an apply. With --of-run
RUN it proves what that run did, no more: not what it was refused, nor what was undone.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import pyarrow as pa
import retaining
import rolling
from fanout import run_job
from looking import keep, look
from of_runs import prove_runs
from proving import prove
from pyspark.sql import SparkSession

from kafkats.errors import UsageError
from kafkats.plan import read_plan
from kafkats.report import all_findings
from kafkats.units import Unit, list_units

PRINTED = 200
"""Findings printed one by one; the report has them all."""


def verify(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    if args.of_plan:
        return prove_plan(spark, args, units)
    if args.of_run:
        segments, proof = prove_runs(spark, args.of_run, units, arguments.verify_options(args))
        return {**keep(segments, args.report, **proof), "exit_code": int(bool(proof["not_equal"]))}
    segments = look(spark, units, arguments.verify_options(args))
    tell(segments)
    said = keep(segments, args.report)
    return {**said, "exit_code": int(said["worst"] in {"damage", "danger"})}


def prove_plan(spark: SparkSession, args: Namespace, units: list[Unit]) -> Mapping[str, Any]:
    """Look again at every file that the plan wrote, or at what a plan to delete has left."""
    plan = read_plan(args.of_plan)
    if plan.operation == "retain":
        segments, proof = retaining.prove(spark, plan, args.of_plan, units)
    elif plan.operation == "roll":
        segments, proof = rolling.prove(spark, plan, units, arguments.verify_options(args))
    elif plan.operation == "split":
        raise UsageError("a split is proved while it is made: there is nothing to prove of its plan", path=args.of_plan)
    else:
        segments, proof = prove(spark, plan, units, arguments.verify_options(args))
    return {**keep(segments, args.report, **proof), "exit_code": int(bool(proof["not_equal"]))}


def tell(segments: pa.Table) -> None:
    findings = all_findings(segments)
    for row in findings[:PRINTED]:
        place = f"{row['log_dir']}/{row['partition_dir']}/{row['file']}"
        print(f"{row['severity']:8}{row['kind']:24}{place}: {row['reason']}")
    if len(findings) > PRINTED:
        print(f"... and {len(findings) - PRINTED} more")


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.reading(parser)
    parser.add_argument("--deep", action="store_true", help="decode every record")
    parser.add_argument("--of-plan", type=Path, metavar="PLAN", help="prove what this plan wrote, nothing else")
    parser.add_argument(
        "--of-run",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="prove what this run did; several from the earliest to the latest",
    )
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats verify", lambda spark: verify(spark, args))


if __name__ == "__main__":
    sys.exit(main())
