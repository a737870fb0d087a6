"""The comparisons of `conformance migrate` must be able to say no: one wrong byte is reported by each of them."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from conformance import conversion, migrated
from conformance.conversion import OURS, Ours, Subject
from conformance.judge import Judge
from conformance.migrated import New
from conformance.tally import Tally
from conformance.workers import Ask
from kafkats.compression.checksums import crc32c
from kafkats.errors import BadInput

CHECK = "self-test: one tampered byte is reported"
SUBJECTS = ("v1-none-rising-5-at-0-by-1", "v1-gzip-rising-5-at-0-by-1", "v2-lz4-rising-5-at-0-by-1")


def quiet_tally() -> Tally:
    """One whose differences nobody sees."""
    return Tally(Console(file=io.StringIO()))


def test_conversion(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    """Each comparison, with a wrong last byte (of content, or of a checksum) and with a wrong offset, which no checksum covers."""
    comparisons = (
        (conversion.compare_cleaned, "4.3.1"),
        (conversion.compare_fetched, "2.8.2"),
        (conversion.compare_stored, "2.8.2"),
        (conversion.compare_stored, "4.3.1"),
        (conversion.compare_produced, "2.8.2"),
        (conversion.compare_produced, "4.3.1"),
    )
    for one in asked:
        for at in (-1, 7):
            tampered = Ours(
                tuple(_tampered(stored, at) for stored in OURS.stored),
                _tampered(OURS.fetch, at),
                _tampered(OURS.produce, at),
            )
            for compare, version in comparisons:
                quiet = quiet_tally()
                compare([one], ask(version), quiet, tampered)
                compared = sum(counter.total() for counter in quiet.compared.values())
                if compared:
                    what = f"byte {at} in {compare.__name__} of {one.name}"
                    tally.same(
                        CHECK, version, compare.__name__, what, len(quiet.differences), compared
                    )


def test_directory(new: New, judge: Judge, tally: Tally) -> None:
    """A migrated directory in which one file of a kind is wrong by a byte."""
    for suffix, compare, check in (
        (".log", lambda one, quiet: migrated.compare_written(one, quiet), migrated.WRITTEN),
        (".log", lambda one, quiet: migrated.compare_records(one, judge, quiet), migrated.RECORDS),
        (".log", lambda one, quiet: migrated.compare_records(one, judge, quiet), migrated.CONSUMED),
        (".index", lambda one, quiet: migrated.compare_loads(one, judge, quiet), migrated.CRASHED),
        (
            ".timeindex",
            lambda one, quiet: migrated.compare_loads(one, judge, quiet),
            migrated.CRASHED,
        ),
        (
            ".timeindex",
            lambda one, quiet: migrated.compare_loads(one, judge, quiet),
            migrated.TIMES,
        ),
        (
            ".timeindex",
            lambda one, quiet: migrated.compare_recorded_times(one, judge, quiet),
            migrated.ANSWERED,
        ),
        (
            ".snapshot",
            lambda one, quiet: migrated.compare_loads(one, judge, quiet),
            migrated.PRODUCERS,
        ),
    ):
        copy = replace(new, root=new.root.parent / "tampered" / "data")
        shutil.copytree(new.root, copy.root, symlinks=True)
        paths = _of_kind(copy, suffix)
        for path in paths:
            path.write_bytes(WRONG[suffix](path.read_bytes()))
        quiet = quiet_tally()
        compare(copy, quiet)
        reported = any(said.startswith(check) for said in quiet.differences)
        if paths:
            tally.same(CHECK, judge.version, new.case, f"{suffix}: {check}", reported, True)
        shutil.rmtree(copy.root.parent)


def _of_kind(new: New, suffix: str) -> list[Path]:
    """One file of each partition, the last one: of written files, or of snapshots, which only Kafka writes."""
    found = []
    for old in new.old.partitions():
        partition = new.partition(old)
        kind = partition.glob("*.snapshot") if suffix == ".snapshot" else new.written(partition)
        found += [
            path for path in sorted(kind) if path.suffix == suffix and path.stat().st_size > 12
        ][-1:]
    return found


def _flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _misleading(timeindex: bytes) -> bytes:
    """Every entry's offset is the last one's: a search for an early time begins too late."""
    return b"".join(timeindex[at : at + 8] + timeindex[-4:] for at in range(0, len(timeindex), 12))


def _of_another_epoch(snapshot: bytes) -> bytes:
    """The first producer's epoch, under a right checksum: Kafka throws a snapshot with a wrong one away, and takes the one before."""
    entries = snapshot[6:19] + bytes([snapshot[19] ^ 1]) + snapshot[20:]
    return snapshot[:2] + crc32c(entries).to_bytes(4, "big") + entries


WRONG = {
    ".log": _flipped,
    ".index": _flipped,
    ".timeindex": _misleading,
    ".snapshot": _of_another_epoch,
}


def _tampered(conversion: Callable[..., bytes], at: int) -> Callable[..., bytes]:
    def tampered(*words: Any, **settings: Any) -> bytes:
        try:
            made = bytearray(conversion(*words, **settings))
        except BadInput:
            return b"what Kafka refuses"
        made[at] ^= 1
        return bytes(made)

    tampered.__name__ = "tampered"
    return tampered
