"""A certificate of formats, as a Spark job: spark-submit spark_jobs/certify.py LOG_DIR... --min-magic N -o CERT

"Nothing below magic N", or with --max-magic nothing above, with a digest of what was seen. Exits 1 where that cannot be
said. --check CERT looks again; --of-plan PLAN first proves what that plan wrote.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import arguments
from fanout import run_job, spread
from looking import keep, keep_census, look_at_formats
from of_runs import prove_runs
from proving import prove
from pyspark.sql import SparkSession

from kafkats.certificate import Certificate, CertifyOptions, read_certificate, write_certificate
from kafkats.operations.certify import SEEN, certified_bytes, certify_unit, compare, make_certificate
from kafkats.plan import read_plan
from kafkats.units import Unit, list_units

PRINTED: Final = 200


def certify(spark: SparkSession, args: Namespace) -> Mapping[str, Any]:
    if args.check:
        return check(spark, read_certificate(args.check))
    options = CertifyOptions(tuple(args.log_dirs), args.topics, args.min_magic, args.max_magic, args.deep)
    units = list(list_units(args.log_dirs, topics=args.topics))
    said: dict[str, Any] = {"exit_code": 0}
    if args.of_plan:
        segments, proof = prove(spark, read_plan(args.of_plan), units, arguments.verify_options(args))
        said |= proof | {"seen": keep(segments, args.report), "exit_code": int(bool(proof["not_equal"]))}
    elif args.of_run:
        segments, proof = prove_runs(spark, args.of_run, units, arguments.verify_options(args))
        said |= proof | {"seen": keep(segments, args.report), "exit_code": int(bool(proof["not_equal"]))}
    certificate = look(spark, units, options)
    said |= tell(certificate, args.output)
    if args.report:
        said |= {"census": keep_census(look_at_formats(spark, units), args.report), "report": str(args.report)}
    code = max(said["exit_code"], int(not certificate.certified and not args.of_plan and not args.of_run))
    return said | {"log_dirs": args.log_dirs, "exit_code": code}


def look(spark: SparkSession, units: Sequence[Unit], options: CertifyOptions) -> Certificate:
    """The certificate, or why there is none."""
    seen = spread(spark, "certify", units, partial(certify_unit, deep=options.deep), SEEN, size=lambda u: u.bytes)
    return make_certificate(seen, options)


def tell(certificate: Certificate, folder: Path | None) -> Mapping[str, Any]:
    """Write the certificate, if there is one, and say which."""
    print(certificate.statement)
    for row in [*certificate.refusals, *certificate.exceptions][:PRINTED]:
        print(f"{row['log_dir']}/{row['partition_dir']}/{row['base_offset']}: {row.get('reason') or row}")
    if folder is not None and certificate.certified:
        write_certificate(certificate, folder, at=datetime.now(tz=UTC).isoformat(timespec="seconds"))
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


def check(spark: SparkSession, certificate: Certificate) -> Mapping[str, Any]:
    """Look again at all that the certificate is about."""
    options, known = certificate.options, certified_bytes(certificate)

    def do(unit: Unit) -> Any:
        return certify_unit(unit, deep=options.deep, upto=known)

    units = list(list_units(options.log_dirs, topics=options.topics))
    found = compare(certificate, spread(spark, "certify", units, do, SEEN, size=lambda u: u.bytes))
    for one in found.differences[:PRINTED]:
        print(f"{one.what:10}{one.log_dir}/{one.partition_dir}/{one.base_offset}: {one.was or '-'} -> {one.now or '-'}")
    said = {"holds": found.holds, "unchanged": found.unchanged, "differences": len(found.differences)}
    return said | {"statement": certificate.statement, "exit_code": int(not found.unchanged)}


def words() -> ArgumentParser:
    parser = arguments.parser(__doc__)
    arguments.reading(parser, "--report", nargs="*")
    parser.add_argument("--min-magic", type=int, choices=range(3), help="nothing below")
    parser.add_argument("--max-magic", type=int, choices=range(3), help="nothing above")
    parser.add_argument("--deep", action="store_true", help="decode every record")
    parser.add_argument("-o", "--output", type=Path, metavar="CERT", help="the certificate's folder")
    parser.add_argument("--check", type=Path, metavar="CERT", help="look again at what this certificate says")
    parser.add_argument("--of-plan", type=Path, metavar="PLAN", help="also prove what this plan wrote")
    parser.add_argument(
        "--of-run", type=Path, action="append", default=[], metavar="RUN", help="also prove what this run did"
    )
    return parser


def main() -> int:
    parser = words()
    args = parser.parse_args()
    if bool(args.log_dirs) == bool(args.check):
        parser.error("name log directories, or a certificate to --check")
    return run_job("kafkats certify", lambda spark: certify(spark, args))


if __name__ == "__main__":
    sys.exit(main())
