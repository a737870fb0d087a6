"""Look and plan in one application: spark-submit spark_jobs/plan.py rebuild LOG_DIR... -o PLAN

Verifies every segment on the workers, decides on the driver what to write, and writes the plan's folder. Changes nothing
else. The plan is the same, digest and all, as the one that the kafkats command makes.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
from fanout import run_job
from looking import keep, look
from pyspark.sql import SparkSession

from kafkats.operations.apply import refuse_unpermitted
from kafkats.operations.rebuild import RebuildOptions, plan_rebuild
from kafkats.plan import write_plan
from kafkats.units import list_units


def plan(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    options = RebuildOptions(
        rule=args.generation,
        topics=args.topics,
        all=args.all,
        valid_prefix=args.valid_prefix,
        only_after_unclean_stop=args.only_after_unclean_stop,
        not_for_a_broker=args.not_for_a_broker,
    )
    segments = look(spark, list(list_units(args.log_dirs, topics=args.topics)), arguments.verify_options(args))
    made = plan_rebuild(segments, options)
    refuse_unpermitted(made)
    write_plan(made, args.output)
    totals = dict(made.header["totals"])
    print(f"plan {args.output}: {totals['files']} files to write, {totals['blocked']} blocked, digest {made.digest}")
    seen = keep(segments, args.report)
    return {"plan": str(args.output), "digest": made.digest, "totals": totals, "log_dirs": args.log_dirs, "seen": seen}


def main() -> int:
    parser = arguments.parser(__doc__)
    parser.add_argument("operation", choices=["rebuild"])
    arguments.reading(parser, "--report")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="PLAN", help="the plan's folder")
    parser.add_argument("--all", action="store_true", help="also rewrite sound indexes that differ from a rebuild")
    parser.add_argument(
        "--valid-prefix", action="store_true", help="where the log is corrupt, index what is good before"
    )
    parser.add_argument("--only-after-unclean-stop", action="store_true", help="only where no clean-shutdown marker is")
    parser.add_argument("--not-for-a-broker", action="store_true", help="allows a rule that would mislead one")
    args = parser.parse_args()
    return run_job("kafkats plan", lambda spark: plan(spark, args))


if __name__ == "__main__":
    sys.exit(main())
