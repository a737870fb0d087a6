"""Certificates of a small volume, and what a later look says of them."""

from __future__ import annotations

from pathlib import Path

from kafkats.execution.local import LocalExecutor
from kafkats.flow import certifying
from kafkats.formats import v0, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.migration.certificate import Certificate, CertifyOptions
from kafkats.migration.recheck import Recheck
from kafkats.plans.units import list_units


def recheck(certificate: Certificate) -> Recheck:
    """List and look again, in this process."""
    return certifying.recheck(LocalExecutor(1), certificate)


def certified(*roots: Path, topics: str = "*", **bounds: int | bool) -> Certificate:
    options = CertifyOptions(tuple(map(str, roots)), topics, **bounds)  # type: ignore[arg-type]
    return certifying.certify(LocalExecutor(1), list(list_units(roots, topics=topics)), options)


def message(magic: int, offset: int, value: bytes = b"v") -> bytes:
    record = Record(
        offset, -1, TimestampType.NONE if magic == 0 else TimestampType.CREATE_TIME, None, value
    )
    return v0.encode_batch([record]) if magic == 0 else v2.encode_batch([record])


def log_of(root: Path, partition: str = "a-0", base: int = 0) -> Path:
    return root / partition / f"{base:020d}.log"


def whats(again: Recheck) -> list[tuple[str, str, int, bool]]:
    return [(d.what, d.partition_dir, d.base_offset, d.breaks) for d in again.differences]
