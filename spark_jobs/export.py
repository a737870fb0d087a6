"""Offsets for other tools, as a Spark job: spark-submit spark_jobs/export.py LOG_DIR...|TABLE --at TIME --to FORMAT -o FILE

Partitions are searched on the workers; a table is read here. The file is the same as the kafkats command's.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import arguments
from fanout import run_job
from lookup import partitions, policy_words

from kafkats.config.settings_read import READS
from kafkats.errors import UsageError
from kafkats.execution import Executor
from kafkats.flow import looking
from kafkats.lookup import exports
from kafkats.lookup import partitions as operation
from kafkats.lookup.marks import find_marks, with_margin
from kafkats.lookup.partitions import LookupOptions, target_of
from kafkats.plans.facts import make_folder, write_text

NAMED: Final = 20


def export(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    if args.group and args.to != "group-csv":
        raise UsageError("--group is for group-csv")
    at = target_of(args.at, "--at")
    until = None if args.until is None else target_of(args.until, "--until")
    at, until = with_margin(at, until, args.margin)
    options = LookupOptions(
        now_ms=time.time_ns() // 1_000_000, policy=arguments.policy(args, reads=READS["export"])
    )
    limits = (
        operation.limits(operation.lookup_partitions(args.logs, topics=args.topics))
        if args.logs
        else None
    )
    starts, ends = find_marks(
        args.log_dirs, at, until, lambda targets: looking.lookup(executor, partitions(args), targets, options),
        topics=args.topics, limits=limits,
    )  # fmt: skip
    made = exports.export(starts, ends, to=args.to, missing=args.missing, group=args.group)
    make_folder(args.output.parent, "the export")
    write_text(args.output, made.text)
    without = [
        f"{note.topic}-{note.partition}: no {note.side} ({note.reason})" for note in made.notes
    ]
    for line in without[:NAMED]:
        print(line)
    failed = args.to == "json" and any(note.reason != "past-end" for note in made.notes)
    return {
        "export": str(args.output), "partitions": made.partitions, "without": len(without), "named": without[:NAMED],
        "exit_code": int(failed),
    }  # fmt: skip


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    parser.add_argument(
        "log_dirs", nargs="+", metavar="LOG_DIR|TABLE", help="log directories, or one lookup table"
    )
    parser.add_argument("--topics", default="*", metavar="GLOB", help="only these topics")
    policy_words(parser)
    parser.add_argument(
        "--at",
        required=True,
        metavar="TIME",
        help="ISO 8601, epoch ms, latest, earliest or max-timestamp",
    )
    parser.add_argument("--until", metavar="TIME", help="the end of a range, itself not included")
    parser.add_argument(
        "--to", required=True, choices=exports.FORMATS, help="docs/exports.md tells what is in each"
    )
    parser.add_argument(
        "--missing",
        default="fail",
        choices=list(exports.MISSING),
        help="what of partitions without an answer",
    )
    parser.add_argument(
        "--margin",
        type=arguments.DURATION,
        default=0,
        metavar="DURATION",
        help="begin earlier, end later",
    )
    parser.add_argument(
        "--logs", action="append", default=[], metavar="LOG_DIR",
        help="with a table: where its logs lie, to see what of them is there now",
    )  # fmt: skip
    parser.add_argument(
        "--group", default="", metavar="GROUP", help="for group-csv: the first column"
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="where it goes"
    )
    return parser


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats export", lambda executor: export(executor, args))


if __name__ == "__main__":
    sys.exit(main())
