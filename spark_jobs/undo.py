"""Put back what runs replaced, as a Spark job: spark-submit spark_jobs/undo.py RUN...

The latest run first. Each partition directory is undone by itself, under its own lease; a repeated undo goes on where a
lost one ended. --certify LOG_DIR... --max-magic N then says in a certificate what lies there.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import arguments
import certify
import pyarrow as pa
from fanout import run_job, spread
from looking import keep_census, look_at_formats
from pyspark.sql import SparkSession

from kafkats.certificate import CertifyOptions
from kafkats.operations.apply import tell_ledger
from kafkats.operations.ending import ENDED, end_partition, note_undone, undoable
from kafkats.reserving import changing
from kafkats.run import Run, directories, read_run, wrote_in
from kafkats.units import list_units
from kafkats.who import this_user

_UNDOABLE: Final = pa.schema([("undoable", pa.bool_())])
_ORDER: Final = [("log_dir", "ascending"), ("partition_dir", "ascending")]


def undo(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    arguments.check_yes(args.approval, [read_run(folder).digest for folder in args.runs])
    said: dict[str, Any] = {"runs": [], "files": 0, "errors": [], "exit_code": 0}
    for folder in args.runs:
        with changing(read_run(folder), folder, holder=args.holder, going_back=True) as held:
            rows = undo_run(spark, folder, by=args.by)
        for remark in held.remarks:
            print(remark)
        for row in rows:
            if row["error"]:
                print(f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}: {row['error']}")
                said["errors"].append(f"{row['outcome']}: {row['log_dir']}/{row['partition_dir']}: {row['error']}")
        said["runs"].append(str(folder))
        said["files"] += sum(row["files"] for row in rows)
        said["exit_code"] = max((row["exit_code"] for row in rows), default=0)
        if said["exit_code"]:
            return said  # what an earlier run left lies below, and stays
    return said | (certified(spark, args) if args.certify else {})


def undo_run(spark: SparkSession, folder: Path, *, by: str) -> list[dict[str, Any]]:
    """Undo one run, and tell its migration's ledger when all of it is undone: a row of ENDED per partition directory."""
    run, written = read_run(folder), wrote_in(folder)

    def do(where: tuple[str, str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([end_partition(run, "undo", *where, wrote=where in written)], schema=ENDED)

    table = spread(spark, "undo", list(directories(run)), do, ENDED, size=lambda _: 1)
    rows: list[dict[str, Any]] = table.sort_by(_ORDER).to_pylist()
    if not any(row["exit_code"] for row in rows):
        note_undone(folder, now_ms=time.time_ns() // 1_000_000)
        tell_ledger(run, "undone", folder=folder, by=by, now_ms=time.time_ns() // 1_000_000)
    return rows


def certified(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.certify))
    certificate = certify.look(spark, units, CertifyOptions(tuple(args.certify), max_magic=args.max_magic))
    said = dict(certify.tell(certificate, args.output))
    if args.report:
        said |= {"census": keep_census(look_at_formats(spark, units), args.report), "report": str(args.report)}
    return said | {"log_dirs": args.certify}


def closed(spark: SparkSession, folders: Sequence[Path]) -> bool:
    """Whether one of the runs cannot be undone any more: old files are gone, or the new ones have changed since."""
    return any(_closed(spark, read_run(folder), wrote_in(folder)) for folder in folders)


def _closed(spark: SparkSession, run: Run, written: set[tuple[str, str]]) -> bool:
    def do(where: tuple[str, str]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist(
            [{"undoable": undoable(run, *where, wrote=where in written)}], schema=_UNDOABLE
        )

    table = spread(spark, "look for old files", list(directories(run)), do, _UNDOABLE, size=lambda _: 1)
    return not all(table["undoable"].to_pylist())


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run's folder; the latest first")
    parser.add_argument("--by", default=this_user(), metavar="WHO", help="whom a migration's ledger names")
    parser.add_argument("--holder", default="", metavar="WHO", help="whose reservation of the log dirs is this undo's")
    parser.add_argument(
        "--approval", type=Path, metavar="FILE", help="undo only what the answer recorded there approves"
    )
    parser.add_argument("--certify", nargs="+", default=[], metavar="LOG_DIR", help="then certify these")
    parser.add_argument("--max-magic", type=int, choices=range(3), help="nothing above")
    parser.add_argument("-o", "--output", type=Path, metavar="CERT", help="the certificate's folder")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="census.parquet goes here")
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats undo", lambda spark: undo(spark, args))


if __name__ == "__main__":
    sys.exit(main())
