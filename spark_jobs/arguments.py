"""The words of the jobs' command lines: the same as the kafkats command's, for the same things."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from fanout import RESULT, say

from kafkats.cli.terminal import remark_sentences
from kafkats.compression.limit import allow
from kafkats.config import (
    Policy,
    parse_duration,
    parse_size,
    parse_time,
    read_policy,
    with_export_file,
    with_settings,
)
from kafkats.config.approvers import NAME as APPROVERS
from kafkats.config.approvers import read_approvers
from kafkats.config.settings_read import READS
from kafkats.errors import Refused, UsageError
from kafkats.generations import DEFAULT_RULE, RULES
from kafkats.inspect.verify import VerifyOptions
from kafkats.plans.approval import check_approved, read_approval
from kafkats.plans.plan import Plan
from kafkats.plans.units import Unit, topics_of
from kafkats.reserving import DAY_MS, Wish, now_ms


class _Parser(ArgumentParser):
    """Wrong words are the job's result, too, so that whoever submitted it can tell."""

    def error(self, message: str) -> NoReturn:
        say(RESULT, {"error": f"{self.prog}: {message}", "kind": "UsageError", "retryable": False})
        super().error(message)


def parser(doc: str | None) -> ArgumentParser:
    """A parser whose help begins with the job's docstring."""
    return _Parser(description=(doc or "").partition("\n")[0])


def naming(parser: ArgumentParser, *report: str, nargs: str = "+") -> None:
    """What every job that reads log directories takes; `report` are the names of the option for the report's folder."""
    parser.add_argument(
        "log_dirs",
        nargs=nargs,
        metavar="LOG_DIR",
        help="a log.dirs root, a partition directory or a .log",
    )
    parser.add_argument(
        "--topics",
        default="*",
        metavar="GLOB",
        help="only these topics; globs, separated by commas",
    )
    names = report or ("-o", "--output", "--report")
    parser.add_argument(
        *names,
        dest="report",
        type=Path,
        metavar="FOLDER",
        help="segments.parquet and report.json go here",
    )


def reading(
    parser: ArgumentParser,
    *report: str,
    nargs: str = "+",
    generations: Iterable[str] = RULES,
    default: str = DEFAULT_RULE.name,
) -> None:
    """What every job that verifies or decides takes; `generations` are the rules to choose from."""
    naming(parser, *report, nargs=nargs)
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="volumes and Kafka settings per topic"
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a Kafka topic setting"
    )
    parser.add_argument(
        "--generation", default=default, choices=list(generations), help="which Kafka's rule"
    )
    decoding(parser)


def decoding(parser: ArgumentParser) -> None:
    """What every job that decodes records takes; it holds for this process and, by the executor, for its tasks."""
    what = "what one batch may decompress to; 256 MiB if not given"
    parser.add_argument("--max-batch-bytes", type=BATCH_LIMIT, metavar="SIZE", help=what)


def accepting(parser: ArgumentParser) -> None:
    """For jobs that plan changes."""
    parser.add_argument(
        "--accept-loss",
        default="",
        metavar="offsets",
        help="also change partitions in which records are missing",
    )


def accepted(args: Namespace) -> tuple[str, ...]:
    """The losses that `--accept-loss` names."""
    return tuple(word for word in getattr(args, "accept_loss", "").split(",") if word)


def policy(args: Namespace, *, reads: frozenset[str] | None = None) -> Policy:
    """The policy file with --export beside its own and --config laid over it; with `reads`, the keys that the job goes by, others are
    printed. Raises UsageError, StorageFailed."""
    found = read_policy(args.policy) if args.policy else Policy()
    if export := getattr(args, "export", None):
        found = with_export_file(found, export)
    found = with_settings(found, args.config)
    for remark in found.ignored(reads) if reads is not None else ():
        print(remark)
    return found


def remarks(args: Namespace, policy: Policy, units: Iterable[Unit], *, operation: str) -> list[str]:
    """What whoever wrote the policy should know, of the topics that were looked for and the settings that `operation` does not
    read (kafkats.config.settings_read.READS), in a few lines; printed, too."""
    all_topics = args.topics == "*"
    said = remark_sentences(
        policy.remarks(topics_of(units), all_topics=all_topics, reads=READS[operation])
    )
    for remark in said:
        print(remark)
    return said


def now(args: Namespace) -> int:
    """The moment to decide for, in epoch milliseconds."""
    return time.time_ns() // 1_000_000 if args.now is None else int(args.now)


def reserving(parser: ArgumentParser) -> None:
    """What a job that plans takes to reserve its log directories."""
    parser.add_argument(
        "--reserve",
        metavar="HOLDER",
        help="reserve the log dirs that the plan writes to, for HOLDER",
    )
    parser.add_argument(
        "--reserve-until",
        type=int,
        metavar="EPOCH_MS",
        help="the reservation's end; a day from now if not given",
    )
    parser.add_argument(
        "--skip-reserved", action="store_true", help="leave out what others have reserved"
    )
    parser.add_argument(
        "--take-over",
        action="append",
        default=[],
        metavar="HOLDER",
        help="whose reservations count no more",
    )
    work_area(parser)


def work_area(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--work-area",
        type=Path,
        metavar="FOLDER",
        help="undo material goes here, not beside LOG_DIR",
    )


def wish(args: Namespace) -> Wish | None:
    """The reservation that is wanted. Raises UsageError for half of its words."""
    if args.reserve is None:
        if args.reserve_until is not None or args.skip_reserved or args.take_over:
            raise UsageError("--reserve-until, --skip-reserved and --take-over go with --reserve")
        return None
    until_ms = now_ms() + DAY_MS if args.reserve_until is None else args.reserve_until
    return Wish(args.reserve, until_ms, args.skip_reserved, tuple(args.take_over))


def check_yes(approval: Path | None, digests: Iterable[str]) -> None:
    """Raises Refused unless the record says yes to each digest, by an approver where the deployment names them.

    Without a record everything is allowed, unless it names them. Raises UsageError for names that cannot be read.
    """
    approvers = read_approvers(os.environ.get(APPROVERS))
    if approval is not None:
        check_approved(approval, digests)
    if not approvers:
        return
    found = read_approval(approval) if approval else None
    if found is None or found.by not in {approver.name for approver in approvers}:
        who = (
            f"{found.by or 'nobody'!r} is not an approver"
            if found
            else "there is no record of an approver's answer"
        )
        raise Refused(f"{who} ({APPROVERS} is set); clear the run to ask anew", path=approval)


def check_guards(plan: Plan) -> None:
    """Raises Refused for a plan without the policy's guards, where the deployment names approvers."""
    if APPROVERS in os.environ and plan.header["options"].get("over_guard"):
        raise Refused(
            f"this plan goes over the guards of the policy, which nobody may ({APPROVERS} is set)"
        )


def named_by_digest(folder: Path, plan: Plan) -> Path:
    """`folder` with 16 digits of the plan's digest in its name, so that no plan takes another's place."""
    return folder.with_name(f"{folder.name}-{plan.digest[:16]}")


def verify_options(args: Namespace) -> VerifyOptions:
    return VerifyOptions(
        rule=args.generation,
        deep=getattr(args, "deep", False),
        policy=policy(args, reads=READS["verify"]),
    )


def _worded(parse: Callable[[str], int]) -> Callable[[str], int]:
    """For argparse, which keeps the words of no other error."""

    def parsed(text: str) -> int:
        try:
            return parse(text)
        except ValueError as e:
            raise ArgumentTypeError(str(e)) from e

    return parsed


def _allow(text: str) -> int:
    limit = parse_size(text)
    allow(limit)
    return limit


BATCH_LIMIT = _worded(_allow)
TIME = _worded(parse_time)
SIZE = _worded(parse_size)
DURATION = _worded(parse_duration)
