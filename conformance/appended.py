"""Random message sets of clients, as a leader appends them: ours against LogValidator of Kafka 2.8.2 and 4.3.1.

Sets are sound or wrong in one way: checksums outside and inside, messages of another magic or compressed ones in wrappers, offsets that
fall, counts that differ, control batches, sequences, several batches, timestamps at all extremes, marked as the broker's, missing keys.
Compared are the bytes (of what a library compressed, all but its stream), the offsets, the largest timestamp, or Kafka's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from conformance.conversion import described
from conformance.judge import Judge
from conformance.tally import Tally
from kafkats.compression import compress
from kafkats.formats import v0, v1, v2
from kafkats.formats.build import Target
from kafkats.formats.message_set import encode_message
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats.primitives import INT64
from kafkats.rolling.rules import Settings
from kafkats_model.broker.generation import generation
from kafkats_model.broker.settings import Topic
from kafkats_model.broker.validate import validate
from kafkats_model.errors import Rejected
from kafkats_model.formats import kip228

CHECK: Final = "a leader's append: bytes, offsets and largest timestamp, or the error"
KIP228_CHECK: Final = "an old leader's append of a set with KIP-228's bit: the same"
VERSIONS: Final = ("2.8.2", "4.3.1")
NOW: Final = 1_700_000_000_000
_TIMES: Final = (
    -1, 0, 1, -2, NOW, NOW - 1, NOW + 1, NOW - 1000, NOW + 1000, NOW + 1001, NOW - 1001,
    NOW + 3_600_000, NOW + 3_600_001, 2**63 - 1, -(2**63), -(2**63) + 1, 1 << 45,
)  # fmt: skip
_SPUTNIK: Final = -386_380_800_000
_KINDS: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_LIMITS: Final = (2**63 - 1, 1000, 0, 3_600_000)
_LEGACY: Final = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_ERRORS: Final = {
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "InvalidRecordException": "INVALID_RECORD",
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
}
Leader = Callable[..., Any]


class Asked(NamedTuple):
    """One set, and the topic that it is sent to."""

    data: bytes
    wrong: str
    topic: Topic
    offset: int


def compare(
    version: str, judge: Judge, work: Path, tally: Tally, *, count: int, leader: Leader = validate
) -> None:
    """The same `count` random sets in every run."""
    random = Random(f"appended {version}")
    rule = generation(version).leader
    file = work / "set"
    for number in range(count):
        asked = draw(random, rule.magics)
        ours, theirs = _answers(asked, version, judge, file, leader)
        case = f"magic {asked.data[16]}: {asked.wrong or 'sound'}"
        what = f"set {number} ({case}) {asked.topic.target} {asked.topic.timestamp_type.name}"
        tally.same(CHECK, version, case, what, ours, theirs)


def compare_kip228(version: str, judge: Judge, work: Path, tally: Tally) -> int:
    """Sets of a new producer, for leaders that are old to KIP-228; return how many."""
    sets = list(_of_kip228())
    for number, asked in enumerate(sets):
        ours, theirs = _answers(asked, version, judge, work / "set", validate)
        case = f"{asked.wrong} {asked.topic.timestamp_type.name}"
        what = f"set {number} ({case}) {asked.topic.target}"
        tally.same(KIP228_CHECK, version, case, what, ours, theirs)
    return len(sets)


def _of_kip228() -> Iterator[Asked]:
    """Timestamps of the text's table and others, each compressed, to be recompressed, and to be stamped."""
    for times in ((-(2**63),), (-1,), (_SPUTNIK,), (5,), (-7, 5), (NOW, -(2**63))):
        records = [Record(n, t, TimestampType.CREATE_TIME, b"k", b"v") for n, t in enumerate(times)]
        for codec, wanted, kind in product((Codec.NONE, Codec.GZIP), (None, Codec.LZ4), _KINDS):
            topic = Topic(Target(2, wanted), kind, _LIMITS[0], _LIMITS[0], Settings(), -1, -1, True)
            yield Asked(kip228.encode_batch(records, codec=codec), f"times {times}", topic, 5)


def _answers(
    asked: Asked, version: str, judge: Judge, file: Path, leader: Leader
) -> tuple[object, object]:
    """Ours and theirs. Any error of ours does where Kafka's has no name."""
    file.write_bytes(asked.data)
    theirs = _theirs(judge(*_words(asked, file, version)))
    ours = _ours(asked, version, leader)
    if isinstance(theirs, str) and isinstance(ours, str):
        theirs = ours if theirs == "UNKNOWN_SERVER_ERROR" else theirs
    return ours, theirs


def draw(random: Random, magics: Sequence[int]) -> Asked:
    """One set. Half of them are sound."""
    magic = random.choice(magics if random.random() < 0.8 else (0, 1, 2))
    codec = random.choice(tuple(Codec) if magic == 2 else _LEGACY)
    records = _records(random, headers=magic == 2 and random.random() < 0.2)
    wrong, data = "", encoded(magic, codec, records)
    if random.random() < 0.5:
        chosen = random.choice(_WRONG[min(magic, 1) * (1 + (magic == 2))])
        made = chosen(random, magic, codec, records)
        if made is not None:
            wrong, data = chosen.__name__.strip("_").replace("_", " "), made
    diff = random.choice(_LIMITS)
    codecs = [None, None, codec, *Codec]
    target = Target(random.choice(magics), random.choice(codecs))
    if target.magic < 2 and target.codec == Codec.ZSTD:
        target = target._replace(codec=None)
    stamped = random.random() < 0.3
    topic = Topic(
        target,
        TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
        diff,
        diff if magics != (2,) else random.choice(_LIMITS),
        Settings(compacted=random.random() < 0.15),
        -1,
        -1,
        True,
    )
    return Asked(data, wrong, topic, random.choice((0, 5, 500, 1 << 33)))


def encoded(magic: int, codec: int, records: Sequence[Record]) -> bytes:
    """A sound set as a client sends it."""
    if magic == 2:
        return v2.encode_batch(records, codec=codec)
    return (v1 if magic else v0).encode_batch(records, codec=codec)


def _records(random: Random, *, headers: bool) -> list[Record]:
    near = random.random() < 0.6
    return [
        Record(
            n,
            NOW - random.randrange(1000) if near else random.choice(_TIMES),
            TimestampType.CREATE_TIME,
            random.choice((b"key", b"", None, b"k" * 90) if random.random() < 0.3 else (b"k",)),
            random.choice((b"value", b"", None, b"v" * 300)),
            (Header("h", b"x"), Header("n", None)) if headers else (),
        )
        for n in range(random.choice((1, 1, 2, 3, 6)))
    ]


def _crc_outside(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    data = bytearray(encoded(magic, codec, records))
    data[-1] ^= 1
    return bytes(data)


def _several_batches(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    return encoded(magic, codec, records) * 2


def _other_magic_beside(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    plain = [record._replace(headers=()) for record in records]
    return encoded(magic, Codec.NONE, records) + encoded((magic + 1) % 3, Codec.NONE, plain)


def _marked_log_append_time(
    random: Random, magic: int, codec: int, records: list[Record]
) -> bytes | None:
    time = random.choice(_TIMES)
    if magic == 2:
        return v2.encode_batch(records, codec=codec, log_append_time=time)
    return v1.encode_batch(records, codec=codec, log_append_time=time) if magic else None


def _wrapper(magic: int, codec: int, inner: bytes, offset: int, time: int = NOW) -> bytes | None:
    if codec == Codec.NONE:
        return None
    stamp = INT64.pack(time) if magic else b""
    value = compress(codec, inner, broken_lz4=magic == 0)
    return encode_message(offset, bytes((magic, codec)) + stamp, None, value)


def _crc_inside(random: Random, magic: int, codec: int, records: list[Record]) -> bytes | None:
    inner = bytearray(encoded(magic, Codec.NONE, records))
    inner[-1] ^= 1
    return _wrapper(magic, codec, bytes(inner), len(records) - 1)


def _other_magic_inside(
    random: Random, magic: int, codec: int, records: list[Record]
) -> bytes | None:
    return _wrapper(magic, codec, encoded(1 - magic, Codec.NONE, records), len(records) - 1)


def _nested_wrapper(random: Random, magic: int, codec: int, records: list[Record]) -> bytes | None:
    return _wrapper(magic, codec, encoded(magic, codec, records), len(records) - 1)


def _cut_inside(random: Random, magic: int, codec: int, records: list[Record]) -> bytes | None:
    inner = encoded(magic, Codec.NONE, records) * 2
    return _wrapper(magic, codec, inner[:-3], len(records) - 1)


def _offsets_inside(random: Random, magic: int, codec: int, records: list[Record]) -> bytes | None:
    step, first = random.choice(((2, 0), (1, 3), (0, 0), (-1, 9)))
    moved = [r._replace(offset=first + n * step) for n, r in enumerate(records)]
    return _wrapper(magic, codec, encoded(magic, Codec.NONE, moved), max(r.offset for r in moved))


def _maximum_of_the_wrapper(
    random: Random, magic: int, codec: int, records: list[Record]
) -> bytes | None:
    inner = encoded(magic, Codec.NONE, records)
    return _wrapper(magic, codec, inner, len(records) - 1, random.choice(_TIMES))


def _header(data: bytes, **fields: int) -> bytes:
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(data))._replace(**fields)
    return v2.seal(header, data[v2.HEADER_BYTES :])


def _count_of_records(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    count = random.choice((0, -1, len(records) + 1, len(records) - 1))
    return _header(encoded(2, codec, records), record_count=count)


def _last_offset(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    delta = random.choice((len(records), -1, 2**31 - 1))
    return _header(encoded(2, codec, records), last_offset_delta=delta)


def _offset_deltas(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    moved = [r._replace(offset=n * 2) for n, r in enumerate(records)]
    return v2.encode_batch(moved, codec=codec, last_offset=len(records) - 1)


def _control(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    return v2.encode_batch(records, codec=codec, control=True)


def _producer(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    sequence = random.choice((-1, 0, 7))
    return v2.encode_batch(
        records, codec=codec, producer_id=5, producer_epoch=0, base_sequence=sequence
    )


def _transaction(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    return v2.encode_batch(
        records, codec=codec, producer_id=5, producer_epoch=0, base_sequence=1, transactional=True
    )


def _header_fields(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    field = random.choice(("max_timestamp", "leader_epoch", "producer_epoch"))
    most = {"max_timestamp": 2**63 - 1, "leader_epoch": 2**31 - 1, "producer_epoch": 2**15 - 1}
    return _header(encoded(2, codec, records), **{field: random.choice((0, most[field]))})


def _area(random: Random, magic: int, codec: int, records: list[Record]) -> bytes:
    data = encoded(2, codec, records)
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(data))
    return v2.seal(header, data[v2.HEADER_BYTES : -1])


_EVERY: Final = (_several_batches, _other_magic_beside)
_OLD: Final = (
    *_EVERY, _crc_inside, _crc_inside, _other_magic_inside, _nested_wrapper, _cut_inside,
    _offsets_inside, _offsets_inside,
)  # fmt: skip
_NEW: Final = (
    *_EVERY, _marked_log_append_time, _count_of_records, _last_offset, _offset_deltas, _control,
    _producer, _transaction, _header_fields, _area,
)  # fmt: skip
_WRONG: Final = (_OLD, (*_OLD, _marked_log_append_time, _maximum_of_the_wrapper), _NEW)
"""By magic. A wrong checksum of a whole batch is found before LogValidator is asked."""


def _words(asked: Asked, file: Path, version: str) -> list[object]:
    topic = asked.topic
    codec = "producer" if topic.target.codec is None else topic.target.codec.name.lower()
    stamped = topic.timestamp_type == TimestampType.LOG_APPEND_TIME
    words: list[object] = ["validate", file, "--now", NOW, "--offset", asked.offset, "--epoch", 3]
    words += ["--codec", codec, "--ts-type", "LogAppendTime" if stamped else "CreateTime"]
    words += ["--magic", topic.target.magic, *(["--compact"] if topic.compacted else [])]
    if version.startswith("2."):
        return [*words, "--diff-max", topic.before_max_ms]
    return [*words, "--before-max", topic.before_max_ms, "--after-max", topic.after_max_ms]


def _theirs(answer: dict[str, Any]) -> object:
    if "error" in answer:
        return _ERRORS.get(answer["error"].rpartition(".")[2], "UNKNOWN_SERVER_ERROR")
    return (
        described(bytes.fromhex(answer["hex"])),
        answer["next_offset"],
        answer["max_timestamp"],
        answer.get("shallow_offset_of_max_timestamp"),
    )


def _ours(asked: Asked, version: str, leader: Leader) -> object:
    rule = generation(version).leader
    try:
        made = leader(
            asked.data, asked.topic, rule, now_ms=NOW, offset=asked.offset, leader_epoch=3
        )
    except Rejected as e:
        return e.error
    offset = made.largest.offset if rule.record_of_maximum else None
    return described(made.data), made.last_offset + 1, made.largest.timestamp, offset
