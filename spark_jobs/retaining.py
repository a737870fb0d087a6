"""What `plan.py retain` decides from the ends of all files, as the kafkats command does.

--beyond-guard PLAN     where a guard of the policy keeps something, also the plan without guards, from the same facts: what
                        somebody may approve in place of the other; with --into its digest is added to the name
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import arguments
import pyarrow as pa
from reports import PRINTED, print_rows

from kafkats.config.settings_read import retaining
from kafkats.execution import Executor
from kafkats.flow import planning
from kafkats.flow.planning import Planned, over_guard, suspect_shares
from kafkats.generations import rule_remarks
from kafkats.plans.units import list_units
from kafkats.reserving import Planning
from kafkats.retention.plan import RetainOptions
from kafkats.retention.summary import board, with_shares

LOOKED_INTO: Final = 200
"""Segments with timestamps that cannot be: all of each is read."""


def retain(
    executor: Executor, args: Namespace, ours: Planning
) -> tuple[Planned, Mapping[str, Any]]:
    """The plan, and what else the job's result says."""
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
    decide = partial(
        planning.retain, executor, units, policy=policy, inside_segments=args.inside_segments
    )
    planned = decide(options)
    rows = board(planned.beside["retention"], options.now_ms)
    worst = sorted(rows, key=lambda row: -int(row["pinned_bytes"]))[:LOOKED_INTO]
    shares = suspect_shares(executor, worst)
    print_rows([*with_shares(rows[:PRINTED], shares), *rows[PRINTED:]])
    said: dict[str, Any] = {"now_ms": options.now_ms, "before_ms": options.before_ms}
    said["over_guard"] = over_guard(planned.plan)
    operation = retaining(inside_segments=args.inside_segments)
    said["remarks"] = rule_remarks(options.rule) + arguments.remarks(
        args, policy, units, operation=operation
    )
    if args.beyond_guard and said["over_guard"]:
        beyond = decide(replace(options, over_guard=True), segments=planned.segments)
        more = beyond.plan
        folder = (
            arguments.named_by_digest(args.beyond_guard, more) if args.into else args.beyond_guard
        )
        planning.write(_with(beyond, suspects=shares), ours, folder)
        said["beyond"] = {
            "plan": str(folder),
            "digest": more.digest,
            "totals": dict(more.header["totals"]),
        }
    return _with(planned, suspects=shares), said


def _with(planned: Planned, **beside: pa.Table) -> Planned:
    return planned._replace(beside={**planned.beside, **beside})


def words(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="what kafka-configs --describe said of the topics",
    )
    parser.add_argument(
        "--now",
        type=arguments.TIME,
        metavar="TIME",
        help="decide for this moment; the clock's if not given",
    )
    parser.add_argument(
        "--before",
        type=arguments.TIME,
        metavar="TIME",
        help="delete what is older, whatever retention.ms says",
    )
    parser.add_argument(
        "--free", type=arguments.SIZE, metavar="SIZE", help="stop when purge would free that much"
    )
    parser.add_argument(
        "--over-guard",
        action="store_true",
        help="lift the policy's guards: somebody has approved it",
    )
    parser.add_argument(
        "--inside-segments", action="store_true", help="also expired heads of segments that stay"
    )
    parser.add_argument(
        "--last-segment", action="store_true", help="also the last one, as a broker does"
    )
    arguments.accepting(parser)
    parser.add_argument(
        "--beyond-guard",
        type=Path,
        metavar="PLAN",
        help="also the plan without guards, to be approved",
    )
