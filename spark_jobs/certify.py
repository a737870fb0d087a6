"""A certificate of formats, as a Spark job: spark-submit spark_jobs/certify.py LOG_DIR... --min-magic N -o CERT

"Nothing below magic N", or with --max-magic nothing above, with a digest of what was seen. Exits 1 where that cannot be
said. --check CERT looks again; --of-plan PLAN first proves what that plan wrote.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import arguments
from fanout import run_job
from reports import PRINTED, keep, keep_census, print_proof

from kafkats.execution import Executor
from kafkats.flow import looking
from kafkats.flow.looking import count_formats, recheck
from kafkats.flow.proving import prove
from kafkats.flow.proving_runs import prove_runs
from kafkats.migration.certificate import (
    Certificate,
    CertifyOptions,
    read_certificate,
    write_certificate,
)
from kafkats.plans.plan import read_plan
from kafkats.plans.units import Unit, list_units


def certify(executor: Executor, args: Namespace) -> Mapping[str, Any]:
    if args.check:
        return check(executor, read_certificate(args.check))
    options = CertifyOptions(
        tuple(args.log_dirs), args.topics, args.min_magic, args.max_magic, args.deep
    )
    units = list(list_units(args.log_dirs, topics=args.topics))
    said: dict[str, Any] = {"exit_code": 0}
    if args.of_plan or args.of_run:
        said |= proved(executor, args, units)
    certificate = looking.certify(executor, units, options)
    said |= tell(certificate, args.output)
    if args.report:
        said |= {
            "census": keep_census(count_formats(executor, units), args.report),
            "report": str(args.report),
        }
    code = max(
        said["exit_code"], int(not certificate.certified and not args.of_plan and not args.of_run)
    )
    return said | {"log_dirs": args.log_dirs, "exit_code": code}


def proved(executor: Executor, args: Namespace, units: Sequence[Unit]) -> Mapping[str, Any]:
    """What --of-plan or --of-run wrote, and exit code 1 unless it is as it should be."""
    if args.of_plan:
        proof = prove(
            executor, read_plan(args.of_plan), args.of_plan, units, arguments.verify_options(args)
        )
        said = proof.summary()
    else:
        proof = prove_runs(executor, args.of_run, units, arguments.verify_options(args))
        said = proof.summary() | {"runs": [str(folder) for folder in args.of_run]}
    print_proof(proof)
    return said | {
        "seen": keep(proof.segments, args.report),
        "exit_code": int(bool(proof.not_equal)),
    }


def tell(certificate: Certificate, folder: Path | None) -> Mapping[str, Any]:
    """Write the certificate, if there is one, and say which."""
    print(certificate.statement)
    for row in [*certificate.refusals, *certificate.exceptions][:PRINTED]:
        print(
            f"{row['log_dir']}/{row['partition_dir']}/{row['base_offset']}: {row.get('reason') or row}"
        )
    if folder is not None and certificate.certified:
        write_certificate(
            certificate, folder, at=datetime.now(tz=UTC).isoformat(timespec="seconds")
        )
    options = certificate.options
    return {
        "certificate": str(folder) if folder is not None and certificate.certified else "",
        "certified": certificate.certified,
        "statement": certificate.statement,
        "certificate_digest": certificate.digest,
        "exceptions": len(certificate.exceptions),
        "refusals": len(certificate.refusals),
        "min_magic": options.min_magic,
        "max_magic": options.max_magic,
    }


def check(executor: Executor, certificate: Certificate) -> Mapping[str, Any]:
    """Look again at all that the certificate is about."""
    found = recheck(executor, certificate)
    for one in found.differences[:PRINTED]:
        print(
            f"{one.what:10}{one.log_dir}/{one.partition_dir}/{one.base_offset}: {one.was or '-'} -> {one.now or '-'}"
        )
    said = {
        "holds": found.holds,
        "unchanged": found.unchanged,
        "differences": len(found.differences),
    }
    return said | {"statement": certificate.statement, "exit_code": int(not found.unchanged)}


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.reading(parser, "--report", nargs="*")
    parser.add_argument("--min-magic", type=int, choices=range(3), help="nothing below")
    parser.add_argument("--max-magic", type=int, choices=range(3), help="nothing above")
    parser.add_argument("--deep", action="store_true", help="decode every record")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="CERT", help="the certificate's folder"
    )
    parser.add_argument(
        "--check", type=Path, metavar="CERT", help="look again at what this certificate says"
    )
    parser.add_argument(
        "--of-plan", type=Path, metavar="PLAN", help="also prove what this plan wrote"
    )
    parser.add_argument(
        "--of-run",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="also prove what this run did",
    )
    return parser


def main() -> int:
    parser = words()
    args = parser.parse_args()
    if bool(args.log_dirs) == bool(args.check):
        parser.error("name log directories, or a certificate to --check")
    return run_job("kafkats certify", lambda executor: certify(executor, args))


if __name__ == "__main__":
    sys.exit(main())
