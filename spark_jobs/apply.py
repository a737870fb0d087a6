"""Do what an approved plan says, as a Spark job: spark-submit spark_jobs/apply.py PLAN --digest D [--run RUN]

One unit of work is one partition directory, changed under its own lease and journal: a task that Spark runs again finishes
what the lost one began, and one that still runs somewhere is fenced. Applying a finished plan again does nothing.

The log dirs are reserved while it writes, and released at its end. Exit code 3, with the holder's name, where one is
reserved by another than --holder; without that word, by another than who reserved it with the plan.
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

from kafkats.execution import Executor
from kafkats.flow import applying
from kafkats.flow.applying import Applied
from kafkats.plans.current_user import this_user
from kafkats.plans.plan import check_digest, read_plan


def apply(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    plan = read_plan(args.plan)
    check_digest(plan, args.digest)
    arguments.check_yes(args.approval, [plan.digest])
    arguments.check_guards(plan)
    folder = args.run or args.plan.with_name(args.plan.name + ".run")
    applied = applying.apply(
        executor,
        plan,
        args.plan,
        folder,
        place=args.work_area,
        owner_stopped=args.owner_stopped,
        holder=args.holder,
        by=args.by,
        show=show,
    )
    return {
        "run": str(folder),
        **applied.summary,
        **left(applied.actions),
        "remarks": applied.remarks,
    }


def show(applied: Applied) -> None:
    for remark in applied.remarks:
        print(remark)
    for row in applied.actions.to_pylist():
        if row["error"]:
            print(
                f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}/{row['file']}: {row['error']}"
            )


def left(actions: pa.Table) -> Mapping[str, int]:
    """How many partitions there are, and in how many of them something was not done."""
    rows = actions.select(["log_dir", "partition_dir", "error"]).to_pylist()
    every = {(row["log_dir"], row["partition_dir"]) for row in rows}
    wrong = {(row["log_dir"], row["partition_dir"]) for row in rows if row["error"]}
    return {"partitions": len(every), "left_partitions": len(wrong)}


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.decoding(parser)
    parser.add_argument("plan", type=Path, metavar="PLAN")
    parser.add_argument(
        "--digest", required=True, help="the digest that was approved; 8 digits will do"
    )
    parser.add_argument(
        "--approval",
        type=Path,
        metavar="FILE",
        help="the recorded answer, without whose yes to this digest nothing is done",
    )
    parser.add_argument(
        "--run", type=Path, metavar="RUN", help="the run's folder; PLAN.run if not given"
    )
    parser.add_argument(
        "--owner-stopped", action="store_true", help="no broker runs, where a lock cannot prove it"
    )
    arguments.work_area(parser)
    parser.add_argument(
        "--holder",
        default="",
        metavar="WHO",
        help="whose reservation of the log dirs is this run's",
    )
    parser.add_argument(
        "--by", default=this_user(), metavar="WHO", help="whom a migration's ledger names"
    )
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats apply", lambda executor: apply(executor, args))


if __name__ == "__main__":
    sys.exit(main())
