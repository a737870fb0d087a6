"""Our conversions of bytes against the three that Kafka has, batch for batch.

    clean         4.3.1   what its log cleaner makes of stored batches: our stored rule to magic 2
    downconvert   2.8.2   what it sent to old fetchers: our fetch rule, and our stored rule downwards
    matrix        2.8.2   what its leader makes of a request for all 3 magics x 5 codecs x 2 timestamp types: our produce
    validate      4.3.1   rule; and, batch by batch without a change of offsets, our stored rule for every target codec

Uncompressed batches must be the same bytes. Of compressed ones the library's version decides the bytes, so their fields,
their stream's framing and all that is compressed must be the same.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from conformance.batches import STAMP, made_batches
from conformance.judge import Judge
from conformance.tally import Tally
from kafkats.compression import decompress
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import convert, dispatch, v2
from kafkats.formats.build import Target
from kafkats.formats.message_set import KEY_AT
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import read_int32, view
from kafkats.segment.convert import convert_source
from kafkats.segment.reader import open_source
from kafkats_model.formats.fetch import fetch
from kafkats_model.formats.produce import produce
from tests.golden import Segment

CLEANED = "the cleaner's rewrite to magic 2"
FETCHED = "down-conversion for old fetchers"
STORED_DOWN = "stored batches downwards, as for old fetchers"
STORED = "stored batches in every magic and codec, as a leader rebuilds them"
PRODUCED = "what a leader makes of a request"
ALIKE: Final = ("crash", "clean-start", "torn-append", "retention", "rolling", "follower")
NOW: Final = STAMP + 60_000
REFUSED: Final = "refused"
WE_REFUSE: Final = "-of-v0-appended"
"""Made batches that the cleaner rewrites and we do not: their records would get a time that they never had."""
_NO_ZSTD: Final = ("ZStandard compression is not supported", "zstandard-compressed")
_NOT_BELOW_2: Final = (
    "does not support record headers",
    "Transactional records",
    "Idempotent records",
)
"""Words of Kafka's refusals that must be ours too."""
_FRAMING: Final = {Codec.GZIP: 10, Codec.SNAPPY: 16, Codec.LZ4: 7, Codec.ZSTD: 4}
"""Bytes of a compressed stream that no library chooses."""
_VARIABLE = {"position": 0, "size": 0, "crc": 0}


class Subject(NamedTuple):
    """Some sound frames in a file; `case` is what they are counted under."""

    case: str
    name: str
    file: Path
    data: bytes
    base_offset: int
    sendable: bool = False


Stored: TypeAlias = Callable[[Subject, Target], bytes]


class Ours(NamedTuple):
    """The conversions under test; a self-test puts in others."""

    stored: tuple[Stored, ...]
    fetch: Callable[..., bytes]
    produce: Callable[..., bytes]


def by_reference(one: Subject, target: Target) -> bytes:
    return convert.convert_segment(one.data, one.base_offset, target).data


def by_kernels(one: Subject, target: Target) -> bytes:
    written = bytearray()
    with open_source(one.file) as source:
        convert_source(source, one.base_offset, target, written.extend, log_end=False)
    return bytes(written)


OURS: Final = Ours((by_reference, by_kernels), fetch, produce)


def subjects(segments: Iterable[Segment], work: Path) -> list[Subject]:
    """Each distinct sound segment once, requests as the clients of the golden cases sent them, and the made batches.

    Of the cases whose point is damage or time, where the segments are alike, every fifth segment will do.
    """
    found: dict[bytes, Subject] = {}
    for segment in segments:
        data = segment.log.read_bytes()
        alike = segment.case.kind in ALIKE and zlib.crc32(data) % 5
        if data and not alike and data not in found and _is_sound(data):
            found[data] = Subject(
                segment.case.name, repr(segment), segment.log, data, segment.base_offset
            )
    (work / "made").mkdir()
    for one in [*_requests(found.values()), *_made()]:
        file = work / "made" / f"{len(found)}.log"
        if found.setdefault(one.data, one._replace(file=file)).file == file:
            file.write_bytes(one.data)
    return list(found.values())


def _made() -> Iterator[Subject]:
    for made in made_batches():
        case = "made: " + "-".join(made.name.split("-")[:2])
        yield Subject(case, made.name, Path(), made.data, _first(made.data), made.sendable)


def _requests(logs: Iterable[Subject]) -> Iterator[Subject]:
    """Batches out of logs as they were before a leader numbered them: the first and the largest of each case and format."""
    chosen: dict[tuple[object, ...], tuple[Subject, Batch]] = {}
    for one in logs:
        for batch in dispatch.batches(one.data, verify=False):
            kind = one.case, batch.magic, batch.codec, batch.timestamp_type
            chosen.setdefault((*kind, "first"), (one, batch))
            if batch.size > chosen.setdefault((*kind, "largest"), (one, batch))[1].size:
                chosen[*kind, "largest"] = one, batch
    for one, batch in chosen.values():
        data = one.data[batch.position : batch.end]
        if batch.magic == v2.MAGIC:
            data = bytes(8) + data[8:]  # no CRC covers the base offset
        yield Subject(
            one.case, f"a batch of {one.name} at {batch.position}", Path(), data, _first(data), True
        )


def _is_sound(data: bytes) -> bool:
    try:
        return sum(batch.size for batch in dispatch.batches(data)) == len(data)
    except CorruptBatch:
        return False


def _first(data: bytes) -> int:
    return min(dispatch.first_offset(data, batch) for batch in dispatch.batches(data))


def compare_cleaned(asked: Iterable[Subject], judge: Judge, tally: Tally, ours: Ours) -> None:
    """Everything to magic 2, in one call per file."""
    for one in asked:
        theirs = _verdict(judge("clean", one.file))
        if theirs is None:
            continue
        if one.name.endswith(WE_REFUSE):
            theirs = REFUSED
        for stored in ours.stored:
            mine = _attempt(partial(stored, one, Target(2)))
            if isinstance(mine, bytes) and isinstance(theirs, bytes):
                mine = _with_horizons(mine, theirs)
            _same(CLEANED, judge, one, f" {_name(stored)}", mine, theirs, tally)


def _with_horizons(ours: bytes, theirs: bytes) -> bytes:
    """Ours, with the delete horizon that the cleaner gives to every batch with a tombstone (KIP-534): time 0 in the judge.

    That is compaction's part, not conversion's, so everything else of such a batch must still be the same.
    """
    pairs = zip(
        dispatch.batches(ours, verify=False), dispatch.batches(theirs, verify=False), strict=False
    )
    made = bytearray()
    for mine, other in pairs:
        if other.delete_horizon_ms == 0 and mine.delete_horizon_ms is None:
            records = dispatch.records(ours, mine)
            if not mine.control and all(record.value is not None for record in records):
                return ours
            made += _encoded(mine, records, 0)
        else:
            made += ours[mine.position : mine.end]
    return (
        bytes(made) + ours[sum(b.size for b in dispatch.batches(ours, verify=False)) :]
        if made
        else ours
    )


def _encoded(batch: Batch, records: list[Record], delete_horizon_ms: int) -> bytes:
    appended = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    return v2.encode_batch(
        records,
        codec=batch.codec,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        log_append_time=batch.max_timestamp if appended else None,
        delete_horizon_ms=delete_horizon_ms,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.transactional,
        control=batch.control,
    )


def compare_fetched(asked: Iterable[Subject], judge: Judge, tally: Tally, ours: Ours) -> None:
    """Everything to magic 1 and 0, from the first record on and from one in the middle on."""
    for one in asked:
        batches = list(dispatch.batches(one.data))
        middle = batches[len(batches) // 2].last_offset
        for magic in (1, 0):
            for first in (0, middle) if zlib.crc32(one.data) % 4 == 0 else (0,):
                theirs = _verdict(
                    judge("downconvert", one.file, "--magic", magic, "--first-offset", first)
                )
                if theirs is None:
                    continue
                mine = _attempt(partial(ours.fetch, one.data, magic, first_offset=first))
                _same(FETCHED, judge, one, f" to magic {magic} from {first}", mine, theirs, tally)
                if first == 0 and all(batch.magic >= magic for batch in batches):
                    for stored in ours.stored:
                        mine = _attempt(partial(stored, one, Target(magic)))
                        _same(
                            STORED_DOWN,
                            judge,
                            one,
                            f" to magic {magic} {_name(stored)}",
                            mine,
                            theirs,
                            tally,
                        )


def compare_produced(asked: Iterable[Subject], judge: Judge, tally: Tally, ours: Ours) -> None:
    """Each request as it came, to all targets that this Kafka writes."""
    for one in asked:
        for target, ts_type, theirs in _leader(
            judge, one, (*_NO_ZSTD, *_NOT_BELOW_2), offset=500, epoch=3
        ):
            mine = _attempt(
                partial(
                    ours.produce,
                    one.data,
                    target,
                    timestamp_type=ts_type,
                    now_ms=NOW,
                    offset=500,
                    leader_epoch=3,
                )
            )
            _same(PRODUCED, judge, one, f" to {_words(target)} {ts_type.name}", mine, theirs, tally)


def compare_stored(asked: Iterable[Subject], judge: Judge, tally: Tally, ours: Ours) -> None:
    """One batch, CreateTime, whole: then a leader that counts on from its first offset changes what the stored rule changes."""
    for one in asked:
        batch = _only_whole_batch(one)
        if batch is None:
            continue
        first = dispatch.first_offset(one.data, batch)
        for target, ts_type, theirs in _leader(
            judge, one, _NO_ZSTD, offset=first, epoch=batch.leader_epoch
        ):
            for stored in ours.stored if ts_type == TimestampType.CREATE_TIME else ():
                mine = _attempt(partial(stored, one, target))
                _same(
                    STORED, judge, one, f" to {_words(target)} {_name(stored)}", mine, theirs, tally
                )


def _only_whole_batch(one: Subject) -> Batch | None:
    batches = list(dispatch.batches(one.data))
    if (
        len(batches) != 1
        or batches[0].timestamp_type == TimestampType.LOG_APPEND_TIME
        or batches[0].control
    ):
        return None
    records = dispatch.records(one.data, batches[0])
    if any(record.timestamp < NO_TIMESTAMP for record in records):
        return None  # 2.8.2 writes -1 over them in messages of magic 1 that it keeps
    offsets = [record.offset for record in records]
    whole = offsets == list(
        range(batches[0].last_offset - len(offsets) + 1, batches[0].last_offset + 1)
    )
    return batches[0] if whole and batches[0].delete_horizon_ms is None else None


def _leader(
    judge: Judge, one: Subject, refusals: tuple[str, ...], *, offset: int, epoch: int
) -> Iterator[tuple[Target, TimestampType, bytes | str]]:
    """Return what the leader of that Kafka writes for `one` and every target; targets that are not compared are left out."""
    settings = ("--now", NOW, "--offset", offset, "--epoch", epoch)
    if judge.version.startswith("2."):
        answers = judge("matrix", one.file, *settings)
    else:
        answers = {
            f"v2 {codec} {word}": judge(
                "validate",
                one.file,
                "--codec",
                codec,
                "--ts-type",
                word,
                "--after-max",
                1 << 60,
                *settings,
            )
            for codec in (*(codec.name.lower() for codec in Codec), "producer")
            for word in ("CreateTime", "LogAppendTime")
        }
    for words, answer in answers.items():
        magic, codec, word = words.split()
        theirs = _verdict(answer, refusals)
        if theirs is not None:
            type_ = (
                TimestampType.CREATE_TIME if word == "CreateTime" else TimestampType.LOG_APPEND_TIME
            )
            chosen = None if codec == "producer" else Codec[codec.upper()]
            yield Target(int(magic[1]), chosen), type_, theirs


def _verdict(answer: dict[str, Any], refusals: tuple[str, ...] = _NO_ZSTD) -> bytes | str | None:
    """Kafka's bytes, or REFUSED with one of these words; None where it refuses for what is no part of a conversion.

    It writes no timestamp below -1, which we carry as they are (every broker stores them when they come in place).
    """
    if "error" not in answer:
        return bytes.fromhex(answer["hex"])
    return REFUSED if any(words in answer["message"] for words in refusals) else None


def _attempt(conversion: Callable[[], bytes]) -> bytes | str:
    try:
        return conversion()
    except BadInput as error:
        return REFUSED if not isinstance(error, CorruptBatch) else f"{REFUSED}: {error}"


def _same(
    check: str,
    judge: Judge,
    one: Subject,
    how: str,
    ours: bytes | str,
    theirs: bytes | str,
    tally: Tally,
) -> None:
    mine, other = described(ours), described(theirs)
    if mine == other:
        digest = hashlib.sha256(repr(mine).encode()).hexdigest()
        tally.same(check, judge.version, one.case, one.name + how, digest, digest)
        return
    at = next(
        (n for n, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b),
        min(len(mine), len(other)),
    )
    tally.same(
        check,
        judge.version,
        one.case,
        f"batch {at} of {one.name}{how} ({len(mine)} batches against {len(other)})",
        str(mine[at : at + 1])[:400],
        str(other[at : at + 1])[:400],
    )


def described(data: bytes | str) -> list[object]:
    """Frame by frame: the bytes, or the fields, framing and content of what is compressed; last what is no sound frame."""
    if isinstance(data, str):
        return [data]
    found: list[object] = []
    end = 0
    try:
        for batch in dispatch.batches(data):
            raw = data[batch.position : batch.end]
            found.append(raw.hex() if batch.codec == Codec.NONE else _unpacked(batch, raw))
            end = batch.end
    except CorruptBatch as error:
        found.append(str(error))
    return [*found, data[end:].hex()] if data[end:] else found


def _unpacked(batch: Batch, raw: bytes) -> tuple[object, ...]:
    fields = {name: getattr(batch, name) for name in Batch.__slots__} | _VARIABLE
    if batch.magic == v2.MAGIC:
        stream = view(raw)[v2.HEADER_BYTES :]
    else:
        key, at = read_int32(raw, KEY_AT[batch.magic])
        fields["key"] = raw[at - 4 : at + max(key, 0)].hex()
        stream = view(raw)[at + max(key, 0) + 4 :]
    plain = decompress(batch.codec, stream, broken_lz4=batch.magic == 0)
    return fields, bytes(stream[: _FRAMING[Codec(batch.codec)]]).hex(), plain.hex()


def _name(stored: Stored) -> str:
    return stored.__name__.replace("_", " ")


def _words(target: Target) -> str:
    return (
        f"magic {target.magic} {'as it is' if target.codec is None else target.codec.name.lower()}"
    )
