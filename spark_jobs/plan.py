"""Look and plan in one application: spark-submit spark_jobs/plan.py rebuild|migrate LOG_DIR... -o PLAN

Verifies every segment on the workers (for migrate also converts each without writing, and counts its formats), decides
on the driver what to write, and writes the plan's folder. Changes nothing else. The plan is the same, digest and all, as
the one that the kafkats command makes.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import arguments
import pyarrow as pa
from fanout import run_job, spread
from looking import ORDER, keep, look
from pyspark.sql import SparkSession

from kafkats.forecast import FORECAST, forecast_unit, target_of
from kafkats.generations import COMPRESSION_TYPES, PRODUCER
from kafkats.operations.apply import refuse_unpermitted
from kafkats.operations.migrate import MigrateOptions, check_phase, plan_migrate
from kafkats.operations.rebuild import RebuildOptions, plan_rebuild
from kafkats.plan import Plan, write_plan
from kafkats.units import Unit, list_units

Made = tuple[Plan, pa.Table, Mapping[str, pa.Table]]
"""A plan, what was seen (report.SEGMENTS), and the tables that explain it."""


def plan(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    units = list(list_units(args.log_dirs, topics=args.topics))
    made, segments, beside = PLANNERS[args.operation](spark, args, units)
    refuse_unpermitted(made)
    write_plan(made, args.output, **beside)
    totals = dict(made.header["totals"])
    print(f"plan {args.output}: {totals['files']} files to write, {totals['blocked']} blocked, digest {made.digest}")
    seen = keep(segments, args.report)
    return {"plan": str(args.output), "digest": made.digest, "totals": totals, "log_dirs": args.log_dirs, "seen": seen}


def rebuild(spark: SparkSession, args: Namespace, units: list[Unit]) -> Made:
    options = RebuildOptions(
        rule=args.generation,
        topics=args.topics,
        all=args.all,
        valid_prefix=args.valid_prefix,
        only_after_unclean_stop=args.only_after_unclean_stop,
        not_for_a_broker=args.not_for_a_broker,
    )
    segments = look(spark, units, arguments.verify_options(args))
    return plan_rebuild(segments, options), segments, {}


def migrate(spark: SparkSession, args: Namespace, units: list[Unit]) -> Made:
    target = target_of(args.to_magic, args.compression_type)
    options = MigrateOptions(
        to_magic=args.to_magic,
        compression_type=args.compression_type,
        accept_loss=tuple(word for word in args.accept_loss.split(",") if word),
        rule=args.generation,
        ledger=str(args.ledger.absolute()) if args.ledger else "",
        phase=args.phase or "",
        broker=args.broker,
    )
    check_phase(options)
    segments = look(spark, units, arguments.verify_options(args))
    forecast = spread(spark, "forecast", units, partial(forecast_unit, target=target), FORECAST, size=lambda u: u.bytes)
    forecast = forecast.sort_by([*ORDER, ("file", "ascending")])
    return plan_migrate(segments, forecast, options), segments, {"forecast": forecast}


PLANNERS: Final[Mapping[str, Callable[[SparkSession, Namespace, list[Unit]], Made]]] = {
    "rebuild": rebuild,
    "migrate": migrate,
}


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    operations = parser.add_subparsers(dest="operation", required=True)
    for operation, add in (("rebuild", _rebuild_words), ("migrate", _migrate_words)):
        words = operations.add_parser(operation)
        arguments.reading(words, "--report")
        words.add_argument("-o", "--output", type=Path, required=True, metavar="PLAN", help="the plan's folder")
        add(words)
    return parser


def _rebuild_words(parser: ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="also rewrite sound indexes that differ from a rebuild")
    parser.add_argument(
        "--valid-prefix", action="store_true", help="where the log is corrupt, index what is good before"
    )
    parser.add_argument("--only-after-unclean-stop", action="store_true", help="only where no clean-shutdown marker is")
    parser.add_argument("--not-for-a-broker", action="store_true", help="allows a rule that would mislead one")


def _migrate_words(parser: ArgumentParser) -> None:
    parser.add_argument("--to-magic", type=int, required=True, choices=range(3), help="the message format")
    parser.add_argument("--compression-type", default=PRODUCER, choices=COMPRESSION_TYPES, help="Kafka's setting")
    parser.add_argument("--accept-loss", default="", metavar="LOSS,...", help="what an older format may lose, or all")
    parser.add_argument("--ledger", type=Path, metavar="FILE", help="the cluster's migration: its phases are kept")
    parser.add_argument("--phase", metavar="PHASE", help="which phase this plan belongs to; needs --ledger")
    parser.add_argument("--broker", default="", metavar="BROKER", help="whose volumes these are; needs --ledger")


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats plan", lambda spark: plan(spark, args))


if __name__ == "__main__":
    sys.exit(main())
