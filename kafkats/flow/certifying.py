"""Count the formats of segments, certify them, and write both into folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkats.execution.executor import Executor
from kafkats.flow.looking import bytes_of
from kafkats.flow.viewing import View, tables_of, viewed
from kafkats.migration.census import CENSUS, census_unit, summarize
from kafkats.migration.certificate import Certificate, CertifyOptions, write_certificate
from kafkats.migration.certify import SEEN, certify_unit, make_certificate
from kafkats.migration.recheck import Recheck, certified_bytes, compare
from kafkats.plans.directories import Directories
from kafkats.plans.facts import write_tables
from kafkats.plans.files import make_folder
from kafkats.plans.rows import PartitionKey, SegmentKey
from kafkats.plans.units import Unit, list_units
from kafkats.result import Certified


def count_formats(executor: Executor, units: Sequence[Unit], *, deep: bool = False) -> pa.Table:
    """Batches, records and bytes by format: census.CENSUS."""
    do = partial(census_unit, deep=deep)
    return executor.map("census", units, do, CENSUS, size=bytes_of, threads=not deep)


def certify(executor: Executor, units: Sequence[Unit], options: CertifyOptions) -> Certificate:
    """The certificate, or why there is none."""
    return make_certificate((_seen(executor, units, deep=options.deep),), options)


def certify_groups(
    executor: Executor, groups: Sequence[Directories], options: CertifyOptions
) -> Certificate:
    """Return what `certify` returns of all units, from one group of partitions after another."""
    look = partial(_view, deep=options.deep)
    with viewed(executor, groups, look, None, by_ends=False) as views:
        return make_certificate(tables_of(views, "seen"), options)


def _view(executor: Executor, units: Sequence[Unit], *, deep: bool) -> View:
    return View({}, {"seen": _seen(executor, units, deep=deep)})


def _seen(executor: Executor, units: Sequence[Unit], *, deep: bool) -> pa.Table:
    do = partial(certify_unit, deep=deep)
    return executor.map("certify", units, do, SEEN, size=bytes_of, threads=not deep)


def recheck(executor: Executor, certificate: Certificate) -> Recheck:
    """Return whether a certificate is still true. Raises as `units.list_units`."""
    options = certificate.options
    known: dict[PartitionKey, dict[SegmentKey, int]] = {}
    for key, size in certified_bytes(certificate).items():
        known.setdefault(key.partition, {})[key] = size
    units = list(list_units(options.log_dirs, topics=options.topics))
    work = [(unit, known.get(unit.key.partition, {})) for unit in units]
    do = partial(_certify_again, deep=options.deep)
    return compare(
        certificate, executor.map("certify", work, do, SEEN, size=lambda one: one[0].bytes)
    )


def _certify_again(work: tuple[Unit, Mapping[SegmentKey, int]], *, deep: bool) -> pa.RecordBatch:
    return certify_unit(work[0], deep=deep, upto=work[1])


def keep_census(table: pa.Table, folder: Path) -> dict[str, Any]:
    """Write census.CENSUS into the folder of a report. Return bytes and batches by magic, and the
    folder. Raises StorageFailed.
    """
    write_census((table,), folder)
    return dict(summarize(table)) | {"report": str(folder)}


def write_census(tables: Iterable[pa.Table], folder: Path) -> None:
    """Write tables of census.CENSUS into the folder of a report. Raises StorageFailed."""
    make_folder(folder, "the report")
    write_tables(folder / "census.parquet", tables)


def keep_certificate(certificate: Certificate, folder: Path | None) -> Certified:
    """Write the certificate, if there is one and a folder for it. Raises StorageFailed."""
    written = folder is not None and certificate.certified
    if folder is not None and written:
        at = datetime.now(tz=UTC).isoformat(timespec="seconds")
        write_certificate(certificate, folder, at=at)
    return Certified(
        folder=str(folder) if written else "",
        certified=certificate.certified,
        statement=certificate.statement,
        digest=certificate.digest,
        exceptions=len(certificate.exceptions),
        refusals=len(certificate.refusals),
        min_magic=certificate.options.min_magic,
        max_magic=certificate.options.max_magic,
    )
