"""Partition directories that are made record by record, with what each record is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from kafkats import search
from kafkats.compression import Codec
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.search import PartitionUnit
from tests.builders.logs import build
from tests.index.generated import BASE, batch_bytes

NONE = (-1, -1)


def batch(
    offset: int, *times: int, magic: int = 2, codec: Codec = Codec.NONE, **more: Any
) -> bytes:
    kind = TimestampType.NONE if magic == 0 else TimestampType.CREATE_TIME
    records = [Record(offset + n, time, kind, b"k", b"value") for n, time in enumerate(times)]
    return FORMATS[magic].encode_batch(records, codec=codec, **more)


def decoded(log: bytes) -> list[Record]:
    return [record for batch in dispatch.batches(log) for record in dispatch.records(log, batch)]


def write_indexes(log: Path, interval: int = 100) -> None:
    built = build(np.fromfile(log, np.uint8), int(log.stem), index_interval_bytes=interval)
    log.with_suffix(".index").write_bytes(built.offset_index)
    log.with_suffix(".timeindex").write_bytes(built.time_index)


class Made(NamedTuple):
    """A partition directory, and every record in it at or above its log start, in order."""

    path: Path
    log_start: int
    records: list[Record]

    def open(self, **settings: Any) -> search.Partition:
        return search.Partition(self.path, log_start_offset=self.log_start, **settings)

    def first(self, target: int) -> tuple[int, int]:
        """By brute force: offset and timestamp of the first record of `target` or later."""
        return next(((r.offset, r.timestamp) for r in self.records if r.timestamp >= target), NONE)

    def targets(self) -> list[int]:
        """Every time that is there, and its neighbours."""
        times = {r.timestamp + n for r in self.records for n in (-1, 0, 1)} | {
            0,
            1,
            2**62,
            *range(-7, 0),
            -(2**63),
            2**63 - 1,
        }
        return sorted(t for t in times if -(2**63) <= t < 2**63)


def made(
    folder: Path, parts: list[bytes], bases: list[int], log_start: int, interval: int = 100
) -> Made:
    path = folder / "made-0"
    path.mkdir()
    for base, part in zip(bases, parts, strict=True):
        log = path / f"{base:020d}.log"
        log.write_bytes(part)
        write_indexes(log, interval)
    records = [r for part in parts for r in decoded(part) if r.offset >= log_start]
    return Made(path, max(log_start, bases[0]), records)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[bytes], list[int], int, int]:
    """Bytes of up to four segments, their base offsets, a log start, an index interval."""
    parts, bases, offset = [], [], BASE
    for _ in range(draw(st.integers(1, 4))):
        bases.append(offset)
        data = b""
        for _ in range(draw(st.integers(0, 8))):
            more, offset = draw(batch_bytes(offset))
            data += more
        parts.append(data)
        offset += draw(st.sampled_from([0, 0, 5])) + (not data)
    log_start = draw(st.sampled_from([0, 0, BASE, (BASE + offset) // 2, offset]))
    return parts, bases, log_start, draw(st.sampled_from([0, 100, 4096]))


DAMAGE = {
    "none": lambda path: None,
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(240)),
    "padded": lambda path: path.write_bytes(path.read_bytes() + bytes(240)),
    "odd": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 24 * 12]),
    "shifted": lambda path: path.write_bytes(path.read_bytes()[4:]),
    "reversed": lambda path: path.write_bytes(path.read_bytes()[::-1]),
    "late": lambda path: path.write_bytes(
        b"".join(
            path.read_bytes()[at : at + 8] + b"\0\0\0\7" for at in range(0, path.stat().st_size, 12)
        )
    ),
    "of another time": lambda path: path.write_bytes((77).to_bytes(8, "big") + bytes(4)),
}


HOUR = 3_600_000


T0 = 1_600_000_000_000 // (30 * 24 * HOUR) * 30 * 24 * HOUR


@dataclass
class Grown:
    """A partition directory that grows."""

    path: Path
    topic: str = "grown"
    number: int = 0

    @property
    def unit(self) -> PartitionUnit:
        return PartitionUnit(str(self.path.parent), self.path.name)

    @property
    def records(self) -> list[Any]:
        return [
            record
            for log in sorted(self.path.glob("*.log"))
            for record in decoded(log.read_bytes())
        ]

    @property
    def end(self) -> int:
        return self.records[-1].offset + 1 if self.records else 0

    def append(self, *times: int, roll: bool = False, **more: Any) -> None:
        logs = sorted(self.path.glob("*.log"))
        end = self.end
        log = self.path / f"{end:020d}.log" if roll or not logs else logs[-1]
        with log.open("ab") as file:
            file.write(batch(end, *times, **more))
        write_indexes(log)

    def first(self, time: int) -> tuple[int, int]:
        return next(
            ((r.offset, r.timestamp) for r in self.records if r.timestamp >= time), (-1, -1)
        )


def grown(folder: Path, name: str = "grown-0") -> Grown:
    path = folder / name
    path.mkdir(parents=True)
    topic, _, number = name.rpartition("-")
    return Grown(path, topic, int(number))


FORMATS: Any = (v0, v1, v2)
