"""Appends of a broker: ours, and those of Kafka's own classes.

Message sets of 16 KiB, as clients send them: 1 MiB of them, in the processor's cache, as a request
that was just received. One thread, CPU time of the thread for every contestant. Each figure has a
JVM of its own, which is warm for 10 s.

LogValidator   Kafka 2.8.2's: it judges records and assigns offsets. It does not check the batches'
               checksums: that is done before, in Log. kafkats always does. 4.3.1's is told without
               a goal
checked        the same, with those checksums. Uncompressed values of 1 KiB have their goal here:
               without checksums LogValidator reads 1 % of the bytes
appended       kafkats with the files: a log that is written, with its indexes, from empty
codec alone    libraries decompress each set and compress what it becomes, called from Python for
               each block. That costs up to a third with lz4, which kafkats calls in a kernel: no
               limit of lz4 and snappy, but of the others
CRC-32C alone  the function that kafkats calls, once over all sets: the limit of sets of magic 2
               without a codec. With LogAppendTime each checksum is checked and computed again
memcpy + new file   copies the bytes in pieces of 1 MiB through one buffer into a new file. A
               follower checks fetches of 1 MiB, and writes a log with its indexes
"""

from __future__ import annotations

import ctypes
import random
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.convert import _beside, _compressor, _decompressor, copied_to_file
from bench.harness import MB, MIB, Figures, cpu_seconds, scratch, take_turns, tell
from bench.java import Ask, judge
from bench.segments import BEGIN_MS, V1_100, V2_1K, V2_100, Shape, _value, make_log
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.message_set import value_of
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.kernels.crc import crc_addresses
from kafkats_model.broker.bulk import append_fetch, append_sets
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import create
from kafkats_model.broker.set_judge import SetJudge
from kafkats_model.broker.settings import Topic, settings_from, topic_of
from kafkats_model.broker.validate import validate

SET_BYTES = 16 * 1024
SIZE = MIB
LOG_SIZE = 128 * MIB
ROUNDS = 7
WARM_SECONDS = 10
RUNS = 40
FETCH_BYTES = MIB
OLD, NEW = "2.8.2", "4.3.1"
FORMATS = ("0.9.0", "0.10.0", "2.8")
NOW = BEGIN_MS + 3_600_000
_TEMPLATES = 16


class Case(NamedTuple):
    """Sets of one shape, the codec of their topic, and the goal as a multiple of 2.8.2's speed."""

    shape: Shape
    goal: float | None
    kind: str = "CreateTime"
    becomes: tuple[int, str] | None = None
    """Magic and compression.type of the topic, where they are others."""
    checked: bool = False
    """The goal is for the speed with checksums."""


def _shape(magic: int, size: int, codec: Codec = Codec.NONE) -> Shape:
    return Shape(f"v{magic} {codec.name.lower()} {size} B", magic, size, codec=codec)


CASES = (
    *(Case(_shape(magic, 100), 3) for magic in (0, 1, 2)),
    Case(_shape(2, 1024), 3, checked=True),
    *(Case(_shape(magic, 100), 3, "LogAppendTime") for magic in (1, 2)),
    *(Case(_shape(2, 100, codec), 1.5) for codec in (Codec.LZ4, Codec.GZIP, Codec.SNAPPY, Codec.ZSTD)),
    Case(_shape(2, 1024, Codec.LZ4), 1.5),
    *(Case(_shape(1, 100, codec), 1.5) for codec in (Codec.LZ4, Codec.GZIP)),
    Case(_shape(2, 100, Codec.LZ4), 1, becomes=(2, "zstd")),
    Case(_shape(1, 100, Codec.GZIP), 1, becomes=(2, "producer")),
    Case(_shape(1, 100), 1, becomes=(2, "producer")),
)  # fmt: skip


def figures(*, small: bool = False) -> Figures:
    share = 16 if small else 1
    with scratch() as folder:
        for case in CASES:
            tell(f"{case.shape.name} {case.kind} {case.becomes or ''}")
            with judge(kafka=OLD) as old, judge(kafka=NEW) as new:
                yield from _leader(case, folder, old, new, 1 if small else WARM_SECONDS)
        for shape in (V1_100, V2_100, V2_1K):
            tell(f"follower, {shape.name}")
            yield from _follower(make_log(shape, LOG_SIZE // share), shape, folder)


def _leader(case: Case, folder: Path, old: Ask, new: Ask, warm: int) -> Figures:
    data, ends = sets_of(case.shape, SIZE)
    file = folder / "sets"
    file.write_bytes(data.tobytes())
    magic, codec = case.becomes or (case.shape.magic, "producer")
    config: dict[str, str] = {
        "message.format.version": FORMATS[magic],
        "message.timestamp.type": case.kind,
        "compression.type": codec,
    }
    topic = topic_of(settings_from(config), generation(OLD))
    chunk = SET_BYTES + 1024 if case.shape.magic < 2 and case.shape.codec == Codec.NONE else 1
    words = (
        "--magic", str(magic), "--codec", codec, "--ts-type", case.kind, "--now", str(NOW),
        "--chunk", str(chunk),
    )  # fmt: skip
    races: dict[str, Callable[[], float]] = {
        f"Kafka {OLD}'s LogValidator": partial(_race, old, file, words),
        f"Kafka {OLD}'s LogValidator, checked": partial(_race, old, file, (*words, "--checked")),
    }
    if magic == 2:
        races[f"Kafka {NEW}'s LogValidator"] = partial(_race, new, file, words)
    for race in races.values():
        race()
    _race(old, file, (*words, "--warm-seconds", str(warm)))
    contestants: dict[str, Callable[[], float]] = {
        "judged": partial(_judged, topic, data, ends),
        "appended": partial(_appended, topic, data, ends, folder / "t-0"),
        **races,
    }
    alone = ""
    if case.shape.codec:
        alone = "codec alone"
        contestants[alone] = _alone(topic, data, ends, compress=case.becomes is not None)
    elif magic == case.shape.magic == 2:
        alone = "CRC-32C alone"
        contestants[alone] = partial(_checksum, data)
    costs = take_turns(contestants, ROUNDS)
    what = f" to v{magic} {codec}" if case.becomes else ""
    kind = f", {case.kind}" if case.kind != "CreateTime" else ""
    label = f"leader append, {case.shape.name}{what}{kind}"
    for number, name in enumerate(races):
        goal = case.goal if number == case.checked else None
        yield _beside(label, costs, "judged", name, goal)
    yield _beside(label + ", appended", costs, "appended", next(iter(races)), None)
    if alone:
        yield _beside(label, costs, "judged", alone, None)


def _race(ask: Ask, file: Path, words: tuple[str, ...]) -> float:
    """Return the seconds per byte of the median run."""
    answer = ask("race", "validate", file, "--warmup", "0", "--runs", str(RUNS), *words)
    return 1 / (statistics.median(answer["cpu_runs"]) * MB)


def sets_of(shape: Shape, size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return about `size` bytes of message sets as clients send them, and the ends of the sets."""
    made = [_set(shape, seed) for seed in range(_TEMPLATES)]
    cycles = max(1, size // sum(map(len, made)))
    lengths = np.array([len(one) for one in made] * cycles, np.int64)
    return np.frombuffer(b"".join(made) * cycles, np.uint8), np.cumsum(lengths)


def _set(shape: Shape, seed: int) -> bytes:
    """Return the largest set of up to 16 KiB."""
    chance = random.Random(seed)
    kind = TimestampType.CREATE_TIME if shape.magic else TimestampType.NONE
    records = [
        Record(n, BEGIN_MS + n if shape.magic else -1, kind, chance.randbytes(8), _value(chance, shape.value_bytes))
        for n in range(8 * SET_BYTES // shape.value_bytes)
    ]  # fmt: skip
    low, high = 1, len(records)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_encoded(shape, records[:middle])) <= SET_BYTES else (low, middle - 1)  # fmt: skip
    return _encoded(shape, records[:low])


def _encoded(shape: Shape, records: list[Record]) -> bytes:
    encode = (v0, v1, v2)[shape.magic].encode_batch
    return encode(records, codec=shape.codec)


def _judged(topic: Topic, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> float:
    judge_of_sets, sets, costs = SetJudge(topic, generation(OLD).leader), data.copy(), []
    for _ in range(RUNS):
        sets[:] = data
        began = time.thread_time()
        done = 0
        while done < len(ends):
            begin = int(ends[done - 1]) if done else 0
            judged = judge_of_sets.judge(
                sets[begin:], ends[done:] - begin, now_ms=NOW, offset=0, leader_epoch=0
            )
            if not len(judged.rows):
                raise RuntimeError(f"set {done} was left to the records")
            done += len(judged.rows)
        costs.append(time.thread_time() - began)
    return statistics.median(costs) / len(data)


def _appended(
    topic: Topic, data: NDArray[np.uint8], ends: NDArray[np.int64], folder: Path
) -> float:
    log, sets, limits = create(folder, topic, generation(OLD), NOW), data.copy(), ends.tolist()
    append_sets(log, sets, limits, now_ms=NOW, leader_epoch=0)
    costs = []
    for _ in range(RUNS):
        sets[:] = data
        append = partial(append_sets, log, sets, limits, now_ms=NOW, leader_epoch=0)
        costs.append(cpu_seconds(append))
    shutil.rmtree(folder)
    return statistics.median(costs) / len(data)


def _checksum(data: NDArray[np.uint8]) -> float:
    """Return the seconds per byte of CRC-32C, in the processor's cache as the sets are."""
    crc32c = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)(
        crc_addresses().crc32c
    )
    copy, costs = data.copy(), []
    for _ in range(RUNS):
        copy[:] = data
        costs.append(cpu_seconds(partial(crc32c, copy.ctypes.data, len(copy), 0)))
    return statistics.median(costs) / len(data)


def _alone(
    topic: Topic, data: NDArray[np.uint8], ends: NDArray[np.int64], *, compress: bool
) -> Callable[[], float]:
    """Return a function that measures the codecs' part, in seconds per byte."""
    room = np.empty(4 * MIB, np.uint8)
    jobs: list[tuple[Callable[[bytes], object], bytes]] = []
    uncompressed = replace(topic, target=topic.target._replace(codec=Codec.NONE))
    for begin, end in pairwise([0, *ends.tolist()]):
        sent = data[begin:end].tobytes()
        jobs += [
            (_decompressor(b.codec, room), _packed(sent, b.magic)) for b in dispatch.batches(sent) if b.codec
        ]  # fmt: skip
        if not compress:
            continue
        made = validate(sent, topic, generation(OLD).leader, now_ms=NOW, offset=0, leader_epoch=0)
        for batch in dispatch.batches(made.data):
            if batch.codec:
                plain = validate(
                    sent, uncompressed, generation(OLD).leader, now_ms=NOW, offset=0, leader_epoch=0
                )
                jobs.append((_compressor(batch.codec, room), plain.data[61:]))

    def work() -> None:
        room[0] = 0  # it must live as long as its address is used
        for one, packed in jobs:
            one(packed)

    return lambda: cpu_seconds(work) / len(data)


def _packed(sent: bytes, magic: int) -> bytes:
    if magic == 2:
        return sent[61:]
    return value_of(sent, next(dispatch.batches(sent))) or b""


def _follower(log: NDArray[np.uint8], shape: Shape, folder: Path) -> Figures:
    source = folder / "leader.log"
    source.write_bytes(log.tobytes())
    fetches = _fetches(log)
    version = FORMATS[shape.magic]
    topic = topic_of(settings_from({"message.format.version": version}), generation(OLD))
    size = len(log)

    def follow() -> float:
        ours = create(folder / "f-0", topic, generation(OLD), NOW)

        def append() -> None:
            for fetch in fetches:
                append_fetch(ours, fetch, now_ms=NOW)

        seconds = cpu_seconds(append)
        if ours.active.size != size:
            raise RuntimeError(f"{ours.active.size} of {size} bytes in the last segment")
        shutil.rmtree(ours.directory)
        return seconds / size

    costs = take_turns(
        {
            "follower": follow,
            "memcpy + new file": lambda: (
                cpu_seconds(partial(copied_to_file, source, folder / "new")) / size
            ),
        },
        ROUNDS,
    )
    yield _beside(f"follower append, {shape.name}", costs, "follower", "memcpy + new file", 0.5)


def _fetches(log: NDArray[np.uint8]) -> list[memoryview]:
    begin, fetches, data = 0, [], memoryview(log.data)
    for batch in dispatch.batches(log, verify=False):
        if batch.end - begin > FETCH_BYTES:
            fetches.append(data[begin : batch.position])
            begin = batch.position
    return [*fetches, data[begin:]]
