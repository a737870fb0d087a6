"""Look and plan in one application: spark-submit spark_jobs/plan.py rebuild|migrate|retain|roll|split LOG_DIR... -o PLAN

Looks at every segment on the workers, decides on the driver what to do, and writes the plan's folder. Changes nothing
else. The plan is the same, digest and all, as the one that the kafkats command makes. Exit code 1, as the command's, when
the plan has blocked rows; 0 with --go-on, for a scheduler that asks about the other rows.

With --reserve HOLDER the log dirs are reserved before anything is looked at, and those that the plan writes to stay so.
The result then has `holder`, `reserved_until_ms`, `reserves` (log dirs) and, with --skip-reserved, `reserved`: what
others hold and was left out, as {log_dir, holder, until_ms}. `remarks` are always there.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import arguments
import migrating
import retaining
import rolling
import splitting
from fanout import run_job
from reports import keep

from kafkats.config.settings_read import READS
from kafkats.errors import UsageError
from kafkats.execution import Executor
from kafkats.flow import planning as flow
from kafkats.flow.planning import Planned
from kafkats.generations import (
    DEFAULT_RETENTION_RULE,
    DEFAULT_ROLL_RULE,
    DEFAULT_RULE,
    RETENTION_RULES,
    ROLL_RULES,
    RULES,
)
from kafkats.plans.run import read_run
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions
from kafkats.reserving import Planning, planning


def plan(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    if args.skip_reserved and getattr(args, "ledger", None):
        raise UsageError(
            "a ledger is told of all log dirs of a broker: --skip-reserved does not go with --ledger"
        )
    with planning(args.log_dirs, arguments.wish(args), args.work_area) as ours:
        args.log_dirs = ours.log_dirs
        planned, said = _plan(executor, args, ours)
        if planned is None:  # these runs will be undone
            ours.keep({log_dir for folder in args.undo for log_dir in read_run(folder).directories})
        else:
            about = [*said.get("remarks", ()), *planned.remarks]
            said = {**said, **write(args, ours, planned), "remarks": about}
    for line in (*ours.remarks, *ours.sentences()):
        print(line)
    code = int(said["totals"]["blocked"] > 0 and not args.go_on)
    remarks = {
        "remarks": [*said.get("remarks", ()), *ours.remarks],
        "reservation_remarks": ours.remarks,
    }
    return {**said, **ours.said(), **remarks, "exit_code": code}


def _plan(
    executor: Executor, args: Namespace, ours: Planning
) -> tuple[Planned | None, Mapping[str, Any]]:
    if args.operation == "migrate":
        return migrating.migrate(executor, args)
    if args.operation == "retain":
        return retaining.retain(executor, args, ours)
    if args.operation == "roll":
        return rolling.roll(executor, args)
    units = list(list_units(args.log_dirs, topics=args.topics))
    policy = arguments.policy(args, reads=READS["rebuild"])
    if args.operation == "split":
        return flow.split(executor, units, splitting.options(args), policy), {}
    options = RebuildOptions(
        rule=args.generation,
        topics=args.topics,
        all=args.all,
        valid_prefix=args.valid_prefix,
        only_after_unclean_stop=args.only_after_unclean_stop,
        not_for_a_broker=args.not_for_a_broker,
        accept_loss=arguments.accepted(args),
    )
    return flow.rebuild(executor, units, options, policy), {}


def write(args: Namespace, ours: Planning, planned: Planned) -> Mapping[str, Any]:
    """Write the plan's folder and the report of what was seen; the job's result."""
    made = planned.plan
    output = args.output or arguments.named_by_digest(args.into / "plan", made)
    for remark in planned.remarks:
        print(remark)
    flow.write(planned, ours, output)
    totals = dict(made.header["totals"])
    print(
        f"plan {output}: {totals['files']} files to change, {totals['blocked']} blocked, digest {made.digest}"
    )
    seen = keep(planned.segments, args.report)
    return {
        "plan": str(output),
        "digest": made.digest,
        "totals": totals,
        "log_dirs": args.log_dirs,
        "seen": seen,
    }


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    operations = parser.add_subparsers(dest="operation", required=True)
    for operation, more, rules, default in _OPERATIONS:
        of_it = operations.add_parser(operation)
        arguments.reading(of_it, "--report", generations=rules, default=default)
        where = of_it.add_mutually_exclusive_group(required=True)
        where.add_argument("-o", "--output", type=Path, metavar="PLAN", help="the plan's folder")
        where.add_argument(
            "--into",
            type=Path,
            metavar="FOLDER",
            help="the plan's folder is plan-DIGEST in this one",
        )
        of_it.add_argument(
            "--go-on", action="store_true", help="exit with 0 although the plan has blocked rows"
        )
        arguments.reserving(of_it)
        more(of_it)
    return parser


def _rebuild_words(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="also rewrite sound indexes that differ from a rebuild"
    )
    parser.add_argument(
        "--valid-prefix",
        action="store_true",
        help="where the log is corrupt, index what is good before",
    )
    parser.add_argument(
        "--only-after-unclean-stop",
        action="store_true",
        help="only where no clean-shutdown marker is",
    )
    parser.add_argument(
        "--not-for-a-broker", action="store_true", help="allows a rule that would mislead one"
    )
    arguments.accepting(parser)


_OPERATIONS: Final = (
    ("rebuild", _rebuild_words, RULES, DEFAULT_RULE.name),
    ("migrate", migrating.words, RULES, DEFAULT_RULE.name),
    ("retain", retaining.words, RETENTION_RULES, DEFAULT_RETENTION_RULE.name),
    ("roll", rolling.words, ROLL_RULES, DEFAULT_ROLL_RULE.name),
    ("split", splitting.words, RULES, DEFAULT_RULE.name),
)


def main() -> int:
    args = words().parse_args()
    return run_job("kafkats plan", lambda executor: plan(executor, args))


if __name__ == "__main__":
    sys.exit(main())
