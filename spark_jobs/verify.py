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
from fanout import run_job
from reports import keep, keep_proof, print_lines

from kafkats.execution import Executor
from kafkats.flow import looking
from kafkats.flow.proving import prove
from kafkats.flow.proving_runs import prove_runs
from kafkats.plans.facts import all_findings
from kafkats.plans.plan import read_plan
from kafkats.plans.units import list_units


def verify(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    options = arguments.verify_options(args)
    if args.of_plan:
        return keep_proof(
            prove(executor, read_plan(args.of_plan), args.of_plan, units, options), args.report
        )
    if args.of_run:
        proof = prove_runs(executor, args.of_run, units, options)
        return keep_proof(proof, args.report, runs=[str(folder) for folder in args.of_run])
    segments = looking.verify(executor, units, options)
    tell(segments)
    said = keep(segments, args.report)
    return {**said, "exit_code": int(said["worst"] in {"damage", "danger"})}


def tell(segments: pa.Table) -> None:
    findings = all_findings(segments)
    lines = (
        f"{row['severity']:8}{row['kind']:24}{row['log_dir']}/{row['partition_dir']}/{row['file']}: {row['reason']}"
        for row in findings
    )
    print_lines(lines, len(findings))


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.reading(parser)
    parser.add_argument("--deep", action="store_true", help="decode every record")
    parser.add_argument(
        "--of-plan", type=Path, metavar="PLAN", help="prove what this plan wrote, nothing else"
    )
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
    return run_job("kafkats verify", lambda executor: verify(executor, args))


if __name__ == "__main__":
    sys.exit(main())
