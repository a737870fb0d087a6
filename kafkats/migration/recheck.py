"""Compare a certificate with what is on the disks now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from kafkats.findings import KINDS, SEVERITIES
from kafkats.migration.certificate import Certificate, CertifiedRow, CertifyOptions
from kafkats.migration.certify import SeenRow, latest
from kafkats.plans.rows import PartitionKey, SegmentKey, key_of

_ROWS_AT_ONCE: Final = 10_000
"""A row takes 2 kB until it is in a table."""


class Difference(NamedTuple):
    """A segment that is not as certified.

    `what` is changed (other batches), grown, touched (the same batches in a file of another mtime,
    size or inode), vanished, new, or damaged (no longer readable). `now` says so where a log
    cleaner or retention did it. `breaks`: it now has batches outside the bounds.
    """

    log_dir: str
    partition_dir: str
    base_offset: int
    what: str
    was: str
    now: str
    breaks: bool = False


class Recheck(NamedTuple):
    """The result of a re-check.

    `holds`: the statement is true of all present segments. `unchanged`: in addition everything is
    as certified, except what a broker that ran at that time has done since: appended, rolled,
    compacted, deleted from the front of a log.
    """

    differences: tuple[Difference, ...]
    holds: bool
    unchanged: bool


def certified_bytes(certificate: Certificate) -> dict[SegmentKey, int]:
    """Return certified bytes by (log_dir, partition_dir, base_offset), `upto` of `certify_unit`."""
    names = ("log_dir", "partition_dir", "base_offset", "bytes")
    rows = zip(*(certificate.segments[name].to_pylist() for name in names), strict=True)
    return {SegmentKey(*key): size for *key, size in rows}


def compare(certificate: Certificate, seen: pa.Table) -> Recheck:
    """Compare rows of SEEN, made with `certified_bytes`, with the certificate."""
    options, seen = certificate.options, latest(seen)
    known = {key_of(row): row for row in certificate.segments.to_pylist()}
    working = {row["log_dir"] for row in known.values() if row["live"]}
    present: dict[PartitionKey, dict[int, bool]] = {}
    differences: list[tuple[Difference, bool]] = []
    for row in (
        row for chunk in seen.to_batches(max_chunksize=_ROWS_AT_ONCE) for row in chunk.to_pylist()
    ):
        was = known.pop(key_of(row), None)
        difference = _difference(was, row, options)
        cleaned = difference is not None and was is not None and _is_cleaned(difference, was, row)
        if row["base_offset"] >= 0:
            present.setdefault(key_of(row).partition, {})[row["base_offset"]] = cleaned
        if difference is not None:
            usual = cleaned or (
                (was is None or was["live"]) and difference.what in {"grown", "new"}
            )
            now = (
                f"{difference.now}; rewritten, as by the log cleaner" if cleaned else difference.now
            )
            differences.append((difference._replace(now=now), usual and row["log_dir"] in working))
    for key, row in known.items():
        why = _why_gone(row, present.get(key.partition, {}))
        differences.append((
            Difference(*key, "vanished", _extent(row), why),
            bool(why) and row["log_dir"] in working,
        ))
    differences.sort(key=lambda pair: pair[0])
    holds = not any(d.breaks or d.what == "damaged" for d, _ in differences)
    return Recheck(
        tuple(d for d, _ in differences), holds, holds and all(usual for _, usual in differences)
    )


def _is_cleaned(difference: Difference, was: CertifiedRow, row: SeenRow) -> bool:
    """Return whether a log cleaner may have put another file in the segment's place.

    That file has the records that are left of one or several segments, maybe all of them.
    """
    rewritten = difference.what in {"changed", "grown", "touched"} and row["inode"] != was["inode"]
    return rewritten and bool(row["compacted"]) and not row["active"]


def _why_gone(row: CertifiedRow, present: Mapping[int, bool]) -> str:
    """Return how a broker may have deleted a segment, "" if none deletes this one alone.

    `present` are the partition's base offsets, and whether a cleaner has rewritten the segment.
    """
    if not present:
        return "no segment of its partition is there"
    base = row["base_offset"]
    if before := [one for one in present if one < base]:
        return (
            f"merged into segment {max(before)}, as by the log cleaner"
            if present[max(before)]
            else ""
        )
    begin = min(present)
    return (
        f"deleted from the front, as by retention: the log begins at {begin}"
        if begin >= row["next_offset"]
        else ""
    )


def _difference(
    was: CertifiedRow | None, row: SeenRow, options: CertifyOptions
) -> Difference | None:
    bad = [f for f in row["findings"] if f["severity"] in SEVERITIES[2:] or f["kind"] == "vanished"]
    before = _extent(was) if was else ""
    if bad:
        now = "; ".join(f"{f['kind']} ({KINDS[f['kind']][1]}): {f['reason']}" for f in bad)
        return Difference(*key_of(row), "damaged", before, now)
    breaks = options.breaks(row["magic_batches"]) > 0
    if was is None:
        return Difference(*key_of(row), "new", "", _extent(row), breaks)
    if row["bytes"] < was["bytes"] or row["prefix_fingerprint"] != was["fingerprint"]:
        return Difference(*key_of(row), "changed", before, _extent(row), breaks)
    if row["bytes"] > was["bytes"]:
        return Difference(*key_of(row), "grown", before, _extent(row), breaks)
    if not was["live"] and _file(row) != _file(was):
        return Difference(*key_of(row), "touched", _file(was), _file(row), breaks)
    return None


def _file(row: CertifiedRow) -> str:
    return f"{row['log_bytes']} bytes, mtime {row['mtime_ns']} ns, inode {row['inode']}"


def _extent(row: CertifiedRow) -> str:
    magics = ", ".join(
        f"{count} of magic {magic}" for magic, count in enumerate(row["magic_batches"]) if count
    )
    return (
        f"{row['bytes']} bytes up to offset {row['next_offset']}, batches:"
        f" {magics or 'none'}, {row['fingerprint']}"
    )
