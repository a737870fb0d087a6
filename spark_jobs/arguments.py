"""The words of the jobs' command lines: the same as the kafkats command's, for the same things."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from kafkats.config import Policy, read_policy, with_settings
from kafkats.generations import DEFAULT_RULE, RULES
from kafkats.operations.verify import VerifyOptions


def parser(doc: str | None) -> ArgumentParser:
    """A parser whose help begins with the job's docstring."""
    return ArgumentParser(description=(doc or "").partition("\n")[0])


def naming(parser: ArgumentParser, *report: str, nargs: str = "+") -> None:
    """What every job that reads log directories takes; `report` are the names of the option for the report's folder."""
    parser.add_argument(
        "log_dirs", nargs=nargs, metavar="LOG_DIR", help="a log.dirs root, a partition directory or a .log"
    )
    parser.add_argument("--topics", default="*", metavar="GLOB", help="only these topics")
    names = report or ("-o", "--output", "--report")
    parser.add_argument(
        *names, dest="report", type=Path, metavar="FOLDER", help="segments.parquet and report.json go here"
    )


def reading(parser: ArgumentParser, *report: str, nargs: str = "+") -> None:
    """What every job that verifies takes."""
    naming(parser, *report, nargs=nargs)
    parser.add_argument("--policy", type=Path, metavar="FILE", help="volumes and Kafka settings per topic")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a Kafka topic setting")
    parser.add_argument("--generation", default=DEFAULT_RULE.name, choices=sorted(RULES), help="whose index rule")


def policy(args: Namespace) -> Policy:
    """The policy file with --config laid over it. Raises UsageError, StorageFailed."""
    return with_settings(read_policy(args.policy) if args.policy else Policy(), args.config)


def verify_options(args: Namespace) -> VerifyOptions:
    return VerifyOptions(rule=args.generation, deep=getattr(args, "deep", False), policy=policy(args))
