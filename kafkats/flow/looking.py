"""Stages that read log directories. Each returns one table, with rows in the order of its units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats.config import Policy
from kafkats.execution import Executor
from kafkats.flow.depths import look, look_with_report, read_ends, read_whole
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.known import read_report
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.lookup.partitions import LOOKUP, LookupOptions, lookup_unit
from kafkats.migration.census import CENSUS, census_unit
from kafkats.migration.certificate import Certificate, CertifyOptions
from kafkats.migration.certify import SEEN, certify_unit, make_certificate
from kafkats.migration.recheck import Recheck, certified_bytes, compare
from kafkats.plans.depths import Looked
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.rows import PartitionKey, SegmentKey
from kafkats.plans.units import Unit, list_units
from kafkats.search import PartitionUnit
from kafkats.search import Target as Time

_END_BYTES: Final = 16 * 1024
"""Read of a segment's files then, about."""


_READ_ALL: Final = VerifyOptions()


@dataclass(frozen=True)
class LogStages:
    """The stages of plans.operation.Stages. `options` are those of a proof."""

    executor: Executor
    options: VerifyOptions = _READ_ALL

    def verify(
        self, units: Sequence[Unit], *, rule: str | None = None, policy: Policy | None = None
    ) -> pa.Table:
        """Read everything: facts.SEGMENTS of depth full."""
        options = self.options if rule is None else replace(self.options, rule=rule)
        options = options if policy is None else replace(options, policy=policy)
        return verify(self.executor, units, options)

    def look(
        self,
        units: Sequence[Unit],
        *,
        rule: str,
        policy: Policy,
        depth: str,
        report: Path | None = None,
    ) -> Looked:
        """Look to `depth`, or take over what a report tells and read the rest whole."""
        options = replace(self.options, rule=rule, policy=policy)
        if report is None:
            return look(self.executor, units, options, depth=depth)
        return look_with_report(self.executor, units, options, read_report(report))

    def ends(self, units: Iterable[Unit]) -> pa.Table:
        """Read the ends of logs and indexes: facts.SEGMENTS of depth tail."""
        return look_at_ends(self.executor, tuple(units))


def verify(executor: Executor, units: Sequence[Unit], options: VerifyOptions) -> pa.Table:
    """Every defect of the units: facts.SEGMENTS."""
    do = partial(verify_unit, options=options)
    return read_whole(executor, units, do, SEGMENTS, deep=options.deep)


def look_at_ends(executor: Executor, units: Sequence[Unit]) -> pa.Table:
    """Read the ends of logs and indexes: facts.SEGMENTS of depth tail."""
    return read_ends(executor, "inventory", units, inventory_units, SEGMENTS, each=_END_BYTES)


def count_formats(executor: Executor, units: Sequence[Unit], *, deep: bool = False) -> pa.Table:
    """Batches, records and bytes by format: census.CENSUS."""
    do = partial(census_unit, deep=deep)
    return executor.map("census", units, do, CENSUS, size=_bytes, threads=not deep)


def certify(executor: Executor, units: Sequence[Unit], options: CertifyOptions) -> Certificate:
    """The certificate, or why there is none."""
    do = partial(certify_unit, deep=options.deep)
    seen = executor.map("certify", units, do, SEEN, size=_bytes, threads=not options.deep)
    return make_certificate(seen, options)


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


def lookup(
    executor: Executor,
    units: Sequence[PartitionUnit],
    times: Sequence[Time],
    options: LookupOptions,
) -> pa.Table:
    """Look up the offset at each time: rows of LOOKUP, by partition, in the order of `times`."""
    suffix = ".timeindex" if options.depth == "tail" else ".log"
    do = partial(lookup_unit, targets=times, options=options)
    return executor.map(
        "lookup", units, do, LOOKUP, size=lambda unit: partition_bytes(unit, suffix)
    )


def partition_bytes(unit: PartitionUnit, suffix: str) -> int:
    """Bytes of all files of a kind. A directory that cannot be read counts 0 here: the search
    reports it.
    """
    with suppress(OSError):
        return sum(path.stat().st_size for path in unit.path.glob(f"*{suffix}"))
    return 0


def _bytes(unit: Unit) -> int:
    return unit.bytes
