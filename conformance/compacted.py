"""Random compacted partitions: ours against the log cleaners of Kafka 2.8.2 and 4.3.1, file for file.

A partition has all magics and codecs of its release, few keys, tombstones, records without keys, holes in its offsets, producers,
transactions with commits and aborts, some open, LogAppendTime, times without an order. It is cleaned several times, with appends in
between, small maps and lags. Before each round Kafka recovers it, so that it has the indexes, snapshots and `.txnindex` of Kafka.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from conformance.conversion import described
from conformance.judge import Judge
from conformance.tally import Tally
from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.formats import v0, v1, v2
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.partition import log_bases
from kafkats_model.broker.generation import Generation, generation
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.broker.starting import adopt
from kafkats_model.compaction.cleaner import Compacted, compact

CHECK: Final = (
    "a compacted partition: logs, indexes, aborted transactions, mtimes, and the next dirty offset"
)
VERSIONS: Final = ("2.8.2", "4.3.1")
NOW: Final = 1_700_000_000_000
DAY: Final = 86_400_000
NAME: Final = "judged-0"
_KINDS: Final = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)
_CODECS: Final = (
    (Codec.NONE,), (Codec.NONE,), (Codec.NONE, Codec.GZIP, Codec.LZ4), (Codec.NONE, Codec.SNAPPY, Codec.ZSTD),
)  # fmt: skip
_ENTRY_BYTES: Final = 24
_LOAD: Final = 0.9


class Drawn(NamedTuple):
    """What a partition is made of."""

    config: dict[str, str | int | float]
    magics: tuple[int, ...]
    codecs: tuple[Codec, ...]
    keys: int
    age_ms: int
    values: tuple[int, ...]
    """Sizes of values. The large ones make batches that do not fit into the cleaner's buffer."""


class Sender:
    """Draws batches at the log end, with the state of two producers."""

    def __init__(self, random: Random, drawn: Drawn) -> None:
        self.random, self.drawn = random, drawn
        self.sequence = {5: 0, 6: 0}
        self.epoch = {5: 0, 6: 0}
        self.open: set[int] = set()
        self.transactional = random.random() < 0.5

    def batch(self, offset: int, now_ms: int) -> bytes:
        random = self.random
        offset += random.choice((0, 0, 0, 0, 1, 40))
        magic = random.choice(self.drawn.magics)
        if magic == v2.MAGIC and self.open and random.random() < 0.3:
            return self._marker(offset, now_ms)
        codec = random.choice(self.drawn.codecs)
        records = self._records(offset, now_ms, magic)
        appended = now_ms - random.randrange(2000) if random.random() < 0.2 else None
        if magic < v2.MAGIC:
            codec = Codec.NONE if codec == Codec.ZSTD else codec
            if magic:
                return v1.encode_batch(records, codec=codec, log_append_time=appended)
            return v0.encode_batch(records, codec=codec)
        return v2.encode_batch(
            records,
            codec=codec,
            log_append_time=appended,
            leader_epoch=0,
            **self._producer(len(records), offset),
        )

    def _records(self, offset: int, now_ms: int, magic: int) -> list[Record]:
        random = self.random
        headers = (
            (Header("h", b"x"), Header("n", None))
            if magic == v2.MAGIC and random.random() < 0.2
            else ()
        )
        time = now_ms - self.drawn.age_ms
        return [
            Record(
                offset + n,
                -1 if random.random() < 0.05 else time - random.randrange(5000),
                TimestampType.CREATE_TIME,
                None if random.random() < 0.05 else b"key-%d" % random.randrange(self.drawn.keys),
                None if random.random() < 0.25 else b"v" * random.choice(self.drawn.values),
                headers,
            )
            for n in range(random.choice((1, 1, 2, 3, 8)))
        ]

    def _producer(self, count: int, offset: int) -> v2.HeaderFields:
        random = self.random
        if random.random() < 0.4:
            return {}
        producer = random.choice((5, 6))
        sequence = self.sequence[producer]
        self.sequence[producer] = sequence + count
        transactional = self.transactional
        if transactional:
            self.open.add(producer)
        return {
            "producer_id": producer,
            "producer_epoch": self.epoch[producer],
            "base_sequence": sequence,
            "transactional": transactional,
        }

    def _marker(self, offset: int, now_ms: int) -> bytes:
        producer = self.random.choice(sorted(self.open))
        self.open.discard(producer)
        kind = self.random.choice((ControlType.ABORT, ControlType.COMMIT))
        key, value = encode_end_marker(kind, 0)
        record = Record(offset, now_ms - self.drawn.age_ms, TimestampType.CREATE_TIME, key, value)
        if self.random.random() < 0.2:
            self.epoch[producer] += 1
            self.sequence[producer] = 0
        return v2.encode_batch(
            [record], leader_epoch=0, producer_id=producer, producer_epoch=self.epoch[producer],
            transactional=True, control=True,
        )  # fmt: skip


def compare(version: str, judge: Judge, work: Path, tally: Tally, *, count: int) -> None:
    """The same `count` cleanings in every run."""
    random = Random(f"compacted {version}")
    done = 0
    while done < count:
        done += _partition(random, version, judge, work, tally, done)


def draw(random: Random, rules: Generation) -> Drawn:
    """The settings of one partition, and what it holds."""
    old, large = random.random() < 0.3, random.random() < 0.06
    sizes = (1 << 20, 1 << 23) if large else (2200, 5000, 1 << 20)
    config: dict[str, str | int | float] = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "internal.segment.bytes"
        if rules.cleaning.writes_magic_2
        else "segment.bytes": random.choice(sizes),
        "index.interval.bytes": random.choice((0, 100, 400)),
        "delete.retention.ms": random.choice((0, 1000, DAY, 2**63 - 1)),
        "min.compaction.lag.ms": random.choice((0, 0, 0, 1500)),
    }
    return Drawn(
        config,
        random.choice(((0,), (1,), (0, 1, 2))) if old else (2,),
        random.choice(_CODECS),
        random.choice((1, 3, 12)),
        random.choice((0, 0, 2 * DAY, 8 * DAY)),
        (0, 30_000, 90_000) if large else (0, 1, 30, 200),
    )


def _partition(
    random: Random, version: str, judge: Judge, work: Path, tally: Tally, number: int
) -> int:
    """Clean one partition several times. Returns the number of cleanings."""
    rules = generation(version)
    drawn = draw(random, rules)
    folder = work / f"compacted-{number}"
    topic = topic_of(settings_from(drawn.config), rules)
    now, sender = NOW, Sender(random, drawn)
    log = create(folder / "0" / NAME, topic, rules, now)
    rounds = random.choice((1, 2, 3))
    for one in range(rounds):
        _append(random, log, sender, now)
        log.close(now)
        source = _recovered(random, log, judge, folder / f"kafka-{one}", drawn, now)
        now += random.choice((0, 1, 999, 1000, 1001, DAY, 2 * DAY))
        most = random.choice((10**6, 10**6, 10**6, 2, 5))
        log = adopt(source, folder / f"{one + 1}" / NAME, topic, rules, now)
        ours = _ours(log, now, most)
        theirs = folder / f"cleaned-{one}"
        answer = judge(*_words(source, theirs, log_cleaned(source), now, most, drawn))
        case = "magic 2" if drawn.magics == (2,) else "older formats"
        tally.same(
            CHECK, version, case, f"partition {number}, round {one}",
            _told(log, ours, drawn), _told_by(answer, theirs / NAME, drawn),
        )  # fmt: skip
        if isinstance(ours, str):
            break
    shutil.rmtree(folder)
    return one + 1


def log_cleaned(source: Path) -> int | None:
    """The cleaner's checkpoint beside a partition directory, as it was written here."""
    path = source.parent / paths.CLEANER
    return int(path.read_text().split()[-1]) if path.exists() else None


def _append(random: Random, log: PartitionLog, sender: Sender, now_ms: int) -> None:
    for _ in range(random.randrange(4, 25)):
        at = now_ms - random.randrange(3000)
        log.append_as_follower(sender.batch(log.log_end_offset, now_ms), now_ms=at)
        if random.random() < 0.15:
            log.roll(log.log_end_offset, at)


def _recovered(
    random: Random, log: PartitionLog, judge: Judge, to: Path, drawn: Drawn, now_ms: int
) -> Path:
    """The partition as Kafka recovers it, cleanly stopped; mtimes at random."""
    words: list[object] = ["load", log.directory, "--out", to, "--now", now_ms]
    answer = judge(*words, *_configured(drawn))
    if "error" in answer:
        raise RuntimeError(f"Kafka does not load {log.directory}: {answer}")
    source = to / NAME
    for path in source.iterdir():
        if path.name.endswith(".deleted"):
            path.unlink()
    for base in log_bases(source):
        time = now_ms - random.choice((0, 500, 1000, 5000, DAY, 2 * DAY))
        os.utime(source / paths.segment_file(base, paths.LOG), ns=(time * 10**6, time * 10**6))
    (to / paths.CLEAN_SHUTDOWN).touch()
    if log.cleaned_to is not None:
        name = paths.partition_name(NAME)
        (to / paths.CLEANER).write_bytes(encode_offsets({name: log.cleaned_to}))
    return source


def _configured(drawn: Drawn) -> list[object]:
    return [
        word
        for key, value in drawn.config.items()
        for word in ("--config", f"{key.removeprefix('internal.')}={value}")
    ]


def _words(
    source: Path, to: Path, cleaned_to: int | None, now_ms: int, most: int, drawn: Drawn
) -> list[object]:
    words: list[object] = ["compact", source, "--out", to, "--clean", "true", "--now", now_ms]
    slots = next(n for n in range(most, 2 * most + 9) if int(n * _LOAD) >= most)
    words += ["--map-bytes", slots * _ENTRY_BYTES, *_configured(drawn)]
    return words if cleaned_to is None else [*words, "--cleaned-to", cleaned_to]


def _ours(log: PartitionLog, now_ms: int, most: int) -> Compacted | str:
    log.high_watermark = log.log_end_offset
    try:
        return compact(log, now_ms, most_keys=most)
    except KafkatsError as e:
        return str(e.reason)


def _told(log: PartitionLog, ours: Compacted | str, drawn: Drawn) -> object:
    if isinstance(ours, str):
        return "an error"
    log.close(0)
    nothing = bool(ours.section.why_not)
    return (ours.section[:2], None if nothing else ours.cleaned_to, _files(log.directory, drawn))


def _told_by(answer: dict[str, Any], directory: Path, drawn: Drawn) -> object:
    if "error" in answer:
        return "an error"
    section = answer["first_dirty"], answer["uncleanable"]
    return section, answer.get("cleaned_to"), _files(directory, drawn)


def _files(directory: Path, drawn: Drawn) -> dict[str, tuple[object, int]]:
    """Content by name; of logs that are not the last one also the mtime in ms.

    What snappy and zstd make depends on the library's version: of such partitions the logs are compared without their streams, the
    indexes of positions not at all.
    """
    last = log_bases(directory)[-1]
    varies = Codec.SNAPPY in drawn.codecs
    found: dict[str, tuple[object, int]] = {}
    for path in sorted(directory.iterdir()):
        parsed = paths.parse_segment_file(path.name)
        if parsed is None or parsed.kind not in _KINDS or parsed.suffix:
            continue
        if varies and parsed.kind in (paths.OFFSET_INDEX, paths.TIME_INDEX):
            continue
        timed = parsed.kind == paths.LOG and parsed.base_offset != last
        data = path.read_bytes()
        content = described(data) if varies and parsed.kind == paths.LOG else data.hex()
        found[path.name.lstrip("0")] = (content, path.stat().st_mtime_ns // 10**6 if timed else -1)
    return found
