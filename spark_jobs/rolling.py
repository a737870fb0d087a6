"""What `plan.py roll` decides from the ends of all files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
from reports import print_rows

from kafkats.execution import Executor
from kafkats.flow import planning
from kafkats.flow.planning import Planned
from kafkats.plans.units import list_units
from kafkats.rolling.plan import RollOptions


def roll(executor: Executor, args: Namespace) -> tuple[Planned, Mapping[str, Any]]:
    """The plan, and what else the job's result says."""
    policy = arguments.policy(args)
    options = RollOptions(arguments.now(args), args.generation, arguments.accepted(args))
    units = list(list_units(args.log_dirs, topics=args.topics))
    planned = planning.roll(executor, units, options, policy)
    print_rows(planned.beside["due"].to_pylist())
    return planned, {
        "now_ms": options.now_ms,
        "remarks": arguments.remarks(args, policy, units, operation="roll"),
    }


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
    arguments.accepting(parser)
