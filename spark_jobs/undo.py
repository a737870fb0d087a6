"""Put back what runs replaced, as a Spark job: spark-submit spark_jobs/undo.py RUN...

The latest run first. Each partition directory is undone by itself, under its own lease; a repeated undo goes on where a
lost one ended. --certify LOG_DIR... --max-magic N then says in a certificate what lies there.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import certify
from fanout import run_job
from reports import keep_census

from kafkats.execution import Executor
from kafkats.flow import applying, looking
from kafkats.migration.certificate import CertifyOptions
from kafkats.plans.current_user import this_user
from kafkats.plans.run import read_run
from kafkats.plans.units import list_units


def undo(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    arguments.check_yes(args.approval, [read_run(folder).digest for folder in args.runs])
    said: dict[str, Any] = {"runs": [], "files": 0, "errors": [], "exit_code": 0}
    for folder in args.runs:
        ended = applying.undo(executor, folder, holder=args.holder, by=args.by)
        for line in (*ended.remarks, *ended.errors):
            print(line)
        said["runs"].append(str(folder))
        said["errors"] += ended.errors
        said["files"] += ended.total("files")
        said["exit_code"] = ended.exit_code
        if said["exit_code"]:
            return said  # what an earlier run left lies below, and stays
    return said | (certified(executor, args) if args.certify else {})


def certified(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.certify))
    certificate = looking.certify(
        executor, units, CertifyOptions(tuple(args.certify), max_magic=args.max_magic)
    )
    said = dict(certify.tell(certificate, args.output))
    if args.report:
        said |= {
            "census": keep_census(looking.count_formats(executor, units), args.report),
            "report": str(args.report),
        }
    return said | {"log_dirs": args.certify}


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run's folder; the latest first"
    )
    parser.add_argument(
        "--by", default=this_user(), metavar="WHO", help="whom a migration's ledger names"
    )
    parser.add_argument(
        "--holder",
        default="",
        metavar="WHO",
        help="whose reservation of the log dirs is this undo's",
    )
    parser.add_argument(
        "--approval",
        type=Path,
        metavar="FILE",
        help="undo only what the answer recorded there approves",
    )
    parser.add_argument(
        "--certify", nargs="+", default=[], metavar="LOG_DIR", help="then certify these"
    )
    parser.add_argument("--max-magic", type=int, choices=range(3), help="nothing above")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="CERT", help="the certificate's folder"
    )
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="census.parquet goes here")
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats undo", lambda executor: undo(executor, args))


if __name__ == "__main__":
    sys.exit(main())
