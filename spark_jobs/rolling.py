"""What `plan.py roll` decides from the ends of all files, and the proof after an apply."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import arguments
import pyarrow as pa
from looking import look, look_at_ends
from pyspark.sql import SparkSession

from kafkats.findings import SEVERITIES
from kafkats.operations.roll import RollOptions, plan_roll
from kafkats.operations.verify import VerifyOptions
from kafkats.plan import Plan
from kafkats.units import Unit, list_units

PRINTED: Final = 200
NAMED: Final = 20

Made = tuple[Plan, pa.Table, pa.Table, Mapping[str, Any]]
"""The plan, report.SEGMENTS, DUE, and what else the job's result says."""


def roll(spark: SparkSession, args: Namespace) -> Made:
    policy, options = (
        arguments.policy(args),
        RollOptions(arguments.now(args), args.generation, arguments.accepted(args)),
    )
    units = list(list_units(args.log_dirs, topics=args.topics))
    segments = look_at_ends(spark, units)
    made, found = plan_roll(segments, policy, options)
    for row in found.slice(0, PRINTED).to_pylist():
        print(json.dumps(row))
    if found.num_rows > PRINTED:
        print(f"... and {found.num_rows - PRINTED} more")
    return made, segments, found, {"now_ms": options.now_ms, "remarks": arguments.remarks(args, policy, units)}


def words(parser: ArgumentParser) -> None:
    parser.add_argument("--export", type=Path, metavar="FILE", help="what kafka-configs --describe said of the topics")
    parser.add_argument(
        "--now", type=arguments.TIME, metavar="TIME", help="decide for this moment; the clock's if not given"
    )
    arguments.accepting(parser)


def prove(
    spark: SparkSession, plan: Plan, units: Sequence[Unit], options: VerifyOptions
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Look once more at the segments that were closed and begun: report.SEGMENTS, and how many of the plan's files are right.

    A new segment is the partition's active one, empty, and begins where the one before it ends; every index is sound.
    """
    items = [row for row in plan.items.to_pylist() if row["action"] != "blocked"]
    ends = {(row["log_dir"], row["partition_dir"]): row["base_offset"] for row in items if row["action"] == "add"}
    of_them = [unit for unit in units if (unit.log_dir, unit.partition_dir) in ends and unit.base_offset >= 0]
    last_two: dict[tuple[str, str], list[Unit]] = {}
    for unit in sorted(of_them, key=lambda unit: unit.base_offset):
        where = unit.log_dir, unit.partition_dir
        last_two[where] = [*last_two.get(where, [])[-1:], unit]
    segments = look(spark, [unit for two in last_two.values() for unit in two], options)
    wrong: dict[tuple[str, str], str] = dict.fromkeys(ends, "the new segment is missing")
    for row in segments.to_pylist():
        where = row["log_dir"], row["partition_dir"]
        if row["base_offset"] == ends[where]:
            found = "" if row["active"] and not row["log"]["size"] else "the new segment is not an empty, active one"
            wrong[where] = found or _damage(row)
    for row in segments.to_pylist():
        where = row["log_dir"], row["partition_dir"]
        if row["base_offset"] != ends[where] and not wrong[where]:
            ended = row["last_offset"] is not None and row["last_offset"] + 1 == ends[where]
            wrong[where] = _damage(row) if ended else f"the segment before ends at {row['last_offset']}"
    named = [f"{log_dir}/{partition}: {why}" for (log_dir, partition), why in wrong.items() if why]
    for line in named[:PRINTED]:
        print(f"not as it should be: {line}")
    equal = sum(not wrong[row["log_dir"], row["partition_dir"]] for row in items)
    return segments, {"files": len(items), "equal": equal, "not_equal": named[:NAMED]}


def _damage(row: Mapping[str, Any]) -> str:
    found = [f for f in row["findings"] if f["severity"] in SEVERITIES[2:]]
    return f"{found[0]['file']}: {found[0]['reason']}" if found else ""
