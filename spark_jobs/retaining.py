"""What `plan.py retain` decides from the ends of all files, as the kafkats command does; and the proof after an apply.

--beyond-guard PLAN     where a guard of the policy keeps something, also the plan without guards, from the same facts: what
                        somebody may approve in place of the other; with --into its digest is added to the name
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import arguments
import pyarrow as pa
from fanout import spread
from looking import look, look_at_ends
from pyspark.sql import SparkSession

from kafkats.contradictions import interval_remarks
from kafkats.generations import rule_remarks
from kafkats.operations.apply import refuse_unpermitted
from kafkats.operations.retain import RETENTION, RetainOptions, board, plan_retain
from kafkats.operations.retain.heads import check_options, look_at, plan_inside
from kafkats.operations.retain.proof import WRONG, not_kept, wrong_files
from kafkats.operations.retain.suspects import SHARES, look_into, suspects, with_shares
from kafkats.operations.verify import VerifyOptions
from kafkats.parts import PARTS
from kafkats.plan import Plan
from kafkats.report import read_table
from kafkats.reserving import Planning
from kafkats.units import Unit, list_units, refuse_parts

PRINTED: Final = 200
LOOKED_INTO: Final = 200
"""Segments with timestamps that cannot be: all of each is read."""
NAMED: Final = 20
_DIRECTORY: Final = ("log_dir", "partition_dir")
_GUARDS: Final = ("over the guard", "over the run's guard")

Made = tuple[Plan, pa.Table, Mapping[str, pa.Table], Mapping[str, Any]]
"""The plan, report.SEGMENTS, the tables beside the plan (RETENTION, SHARES), and what else the job's result says."""


def retain(spark: SparkSession, args: Namespace, ours: Planning) -> Made:
    policy = arguments.policy(args)
    options = RetainOptions(
        arguments.now(args),
        args.generation,
        args.before,
        args.free,
        args.over_guard,
        args.last_segment,
        arguments.accepted(args),
    )
    units = list(list_units(args.log_dirs, topics=args.topics))
    refuse_parts(units)
    check_options(options, inside_segments=args.inside_segments)
    segments = look_at_ends(spark, units)
    verified: list[pa.Table] = []

    def verify(chosen: Sequence[Unit]) -> pa.Table:
        verified.append(look(spark, list(chosen), VerifyOptions(policy=policy)))
        return verified[-1]

    def decide(options: RetainOptions) -> tuple[Plan, pa.Table]:
        if not args.inside_segments:
            return plan_retain(segments, policy, options)
        return plan_inside(
            units,
            segments,
            policy,
            options,
            look=lambda targets: spread(spark, "heads", targets, look_at, PARTS, size=lambda one: one[0].bytes),
            verify=verify,
        )

    made, verdicts = decide(options)
    rows = board(verdicts, options.now_ms)
    worst = sorted(rows, key=lambda row: -int(row["pinned_bytes"]))[:LOOKED_INTO]
    shares = spread(spark, "suspects", suspects(worst), look_into, SHARES, size=lambda suspect: suspect.bytes)
    for row in with_shares(rows[:PRINTED], shares):
        print(json.dumps(row))
    if len(rows) > PRINTED:
        print(f"... and {len(rows) - PRINTED} more")
    said: dict[str, Any] = {"now_ms": options.now_ms, "before_ms": options.before_ms, "over_guard": over_guard(made)}
    said["remarks"] = rule_remarks(options.rule) + arguments.remarks(args, policy, units)
    said["remarks"] += [remark for table in verified for remark in interval_remarks(made, table)]
    if args.beyond_guard and said["over_guard"]:
        more, all_verdicts = decide(replace(options, over_guard=True))
        refuse_unpermitted(more)
        folder = arguments.named_by_digest(args.beyond_guard, more) if args.into else args.beyond_guard
        ours.write(more, folder, retention=all_verdicts, suspects=shares)
        said["beyond"] = {"plan": str(folder), "digest": more.digest, "totals": dict(more.header["totals"])}
    return made, segments, {"retention": verdicts, "suspects": shares}, said


def over_guard(made: Plan) -> int:
    """How many segments nothing but a guard keeps."""
    return sum(count for veto, count in made.header["totals"]["vetoes"].items() if veto.startswith(_GUARDS))


def words(parser: ArgumentParser) -> None:
    parser.add_argument("--export", type=Path, metavar="FILE", help="what kafka-configs --describe said of the topics")
    parser.add_argument(
        "--now", type=arguments.TIME, metavar="TIME", help="decide for this moment; the clock's if not given"
    )
    parser.add_argument(
        "--before", type=arguments.TIME, metavar="TIME", help="delete what is older, whatever retention.ms says"
    )
    parser.add_argument("--free", type=arguments.SIZE, metavar="SIZE", help="stop when purge would free that much")
    parser.add_argument("--over-guard", action="store_true", help="lift the policy's guards: somebody has approved it")
    parser.add_argument("--inside-segments", action="store_true", help="also expired heads of segments that stay")
    parser.add_argument("--last-segment", action="store_true", help="also the last one, as a broker does")
    arguments.accepting(parser)
    parser.add_argument(
        "--beyond-guard", type=Path, metavar="PLAN", help="also the plan without guards, to be approved"
    )


def prove(
    spark: SparkSession, plan: Plan, folder: Path, units: Sequence[Unit], *, later: Collection[tuple[str, str]] = ()
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Look at the plan's partitions once more: report.SEGMENTS (depth tail), and how many of its files are as they should be.

    What was to go is gone; every segment that was to stay is there, with the same records' ends, also where it is what is left of one
    whose head went; the checkpoints begin where the logs do now. In the partitions of `later` another run has decided since what stays.
    """
    by_directory: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    items = [row for row in plan.items.to_pylist() if row["action"] != "blocked"]
    for row in items:
        by_directory.setdefault((row["log_dir"], row["partition_dir"]), []).append(row)
    found = spread(spark, "prove", list(by_directory.values()), wrong_files, WRONG, size=len)
    segments = look_at_ends(spark, [unit for unit in units if (unit.log_dir, unit.partition_dir) in by_directory])
    wrong = {row["path"]: row["why"] for row in found.to_pylist()}
    decided = [row not in later for row in zip(*(segments[name].to_pylist() for name in _DIRECTORY), strict=True)]
    wrong |= not_kept(
        read_table(folder / "retention.parquet", RETENTION), segments.filter(pa.array(decided, pa.bool_()))
    )
    for path, why in list(wrong.items())[:PRINTED]:
        print(f"not as it should be: {path}: {why}")
    return segments, {"files": len(items), "equal": max(len(items) - len(wrong), 0), "not_equal": list(wrong)[:NAMED]}
