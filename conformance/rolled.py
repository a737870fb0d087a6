"""Rolling: where brokers began new segments in golden directories, and where Kafka's own log does over generated streams.

Streams are fetches as a follower gets them: several batches in one append, transaction markers, gaps between offsets, messages of
all formats with timestamps that rise, fall, are missing or from the future, while the broker's clock goes on.
"""

from __future__ import annotations

import json
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from conformance.judge import Judge
from conformance.tally import Tally
from conformance.workers import Ask
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.generations import ROLL_RULES
from kafkats.rolling.replay import Rolled, replay, simulate
from kafkats.rolling.rules import Append, Batch, Settings
from tests.golden import Case, Unpacked

STEPS: Final = "rolling: same segments after every append"
RECORDED: Final = "rolling: where a broker began segments"
JUDGES: Final = {"4.1": ("4.3.1",), "0.10.1": ("2.8.2", "0.10.2.2"), "0.8": ("0.9.0.1",)}
"""Rule -> the Kafkas that judge it."""
MAGICS: Final = {
    "4.3.1": (0, 1, 2, 2, 2),
    "2.8.2": (0, 1, 2, 2, 2),
    "0.10.2.2": (0, 1),
    "0.9.0.1": (0,),
}
CANNOT: Final = (
    "Attempt to append to a full",
    "Detected offset overflow",
    "while it already exists",
)
"""Appends at which Kafka itself fails; compared is what came before. Several batches in one append can overfill an index; a follower
does not see that a message without its first offset lies too far; before 2.0 an empty segment could not be made anew."""
NOW: Final = 1_600_000_000_000
Simulate = Callable[..., list[Rolled]]


class Chunk(NamedTuple):
    """Some generated streams, for one process; the same in every run."""

    rule: str
    version: str
    seed: int
    count: int


class Stream(NamedTuple):
    """Appends with their bytes."""

    appends: list[Append]
    data: list[bytes]
    settings: Settings


def compare(chunk: Chunk, ask: Ask, tally: Tally, simulator: Simulate = simulate) -> None:
    """Every stream of the chunk, by Kafka and by us, after each append."""
    random = Random(f"{chunk.rule} {chunk.version} {chunk.seed}")
    work = Path.cwd() / f"rolled-{chunk.version}-{chunk.seed}-{os.getpid()}"
    work.mkdir()
    rule, judge = ROLL_RULES[chunk.rule], ask(chunk.version)
    compared = 0
    while compared < chunk.count:
        stream = _stream(random, chunk.version)
        theirs = _by_kafka(stream, work / "spec", judge)
        good = next((n for n, step in enumerate(theirs) if "error" in step), len(theirs))
        if good < len(theirs) and not any(
            words in theirs[good].get("message", "") for words in CANNOT
        ):
            tally.differs(f"{STEPS}, Kafka {chunk.version}: {theirs[good]}")
        if good == 0:
            continue
        compared += 1
        appends = stream.appends[:good]
        ours = _after_each(simulator(appends, stream.settings, rule), appends, theirs)
        what = f"{stream.settings} {appends}"
        tally.same(STEPS, chunk.version, f"generated, rule {chunk.rule}", what, ours, theirs[:good])
    shutil.rmtree(work)


def _after_each(
    made: Sequence[Rolled], appends: Sequence[Append], like: Sequence[dict[str, Any]]
) -> list[dict[str, int]]:
    """Base offset and size of the active segment after every append, and of the last one what its indexes hold."""
    bases = [segment.base_offset for segment in made]
    steps: list[dict[str, int]] = []
    size, at = 0, -1
    for append, step in zip(appends, like, strict=False):
        now_at = bisect_right(bases, append.last_offset) - 1
        size = append.bytes + (size if now_at == at else 0)
        at = now_at
        steps.append({"active_base_offset": bases[at], "active_size": size})
        if len(steps) == len(appends):
            entries = {
                "index_entries": made[-1].offset_entries,
                "time_index_entries": made[-1].time_entries,
            }
            steps[-1] |= {word: count for word, count in entries.items() if word in step}
    return steps


def _by_kafka(stream: Stream, spec: Path, judge: Judge) -> list[dict[str, Any]]:
    settings = _words(stream.settings)
    if judge.version in {"4.3.1", "2.8.2"}:
        appends = [
            {"now": a.now_ms, "hex": d.hex()}
            for a, d in zip(stream.appends, stream.data, strict=True)
        ]
        spec.write_text(json.dumps({"config": settings, "leader": False, "appends": appends}))
        said = judge("roll", spec, "--brief")
    else:
        spec.write_text(
            "".join(
                f"{a.now_ms} {d.hex()}\n" for a, d in zip(stream.appends, stream.data, strict=True)
            )
        )
        said = judge(
            "roll", spec, *(word for key, value in settings.items() for word in (f"--{key}", value))
        )
    if "steps" not in said:
        return [said]
    words = (
        "error",
        "message",
        "active_base_offset",
        "active_size",
        "index_entries",
        "time_index_entries",
    )
    steps = [{word: step[word] for word in words if word in step} for step in said["steps"]]
    good = next((n for n, step in enumerate(steps) if "error" in step), len(steps))
    for step in steps[: good - 1]:
        for word in words[4:]:
            step.pop(word, None)
    return steps


def _words(settings: Settings) -> dict[str, str]:
    words = {
        "segment.ms": settings.segment_ms,
        "segment.bytes": settings.segment_bytes,
        "segment.index.bytes": settings.segment_index_bytes,
        "index.interval.bytes": settings.index_interval_bytes,
    }
    if settings.compacted:
        words |= {
            "cleanup.policy": "compact,delete",
            "max.compaction.lag.ms": settings.max_compaction_lag_ms,
        }
    return {key: str(value) for key, value in words.items()}


def _stream(random: Random, version: str) -> Stream:
    modern = version in {"4.3.1", "2.8.2"}
    tight = random.random() < 0.5
    settings = Settings(
        segment_ms=random.choice((10**9, random.randrange(1, 3000))),
        segment_bytes=random.choice((10**6, random.randrange(1200, 2500))),
        segment_index_bytes=random.choice((16, 24, 47, 60, 120)) if tight else 4096,
        index_interval_bytes=random.choice((0, 70, 200, 4096)),
        compacted=modern and random.random() < 0.2,
        max_compaction_lag_ms=random.choice((1, random.randrange(1, 3000), 2**63 - 1)),
    )
    appends, data = [], []
    end, clock = 0, NOW
    for _ in range(random.randrange(3, 15)):
        clock += random.choice((0, 1, random.randrange(700)))
        batches, raw = [], b""
        if modern and random.random() < 0.015:
            end += 2**31 - random.randrange(20)
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            end += random.choice((0,) * 12 + (5,))
            batch, encoded, end = _batch(random, random.choice(MAGICS[version]), end, clock)
            batches.append(batch)
            raw += encoded
        appends.append(Append(tuple(batches), clock))
        data.append(raw)
    return Stream(appends, data, settings)


def _batch(random: Random, magic: int, offset: int, clock: int) -> tuple[Batch, bytes, int]:
    """A batch at `offset`, its bytes, and the next offset."""
    if magic == 2 and random.random() < 0.1:
        marker = [Record(offset, clock, TimestampType.CREATE_TIME, bytes((0, 0, 0, 1)), bytes(6))]
        who = {"producer_id": 7, "producer_epoch": 1, "leader_epoch": 0}
        encoded = v2.encode_batch(marker, control=True, transactional=True, **who)
        return Batch(offset, offset, len(encoded), clock), encoded, offset + 1
    stamps = (clock, clock, clock - 5000, NOW + random.randrange(3000), 5, 0, -1, 2**60)
    count = 1 if magic < 2 else random.choice((1, 1, 3))
    odd = random.random() < 0.3
    records = [
        Record(
            offset + n,
            random.choice(stamps) if odd else clock - n,
            TimestampType.CREATE_TIME if magic else TimestampType.NONE,
            None,
            bytes(random.randrange(100)),
        )
        for n in range(count)
    ]
    wrapped = magic < 2 and random.random() < 0.3
    codec = Codec.GZIP if wrapped else Codec.NONE
    if magic == 2:
        encoded = v2.encode_batch(records, leader_epoch=0)
    else:
        encoded = (
            v1.encode_batch(records, codec=codec)
            if magic
            else v0.encode_batch(records, codec=codec)
        )
    (read,) = dispatch.batches(encoded)
    first = offset if magic == 2 else -1  # a follower does not look for it
    return (
        Batch(first, read.last_offset, len(encoded), read.max_timestamp),
        encoded,
        read.last_offset + 1,
    )


# Golden directories

PER_APPEND: Final = {
    "by-bytes": (3,),
    "by-ms": (7,),
    "by-ms-jump": (2, 1, 1, 1, 1),
    "by-lat": (2, 2, 1),
}
"""Messages per produce request: of magic 0 and 1, uncompressed, nothing else says it."""


def rule_of(case: Case) -> str:
    """The generation's rule."""
    version = tuple(int(part) for part in case.kafka.split("."))
    return "4.1" if version >= (3, 9, 1) else "0.10.1" if version >= (0, 10, 1) else "0.8"


def settings_of(case: Case, partition: str) -> Settings:
    """What its topic was created with."""
    topic = {
        key.removeprefix("internal."): value for key, value in case.topic_config(partition).items()
    }
    return Settings(
        int(topic.get("segment.ms", 604_800_000)),
        int(topic.get("segment.bytes", 2**30)),
        0,
        case.index_bytes(partition),
        case.interval(partition),
    )


def golden_appends(case: Case, directory: Path) -> list[Append]:
    """The produce requests that made the partition."""
    segments, magics = [], set()
    for log in sorted(directory.glob("*.log")):
        raw = log.read_bytes()
        read = list(dispatch.batches(raw))
        magics |= {batch.magic for batch in read}
        batches = [
            Batch(dispatch.first_offset(raw, b), b.last_offset, b.size, b.max_timestamp)
            for b in read
        ]
        segments.append((batches, log.stat().st_mtime_ns // 1_000_000))
    appends = list(replay(segments))
    topic = directory.name.removesuffix("-0")
    clocked = topic == "by-ms" and case.info["magic"] == 0
    return (
        appends
        if 2 in magics
        else _grouped(appends, PER_APPEND["by-lat" if clocked else topic])
        if clocked or topic in PER_APPEND
        else appends
    )


def _grouped(appends: Sequence[Append], sizes: Sequence[int]) -> list[Append]:
    found: list[Append] = []
    at = 0
    while at < len(appends):
        some = appends[at : at + sizes[len(found) % len(sizes)]]
        found.append(
            Append(tuple(batch for append in some for batch in append.batches), some[-1].now_ms)
        )
        at += len(some)
    return found


def golden_simulation(case: Case, directory: Path, simulator: Simulate = simulate) -> list[Rolled]:
    """The segments that we would have made of it."""
    return simulator(
        golden_appends(case, directory),
        settings_of(case, directory.name),
        ROLL_RULES[rule_of(case)],
    )


def compare_recorded(
    case: Case, golden: Unpacked, tally: Tally, simulator: Simulate = simulate
) -> None:
    """Every partition of a golden directory of rolling, or of transactions, whose markers roll."""
    for directory in sorted(golden(case, "data").iterdir()):
        if directory.is_dir() and not directory.name.startswith("__"):
            made = [
                segment.base_offset for segment in golden_simulation(case, directory, simulator)
            ]
            theirs = [int(log.stem) for log in sorted(directory.glob("*.log"))]
            tally.same(RECORDED, case.kafka, case.name, directory.name, made, theirs)
