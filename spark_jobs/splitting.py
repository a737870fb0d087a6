"""The words of `plan.py split`: which segments to cut at batch borders, and where."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace

import arguments

from kafkats.split.parts import SPLITS, SplitOptions, check_options


def options(args: Namespace) -> SplitOptions:
    """Raises UsageError for words that do not go together."""
    latest = time.time_ns() // 1_000_000 if args.latest is None else args.latest
    found = SplitOptions(
        args.where,
        args.segment_bytes,
        args.segment_ms,
        args.earliest,
        latest,
        args.before,
        args.generation,
        arguments.accepted(args),
    )
    check_options(found)
    return found


def words(parser: ArgumentParser) -> None:
    parser.add_argument("--where", required=True, choices=SPLITS, help="what to cut for")
    parser.add_argument("--segment-bytes", type=arguments.SIZE, metavar="SIZE", help="for rolled")
    parser.add_argument("--segment-ms", type=int, metavar="MS", help="for rolled")
    parser.add_argument(
        "--earliest",
        type=arguments.TIME,
        default=0,
        metavar="TIME",
        help="for mixed: nothing can be older",
    )
    parser.add_argument(
        "--latest",
        type=arguments.TIME,
        metavar="TIME",
        help="for mixed: nothing can be younger; now if not given",
    )
    parser.add_argument(
        "--before",
        type=arguments.TIME,
        metavar="TIME",
        help="for expired: what is older has expired",
    )
    arguments.accepting(parser)
