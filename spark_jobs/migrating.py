"""What `plan.py migrate` looks at: formats, defects and a forecast of every segment; then the plan, as the command makes it.

--only-newer    phase 1: a certificate that nothing is newer than --to-magic; where there is none, a plan for the
                partitions that are in its way
--undo RUN      rollback: nothing is planned where these runs can still be undone
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import arguments
import certify
import pyarrow as pa
import pyarrow.compute as pc
from reports import keep_census

from kafkats.config.settings_read import READS
from kafkats.execution import Executor
from kafkats.flow import looking, planning
from kafkats.flow.applying import closed
from kafkats.flow.planning import Planned
from kafkats.generations import COMPRESSION_TYPES, PRODUCER
from kafkats.migration.certificate import CertifyOptions
from kafkats.migration.forecast import target_of
from kafkats.migration.plan import MigrateOptions, check_phase
from kafkats.plans.run import read_actions, read_run
from kafkats.plans.units import list_units


def migrate(executor: Executor, args: Namespace) -> tuple[Planned | None, Mapping[str, Any]]:
    """A plan if there is one to make, and what else the job's result says."""
    target_of(args.to_magic, args.compression_type)  # before anything is read
    options = _options(args)
    check_phase(options)
    units = list(list_units(args.log_dirs, topics=args.topics))
    said: dict[str, Any] = {}
    if args.report:
        said["census"] = keep_census(looking.count_formats(executor, units), args.report)
    if args.undo and not closed(executor, args.undo):
        return None, said | _undoing(args)
    if args.only_newer:
        bounds = CertifyOptions(tuple(args.log_dirs), args.topics, max_magic=args.to_magic)
        certificate = looking.certify(executor, units, bounds)
        said |= certify.tell(certificate, args.certify)
        strays = {(row["log_dir"], row["partition_dir"]) for row in certificate.exceptions}
        units = [unit for unit in units if (unit.log_dir, unit.partition_dir) in strays]
    return planning.migrate(
        executor, units, options, arguments.policy(args, reads=READS["migrate"])
    ), said


def _options(args: Namespace) -> MigrateOptions:
    return MigrateOptions(
        to_magic=args.to_magic,
        compression_type=args.compression_type,
        accept_loss=arguments.accepted(args),
        rule=args.generation,
        ledger=str(args.ledger.absolute()) if args.ledger else "",
        phase=args.phase,
        broker=args.broker,
    )


def _undoing(args: Namespace) -> Mapping[str, Any]:
    """What stands in a plan's place where the old files are still there."""
    print(f"can be undone, so nothing is planned: {' '.join(map(str, args.undo))}")
    tables = [read_actions(folder) for folder in args.undo if (folder / "report.parquet").exists()]
    written = [
        table.filter(pc.is_in(table["outcome"], pa.array(["done", "already"]))) for table in tables
    ]
    totals = {
        "files": sum(table.num_rows for table in written),
        "blocked": 0,
        "write_bytes": sum(
            pc.sum(pc.max_element_wise(table["before_bytes"], 0)).as_py() or 0 for table in written
        ),
        "losses": {},
    }
    run = args.undo[0]
    said = {
        "plan": str(run),
        "digest": read_run(run).digest,
        "totals": totals,
        "log_dirs": args.log_dirs,
    }
    return said | {"undo": [str(folder) for folder in args.undo]}


def words(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--to-magic", type=int, required=True, choices=range(3), help="the message format"
    )
    parser.add_argument(
        "--compression-type", default=PRODUCER, choices=COMPRESSION_TYPES, help="Kafka's setting"
    )
    parser.add_argument(
        "--accept-loss",
        default="",
        metavar="LOSS,...",
        help="what an older format may lose, or all",
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="FILE", help="the cluster's migration: its phases are kept"
    )
    parser.add_argument(
        "--phase", default="", metavar="PHASE", help="of that migration; needs --ledger"
    )
    parser.add_argument(
        "--broker", default="", metavar="NAME", help="whose volumes these are; needs --ledger"
    )
    parser.add_argument(
        "--only-newer",
        action="store_true",
        help="only partitions with batches newer than --to-magic",
    )
    parser.add_argument(
        "--certify", type=Path, metavar="CERT", help="with --only-newer: where a certificate goes"
    )
    parser.add_argument(
        "--undo",
        type=Path,
        nargs="+",
        default=[],
        metavar="RUN",
        help="plan only if these cannot be",
    )
