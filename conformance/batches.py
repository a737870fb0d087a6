"""Batches that no golden directory holds, made by our own encoders: every format, codec and timestamp type by every shape of records.

The shapes are those in which conversions go wrong: holes, null and empty keys and values, headers, timestamps that fall, lie below zero or
are the producer's under a broker's stamp, wrappers whose messages have another magic (KAFKA-4298), what compaction leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from kafkats.compression import compress
from kafkats.formats import v0, v1, v2
from kafkats.formats.message_set import encode_message
from kafkats.formats.model import NO_TIMESTAMP, Codec, Header, Record, TimestampType

STAMP: Final = 1_700_000_123_456
"""What a broker's clock said where a batch is LogAppendTime."""
_EPOCH: Final = 1_600_000_000_000
_LEGACY: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
_TIMES: Final = {
    "rising": range(_EPOCH, _EPOCH + 1000),
    "falling": range(_EPOCH, _EPOCH - 1000, -1),
    "none": (NO_TIMESTAMP,),
    "zero": (0,),
    "mixed": (_EPOCH + 7, NO_TIMESTAMP, _EPOCH, 1 << 45, 0),
    "negative": (-5, -(1 << 40), -2),
}
_KEYS: Final = (b"key", b"", None, b"k" * 200)
_VALUES: Final = (b"value", b"", None, b"v" * 300, bytes(range(256)) * 9)
_HEADERS: Final = ((Header("h", b"x"), Header("n", None)), (), (Header("ü", b""),))


class Made(NamedTuple):
    """Some frames, as one file; `sendable` where a client may produce it: offsets from 0, without holes."""

    name: str
    data: bytes
    sendable: bool = False


def made_batches() -> Iterator[Made]:
    """All of them, the same in every run."""
    for times in _TIMES:
        for count in (1, 5, 40):
            for first, step in ((0, 1), (70, 1), (1 << 33, 3))[: 3 if count == 5 else 1]:
                records = _records(times, count, first, step)
                yield from _of_every_format(
                    f"{times}-{count}-at-{first}-by-{step}", records, step == 1
                )
    yield from _kept_by_compaction()
    yield from _of_producers()
    yield from _odd_wrappers()


def _records(times: str, count: int, first: int, step: int) -> list[Record]:
    random = Random(f"{times} {count} {first}")
    stamps = _TIMES[times]
    return [
        Record(
            first + n * step,
            stamps[n % len(stamps)],
            TimestampType.CREATE_TIME,
            random.choice(_KEYS),
            random.choice(_VALUES),
        )
        for n in range(count)
    ]


def _of_every_format(name: str, records: list[Record], whole: bool) -> Iterator[Made]:
    for codec in _LEGACY:
        word = codec.name.lower()
        yield Made(f"v0-{word}-{name}", v0.encode_batch(records, codec=codec), whole)
        yield Made(f"v1-{word}-{name}", v1.encode_batch(records, codec=codec), whole)
        for inner in (True, False):
            data = v1.encode_batch(records, codec=codec, log_append_time=STAMP, stamp_inner=inner)
            yield Made(f"v1-{word}-appended-{'inside' if inner else 'outside'}-{name}", data)
    for codec in Codec:
        word = codec.name.lower()
        base = 0 if whole else records[0].offset
        plain = [r._replace(offset=r.offset - records[0].offset + base) for r in records]
        yield Made(f"v2-{word}-{name}", v2.encode_batch(plain, codec=codec), whole)
        yield Made(
            f"v2-{word}-appended-{name}",
            v2.encode_batch(records, codec=codec, log_append_time=STAMP),
        )
        headed = [r._replace(headers=_HEADERS[r.offset % 3]) for r in plain]
        yield Made(f"v2-{word}-headers-{name}", v2.encode_batch(headed, codec=codec), whole)


def _kept_by_compaction() -> Iterator[Made]:
    records = _records("rising", 9, 1000, 2)
    for codec in Codec:
        word = codec.name.lower()
        around = {
            "base_offset": 990,
            "last_offset": 1040,
            "leader_epoch": 7,
            "max_timestamp": STAMP,
        }
        yield Made(f"v2-{word}-compacted", v2.encode_batch(records, codec=codec, **around))
        yield Made(
            f"v2-{word}-horizon",
            v2.encode_batch(records, codec=codec, delete_horizon_ms=STAMP, **around),
        )
        stamped = v2.encode_batch(records, codec=codec, delete_horizon_ms=5, log_append_time=STAMP)
        yield Made(f"v2-{word}-horizon-appended", stamped)
    empty = {
        "base_offset": 20,
        "last_offset": 29,
        "producer_id": 4,
        "producer_epoch": 0,
        "base_sequence": 3,
    }
    yield Made("v2-empty", v2.encode_batch([], **empty))
    yield Made(
        "v2-empty-transactional",
        v2.encode_batch([], transactional=True, max_timestamp=STAMP, **empty),
    )
    yield Made("v2-around-empty", v2.encode_batch(records[:2]) + v2.encode_batch([], **empty))


def _of_producers() -> Iterator[Made]:
    records = _records("rising", 4, 0, 1)
    who = {"producer_id": 1 << 40, "producer_epoch": 3}
    for codec in Codec:
        word = codec.name.lower()
        yield Made(
            f"v2-{word}-idempotent",
            v2.encode_batch(records, codec=codec, base_sequence=17, **who),
            True,
        )
        data = v2.encode_batch(
            records, codec=codec, base_sequence=0, transactional=True, leader_epoch=9, **who
        )
        yield Made(f"v2-{word}-transactional", data, True)
    for word, kind in (("abort", 0), ("commit", 1)):
        key, value = bytes((0, 0, 0, kind)), bytes(6)
        marker = [Record(4, STAMP, TimestampType.CREATE_TIME, key, value)]
        yield Made(f"v2-{word}", v2.encode_batch(marker, control=True, transactional=True, **who))
    unknown = [Record(4, STAMP, TimestampType.CREATE_TIME, bytes((0, 0, 0, 77)), b"?")]
    yield Made("v2-control-of-a-later-kafka", v2.encode_batch(unknown, control=True))


def _odd_wrappers() -> Iterator[Made]:
    """As KAFKA-4298, early librdkafka, a cut stream and foreign writers left them; Kafka's readers take them all."""
    records = _records("rising", 5, 0, 1)
    old, new = v0.encode_batch(records), v1.encode_batch(records)
    holed = v1.encode_batch([r._replace(offset=r.offset * 4) for r in records])
    far = v1.encode_batch([r._replace(offset=r.offset + 3) for r in records])
    for codec in _LEGACY[1:]:
        word = codec.name.lower()
        yield Made(f"v1-{word}-of-v0", _wrapper(1, 54, codec, old))
        yield Made(f"v0-{word}-of-v1", _wrapper(0, 4, codec, new))
        yield Made(
            f"v1-{word}-of-both",
            _wrapper(1, 4, codec, v0.encode_batch(records[:2]) + v1.encode_batch(records[2:])),
        )
        yield Made(f"v1-{word}-at-zero", _wrapper(1, 0, codec, new))
        yield Made(f"v1-{word}-holes", _wrapper(1, 116, codec, holed))
        yield Made(f"v1-{word}-not-from-zero", _wrapper(1, 57, codec, far))
        yield Made(f"v1-{word}-absolute-inside", _wrapper(1, 7, codec, far))
        yield Made(f"v1-{word}-cut-inside", _wrapper(1, 50, codec, new[:-3]))
        yield Made(f"v1-{word}-wrong-maximum", _wrapper(1, 50, codec, new, timestamp=3))
        yield Made(f"v1-{word}-of-v0-appended", _wrapper(1, 54, codec, old, attributes=8))
        yield Made(f"v0-{word}-with-key", _wrapper(0, 4, codec, old, key=b"key"))
    for magic in (0, 1):
        # Bits 4 to 7 mean nothing, and bit 3 nothing in magic 0.
        yield Made(
            f"v{magic}-odd-attributes",
            _wrapper(magic, 9, Codec.NONE, b"value", attributes=0xF0, key=b"k"),
        )
    yield Made("v0-bit-3", _wrapper(0, 9, Codec.NONE, b"value", attributes=0x08, key=b"k"))


def _wrapper(
    magic: int,
    offset: int,
    codec: Codec,
    inner: bytes,
    *,
    attributes: int = 0,
    timestamp: int = STAMP,
    key: bytes | None = None,
) -> bytes:
    time = timestamp.to_bytes(8, "big", signed=True) if magic else b""
    value = compress(codec, inner, broken_lz4=magic == 0)
    return encode_message(offset, bytes((magic, attributes | codec)) + time, key, value)
