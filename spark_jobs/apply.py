"""Do what an approved plan says, as a Spark job: spark-submit spark_jobs/apply.py PLAN --digest D [--run RUN]

One unit of work is one partition directory, changed under its own lease and journal: a task that Spark runs again finishes
what the lost one began, and one that still runs somewhere is fenced. Applying a finished plan again does nothing.

The log dirs are reserved while it writes, and released at its end. Exit code 3, with the holder's name, where one is
reserved by another than --holder; without that word, by another than who reserved it with the plan.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import pyarrow as pa
from fanout import run_job, spread, with_last_attempt
from pyspark.sql import SparkSession

from kafkats.operations.apply import apply_partition, partition_works, rounds, summarize, tell_ledger
from kafkats.plan import Plan, check_digest, read_plan
from kafkats.report import ACTIONS
from kafkats.reserving import Held, changing
from kafkats.run import finish_run, open_run, run_of
from kafkats.who import this_user

ORDER = [("log_dir", "ascending"), ("partition_dir", "ascending"), ("base_offset", "ascending"), ("file", "ascending")]


def apply(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    plan = read_plan(args.plan)
    check_digest(plan, args.digest)
    arguments.check_yes(args.approval, [plan.digest])
    arguments.check_guards(plan)
    folder = args.run or args.plan.with_name(args.plan.name + ".run")
    run = run_of(plan, place=args.work_area, owner_stopped=args.owner_stopped)
    with changing(run, folder, holder=args.holder, plan_folder=args.plan) as held:
        for remark in held.remarks:
            print(remark)
        said = _apply(spark, args, plan, folder, held)
    return said | {"remarks": held.remarks}


def _apply(spark: SparkSession, args: Namespace, plan: Plan, folder: Path, held: Held) -> dict[str, Any]:
    run, _ = open_run(plan, args.plan, folder, place=args.work_area, owner_stopped=args.owner_stopped)
    held.record(folder)
    works = partition_works(plan, run, folder)
    tell_ledger(run, "started", folder=folder, by=args.by, now_ms=now_ms())
    do = with_last_attempt(apply_partition)
    parts = [spread(spark, "apply", some, do, ACTIONS, size=lambda w: w.bytes) for some in rounds(works)]
    actions = pa.concat_tables(parts or [ACTIONS.empty_table()]).sort_by(ORDER)
    summary = summarize(actions)
    finish_run(folder, actions, summary)
    if not summary["exit_code"]:
        tell_ledger(run, "finished", folder=folder, by=args.by, now_ms=now_ms())
    for row in actions.to_pylist():
        if row["error"]:
            print(f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}/{row['file']}: {row['error']}")
    return {"run": str(folder), **summary, **left(actions)}


def left(actions: pa.Table) -> Mapping[str, int]:
    """How many partitions there are, and in how many of them something was not done."""
    rows = actions.select(["log_dir", "partition_dir", "error"]).to_pylist()
    every = {(row["log_dir"], row["partition_dir"]) for row in rows}
    wrong = {(row["log_dir"], row["partition_dir"]) for row in rows if row["error"]}
    return {"partitions": len(every), "left_partitions": len(wrong)}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.decoding(parser)
    parser.add_argument("plan", type=Path, metavar="PLAN")
    parser.add_argument("--digest", required=True, help="the digest that was approved; 8 digits will do")
    parser.add_argument(
        "--approval",
        type=Path,
        metavar="FILE",
        help="the recorded answer, without whose yes to this digest nothing is done",
    )
    parser.add_argument("--run", type=Path, metavar="RUN", help="the run's folder; PLAN.run if not given")
    parser.add_argument("--owner-stopped", action="store_true", help="no broker runs, where a lock cannot prove it")
    arguments.work_area(parser)
    parser.add_argument("--holder", default="", metavar="WHO", help="whose reservation of the log dirs is this run's")
    parser.add_argument("--by", default=this_user(), metavar="WHO", help="whom a migration's ledger names")
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats apply", lambda spark: apply(spark, args))


if __name__ == "__main__":
    sys.exit(main())
