"""Which offset was it, as a Spark job: spark-submit spark_jobs/lookup.py LOG_DIR... --at TIME [--at TIME] [--report FOLDER]

With --every 1m --from TIME --until TIME -o TABLE it builds a lookup table instead: partitions are searched on the workers, the
table is written once, here, under its lock. Rows and files are the same as those of the kafkats command and library.

The report's folder has lookup.parquet (the rows, --at), report.json, and for pictures of some partitions clouds.parquet (their
records; with --at only if --around says how far) and cells.parquet (--around: a table of that time).
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
from picturing import keep_around, keep_clouds
from reports import print_rows

from kafkats.config.settings_read import READS
from kafkats.errors import UsageError
from kafkats.execution import Executor
from kafkats.flow import looking
from kafkats.flow.building import build_table
from kafkats.generations import DEFAULT_SEARCH_RULE, SEARCH_RULES
from kafkats.lookup.partitions import (
    HIGH_WATERMARKS,
    HOW,
    LookupOptions,
    PartitionUnit,
    above_high_watermark,
    lookup_partitions,
    target_of,
)
from kafkats.plans.facts import make_folder, write_json, write_table
from kafkats.search import DEPTHS
from kafkats.tables import Busiest
from kafkats.tables.store import check_interval

NAMED: Final = 20
MINUTE_MS: Final = 60_000


def lookup(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    if bool(args.at) == (args.every is not None or args.output is not None):
        raise UsageError("either --at, or --every with --from, --until and -o")
    if args.at and (args.begin, args.end) != (None, None):
        raise UsageError("--from and --until are for a table, with --every")
    return rows_at(executor, args) if args.at else build(executor, args)


def rows_at(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    """Rows of LOOKUP, printed and in the report's folder; exit code 1 when a partition could not be searched."""
    targets = [target_of(word, "--at") for word in args.at]
    now_ms = time.time_ns() // 1_000_000 if args.now is None else args.now
    options = LookupOptions(
        args.how,
        args.generation,
        args.depth,
        args.margin,
        now_ms,
        arguments.policy(args, reads=READS["lookup"]),
    )
    units = partitions(args, needed=not args.go_on)
    found = looking.lookup(executor, units, targets, options)
    rows = found.to_pylist()
    print_rows(rows)
    unreadable = sum(row["reason"] == "unreadable" for row in rows)
    said: dict[str, Any] = {
        "partitions": len(units),
        "times": len(targets),
        "unreadable": unreadable,
    }
    said["differ"] = sum(bool(row["differs"]) for row in rows)
    said["above_high_watermark"] = sum(above_high_watermark(found).values())
    if args.report is not None:
        make_folder(args.report, "the report")
        write_table(args.report / "lookup.parquet", found)
        if args.around is not None:
            said["cells_step_ms"] = keep_around(executor, args.report, units, found, args.around)
        write_json(args.report / "report.json", said)
        said["report"] = str(args.report)
    return said | {"exit_code": int(unreadable > 0 and not args.go_on)}


def partitions(args: Namespace, *, needed: bool = True) -> list[PartitionUnit]:
    """Those to search. Raises UsageError when there are none and some are `needed`."""
    units = list(
        lookup_partitions(args.log_dirs, topics=args.topics, high_watermark=args.high_watermark)
    )
    if needed and not units:
        raise UsageError(
            "there is no partition to search"
            + (f" that matches {args.topics!r}" if args.topics != "*" else "")
        )
    return units


def build(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    """Add an interval to the table, and close what is open in it; what was written."""
    if args.begin is None or args.end is None or args.output is None:
        raise UsageError("a table wants --from, --until and -o")
    step_ms = MINUTE_MS if args.every is None else args.every
    check_interval(args.begin, args.end, step_ms)
    make_folder(args.output, "a table")
    units = partitions(args, needed=False)  # a broker may have none of the topics, or none yet
    busy, interval = Busiest(), (args.begin, args.end)
    done = build_table(
        executor,
        args.output,
        units,
        interval,
        step_ms=step_ms,
        exact=args.depth != "tail",
        busy=busy,
    )
    above = (
        f", {done.above_high_watermark} above the high watermark"
        if done.above_high_watermark
        else ""
    )
    print(
        f"table {args.output}: {done.added} cells added, {done.closed} closed, {done.open} open{above}"
    )
    for line in done.other_logs[:NAMED]:
        print(f"{line}: its cells stay open")
    said = {
        "table": str(args.output), "from_ms": args.begin, "to_ms": args.end, "step_ms": step_ms,
        "partitions": len(units), **done._asdict(),
    }  # fmt: skip
    if args.report is not None:
        make_folder(args.report, "the report")
        keep_clouds(executor, args.report, units, busy.most(), args.begin, args.end)
        write_json(args.report / "report.json", said)
        said["report"] = str(args.report)
    return said


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.decoding(parser)
    arguments.naming(parser, "--report")
    parser.add_argument(
        "--at",
        action="append",
        metavar="TIME",
        help="ISO 8601, epoch ms, latest, earliest or max-timestamp; repeat it",
    )
    parser.add_argument(
        "--how",
        default="exact",
        choices=HOW,
        help="the first record that late, safe, or a broker's answer",
    )
    parser.add_argument(
        "--margin",
        type=arguments.DURATION,
        default=0,
        metavar="DURATION",
        help="how much too late, for safe",
    )
    parser.add_argument(
        "--depth",
        default="tail",
        choices=DEPTHS,
        help="trust sound indexes, walk the headers, or decode",
    )
    policy_words(parser)
    parser.add_argument(
        "--generation",
        default=DEFAULT_SEARCH_RULE.name,
        choices=list(SEARCH_RULES),
        help="which Kafka answers beside it",
    )
    parser.add_argument(
        "--now", type=arguments.TIME, metavar="TIME", help="the clock, for generation 0.8"
    )
    parser.add_argument(
        "--go-on",
        action="store_true",
        help="exit with 0 although partitions cannot be searched or none matches",
    )
    parser.add_argument(
        "--around",
        type=arguments.DURATION,
        metavar="DURATION",
        help="what lies so near to TIME into the report, for pictures",
    )
    parser.add_argument(
        "--every",
        type=arguments.DURATION,
        metavar="STEP",
        help="build a table: a cell every so often",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        type=arguments.TIME,
        metavar="TIME",
        help="first cell of the interval",
    )
    parser.add_argument(
        "--until", dest="end", type=arguments.TIME, metavar="TIME", help="its end, not included"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="TABLE",
        help="the table's folder; made if it is not there",
    )
    return parser


def policy_words(parser: ArgumentParser) -> None:
    """What tells how far brokers give records out, and which topics they search."""
    parser.add_argument(
        "--high-watermark",
        default="checkpoint",
        choices=HIGH_WATERMARKS,
        help="up to where brokers give records out: what they checkpointed, or all there is",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="Kafka settings per topic: message.format.version",
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a Kafka topic setting"
    )


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats lookup", lambda executor: lookup(executor, args))


if __name__ == "__main__":
    sys.exit(main())
