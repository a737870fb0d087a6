"""Rebuild of both indexes.

Checksums are checked. One thread, page cache warm; CPU time of the thread for every contestant.

read pass       maximum of the same mapped file as uint64: the cost of reading the bytes at all.
                Both run twice: over a file that is mapped already, and with a new mapping each, as
                a rebuild has
aiokafka        its parser (Cython) over bytes in memory: every batch's checksum, offsets and times;
                it builds no index. It knows the time of a wrapper only after decompression, so
                this is left out
recover         Kafka's LogSegment.recover in a warm JVM. Both write the index files, which must be
                the same
iterate-mapped  Kafka's in-memory reader over a newly mapped file, checksums only: Java's best case,
                which no Kafka component uses. kafkats builds both indexes from a new mapping.
                Neither writes files, and unmapping does not count: Java leaves it to its garbage
                collector. The goal asks for more than Java does. So two more figures have no goal:
                kafkats without building indexes, as Java, and the read pass, which shows the limit
                of memory
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from aiokafka.record.memory_records import MemoryRecords

from bench import segments
from bench.harness import (
    MB,
    MIB,
    Figure,
    Figures,
    cpu_seconds,
    scratch,
    take_turns,
    tell,
    times_cheaper,
)
from bench.java import Ask, judge, race_seconds
from bench.segments import Shape, write_segment
from kafkats.generations import DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.index.build import Built, build_from
from kafkats.paths import OFFSET_INDEX, TIME_INDEX
from kafkats.segment.reader import open_segment, open_source
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source
from tests.builders.logs import build

SIZE = 256 * MIB
PEER_SIZE = 16 * MIB
ROUNDS = 5
JAVA_WARM = 3


class Goals(NamedTuple):
    """Goals as multiples of the others' speed, or of the read pass's."""

    shape: Shape
    read_pass: float | None
    aiokafka: float
    recover: float


GOALS = (
    Goals(segments.V2_100, 0.7, 6, 3),
    Goals(segments.V2_1K, 0.7, 6, 3),
    Goals(segments.V2_SINGLE, None, 6, 15),
    Goals(segments.V0_100, 0.18, 8, 18),
    Goals(segments.V1_100, 0.18, 8, 18),
    Goals(segments.V0_1K, 0.6, 8, 8),
    Goals(segments.V1_1K, 0.6, 8, 8),
    Goals(segments.V1_LZ4_100, None, 8, 4),
    Goals(segments.V1_LZ4_1K, None, 8, 4),
)


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        for goals in GOALS:
            tell(goals.shape.name)
            log = write_segment(folder / "log", goals.shape, SIZE // 8 if small else SIZE)
            yield from _shape(goals, log, folder / "built")


def _shape(goals: Goals, log: Path, built: Path) -> Figures:
    built.mkdir(exist_ok=True)
    peer = log.read_bytes()[:PEER_SIZE]
    size = log.stat().st_size
    with open_segment(log) as view, judge() as recovering, judge() as iterating:
        words = view[: size // 8 * 8].view(np.uint64)
        _same_bytes(recovering, log, built)
        for _ in range(JAVA_WARM - 1):
            race_seconds(recovering, "recover", log)
        for _ in range(JAVA_WARM):
            race_seconds(iterating, "iterate-mapped", log)

        def cpu(work: Callable[[], object]) -> Callable[[], float]:
            return lambda: cpu_seconds(work) / size

        costs = take_turns(
            {
                "rebuild, mapped": cpu(partial(build, view, 0)),
                "read pass, mapped": cpu(words.max),
                "rebuild": cpu(partial(rebuild, log, built)),
                "read pass": cpu(partial(read_pass, log)),
                "built, not written": lambda: built_seconds(log) / size,
                "checked": lambda: checked_seconds(log) / size,
                "read": lambda: read_seconds(log) / size,
                "aiokafka": lambda: cpu_seconds(partial(parse, peer, goals.shape)) / len(peer),
                "recover": lambda: race_seconds(recovering, "recover", log) / size,
                "iterate-mapped": lambda: race_seconds(iterating, "iterate-mapped", log) / size,
            },
            ROUNDS
            if goals.shape.records == 1
            else 2 * ROUNDS,  # large batches take Java little time, and the results are close
        )
    speed = {name: 1 / MB / sorted(cost)[len(cost) // 2] for name, cost in costs.items()}

    def beside(us: str, them: str, goal: float | None, label: str) -> Figure:
        detail = f"{speed[us]:,.0f} / {speed[them]:,.0f} MB/s"
        return Figure(
            f"rebuild, {goals.shape.name} / {label}",
            times_cheaper(costs, us, them),
            "x",
            goal,
            detail=detail,
        )

    yield beside("rebuild, mapped", "read pass, mapped", goals.read_pass, "read pass")
    yield beside("rebuild", "read pass", None, "read pass, both with a fresh mapping")
    yield beside("rebuild, mapped", "aiokafka", goals.aiokafka, "aiokafka's parser")
    yield beside("rebuild", "recover", goals.recover, "Kafka's recover")
    yield beside("built, not written", "iterate-mapped", 1.0, "Java's mapped reader")
    for us, what in (("checked", "checksums only"), ("read", "read pass")):
        label = f"{what}, {goals.shape.name} / Java's mapped reader"
        detail = f"{speed[us]:,.0f} / {speed['iterate-mapped']:,.0f} MB/s"
        yield Figure(label, times_cheaper(costs, us, "iterate-mapped"), "x", detail=detail)


def rebuild(log: Path, folder: Path) -> Built:
    """Rebuild as `apply` does with one segment, without the swap: map, walk, write both files."""
    with open_source(log, mapped=True) as source:
        built = build_from(source, 0, DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES)
    (folder / log.with_suffix(OFFSET_INDEX).name).write_bytes(built.offset_index)
    (folder / log.with_suffix(TIME_INDEX).name).write_bytes(built.time_index)
    return built


def built_seconds(log: Path) -> float:
    """Return the CPU time of mapping and building, without unmapping."""
    began = time.thread_time()
    with open_segment(log) as view:
        build(view, 0)
        return time.thread_time() - began


def checked_seconds(log: Path) -> float:
    """Return the CPU time of mapping and checking, without indexes and unmapping."""
    began = time.thread_time()
    with open_segment(log) as view:
        walk(array_source(view), 0)
        return time.thread_time() - began


def read_seconds(log: Path) -> float:
    """Return the CPU time of mapping and a read pass, without unmapping."""
    began = time.thread_time()
    with open_segment(log) as view:
        view[: len(view) // 8 * 8].view(np.uint64).max()
        return time.thread_time() - began


def read_pass(log: Path) -> int:
    with open_segment(log) as view:
        return int(view[: len(view) // 8 * 8].view(np.uint64).max())


def parse(data: bytes, shape: Shape) -> int:
    """Read what an index needs with aiokafka's parser.

    An incomplete batch at the end is ignored.
    """
    records = MemoryRecords(data)
    seen = 0
    legacy = shape.magic < 2
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise RuntimeError("aiokafka finds a bad checksum")
        if legacy and not shape.codec:
            for record in batch:
                seen ^= record.offset ^ (record.timestamp or 0)
        elif legacy:
            seen ^= batch.next_offset
        else:
            seen ^= batch.base_offset + batch.last_offset_delta ^ batch.max_timestamp
    return seen


def _same_bytes(ask: Ask, log: Path, folder: Path) -> None:
    """Check that recovery writes the same index files. This is also its first warm-up."""
    rebuild(log, folder)
    answer = ask("recover", log, "--out", folder / "recovered")
    for kind in (OFFSET_INDEX, TIME_INDEX):
        name = log.with_suffix(kind).name
        if (
            hashlib.sha256((folder / name).read_bytes()).hexdigest()
            != answer["files"][name]["sha256"]
        ):
            raise RuntimeError(f"{name} is not what LogSegment.recover makes")
