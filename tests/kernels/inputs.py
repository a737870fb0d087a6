"""Segments whose every field holds, one after the other, the numbers at which arithmetic goes wrong."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkats.compression import Codec, compress
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Header, Record, TimestampType
from kafkats.primitives import encode_varint
from tests.formats.logs import raw_batch, raw_message
from tests.index.generated import reseal

BASES: Final = (0, 1000, 2**31, 2**62, 2**63 - 2**31, 2**63 - 12)
NUMBERS: Final = sorted({
    0,
    61,
    *(s * (n + d) for n in (1, 2**31, 2**63) for d in (-1, 0, 1) for s in (1, -1)),
})
VARINTS: Final = [
    *(encode_varint(n) for n in NUMBERS if -(2**63) <= n < 2**63),
    b"\xff" * 4 + b"\x0f", b"\xff" * 5, b"\x80" * 4 + b"\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f",
    b"\xff" * 10, b"\x80" * 9 + b"\x00", b"\x80" * 10, b"\x80", b"",
]  # fmt: skip

V2: Final = {
    "base_offset": (0, "q"), "length": (8, "i"), "leader_epoch": (12, "i"), "magic": (16, "b"), "crc": (17, "i"),
    "attributes": (21, "h"), "last_offset_delta": (23, "i"), "base_timestamp": (27, "q"), "max_timestamp": (35, "q"),
    "producer_id": (43, "q"), "producer_epoch": (51, "h"), "base_sequence": (53, "i"), "count": (57, "i"),
}  # fmt: skip
MESSAGE: Final = {
    "offset": (0, "q"),
    "size": (8, "i"),
    "crc": (12, "i"),
    "magic": (16, "b"),
    "attributes": (17, "b"),
}
V0: Final = MESSAGE | {"key_length": (18, "i"), "value_length": (23, "i")}
V1: Final = MESSAGE | {"timestamp": (18, "q"), "key_length": (26, "i"), "value_length": (31, "i")}
_WITHOUT_NEIGHBOURS: Final = {
    "crc",
    "leader_epoch",
    "producer_epoch",
    "producer_id",
    "base_sequence",
}
LAYOUTS: Final = (V0, V1, V2)
_PLACE: Final = re.compile(r" in \d+$|, message \d+|(first|last) codec \d+ ")
"""What differs between cases that turn the same field into the same number."""
CODECS: Final = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3, 4))


class Case(NamedTuple):
    """One segment and the indexes beside it, as they stand in the files."""

    name: str
    base_offset: int
    log: bytes
    offset_entries: bytes = b""
    time_entries: bytes = b""


def cases() -> Iterator[Case]:
    """All of them, always the same."""
    for base in BASES:
        yield from _headers(base)
    yield from _records()
    yield from _wrapped()
    yield from _entries()


def sample() -> Iterator[Case]:
    """Every field with every number, in one of its places: of three frames or messages, or of two places and codecs."""
    alike: dict[str, list[Case]] = {}
    for case in cases():
        alike.setdefault(_PLACE.sub("", case.name), []).append(case)
    for number, some in enumerate(alike.values()):
        yield some[number % len(some)]


def _records_from(offset: int, kind: TimestampType = TimestampType.CREATE_TIME) -> list[Record]:
    return [Record(offset + n, 70 + n, kind, b"k", b"vw", ()) for n in range(3)]


def batch(base: int, magic: int, codec: int) -> bytes:
    """Three records from `base` on, as one frame or, uncompressed in an old magic, one record."""
    if magic == 2:
        records = [
            r._replace(headers=(Header("h", b"x"), Header("", None))) for r in _records_from(base)
        ]
        return v2.encode_batch(
            records, codec=codec, producer_id=9, producer_epoch=1, base_sequence=5, leader_epoch=2
        )
    records = _records_from(base) if codec else _records_from(base + 2)[:1]
    return (v0, v1)[magic].encode_batch(records, codec=codec)  # type: ignore[no-any-return]


def wrapped(number: int, kind: str) -> int:
    """`number` in the width of a struct's `kind`."""
    bits = 8 * struct.calcsize(kind)
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _headers(base: int) -> Iterator[Case]:
    ordinary = base == BASES[1]
    for magic, layout in enumerate(LAYOUTS):
        for codec in CODECS[magic] if ordinary else (0, Codec.LZ4):
            frames = [batch(base + 3 * n, magic, codec) for n in range(3)]
            for field, (at, kind) in layout.items():
                if not ordinary and field not in {"base_offset", "offset", "last_offset_delta"}:
                    continue
                for value in sorted({wrapped(n, kind) for n in (*NUMBERS, base, base + 5)}):
                    for number, frame in enumerate(frames):
                        if number != 1 and (
                            codec not in {0, Codec.LZ4} or field in _WITHOUT_NEIGHBOURS
                        ):
                            continue
                        turned = bytearray(frame)
                        struct.pack_into(">" + kind, turned, at, value)
                        if field != "crc":
                            reseal(turned, 0, len(turned))
                        log = b"".join((*frames[:number], turned, *frames[number + 1 :]))
                        yield Case(
                            f"base {base} magic {magic} codec {codec} {field} {value} in {number}",
                            base,
                            log,
                        )


def _parts() -> dict[str, bytes]:
    """A record behind its length, field by field."""
    return {
        "attributes": b"\0", "timestamp_delta": b"\x04", "offset_delta": b"\x02", "key_length": b"\x02", "key": b"k",
        "value_length": b"\x04", "value": b"vw", "header_count": b"\x02", "header_key_length": b"\x02",
        "header_key": b"h", "header_value_length": b"\x02", "header_value": b"x",
    }  # fmt: skip


def _records() -> Iterator[Case]:
    good = v2.encode_batch(_records_from(10))
    for field in ("length", *_parts()):
        for number, value in enumerate(VARINTS):
            parts = _parts()
            if field in parts:
                parts[field] = value
            body = b"".join(parts.values())
            plain = (value if field == "length" else encode_varint(len(body))) + body
            other = b"\x0e\0\0\0\x02k\x01\0"
            for place, area in (("last", other + plain), ("first", plain + other)):
                for codec in (0, Codec.ZSTD):
                    for stamps in ((70, 71), (2**63 - 1, -1), (-(2**63), 2**63 - 1)):
                        if stamps != (70, 71) and field != "timestamp_delta":
                            continue
                        log = good + raw_batch(
                            compress(codec, area), base_offset=20, last_offset_delta=3, attributes=codec,
                            record_count=2, base_timestamp=stamps[0], max_timestamp=stamps[1],
                        ) + batch(30, 2, 0)  # fmt: skip
                        yield Case(
                            f"record {field} {number} {place} codec {codec} {stamps}", 10, log
                        )


def _wrapped() -> Iterator[Case]:
    for magic in (0, 1):
        for inner, layout in ((0, V0), (1, V1)):
            messages = [
                raw_message(n, inner, key=b"\0\0\0\x01k", value=b"\0\0\0\x02vw") for n in range(3)
            ]
            for field, (at, kind) in layout.items():
                for value in sorted({wrapped(n, kind) for n in NUMBERS}):
                    for number, message in enumerate(messages):
                        turned = bytearray(message)
                        struct.pack_into(">" + kind, turned, at, value)
                        plain = b"".join((*messages[:number], turned, *messages[number + 1 :]))
                        packed = compress(Codec.LZ4, plain, broken_lz4=magic == 0)
                        for offset in (12, 0, 2**63 - 2) if field == "offset" else (12,):
                            outer = raw_message(
                                offset,
                                magic,
                                attributes=Codec.LZ4,
                                value=len(packed).to_bytes(4, "big") + packed,
                            )
                            name = f"wrapper {magic} at {offset}, message {number} of {inner}: {field} {value}"
                            yield Case(
                                name, 10 if offset < 2**62 else 2**63 - 100, outer + batch(20, 2, 0)
                            )


def _entries() -> Iterator[Case]:
    for base in (BASES[1], BASES[-1]):
        log = b"".join(batch(base + 3 * n, 2, 0) for n in range(3))
        numbers = sorted({wrapped(n, "i") for n in (*NUMBERS, 3, 5, 8, len(log) // 3, len(log))})
        for first in numbers:
            for second in numbers:
                entry = struct.pack(">ii", first, second)
                yield Case(f"base {base} offset entry {first} {second}", base, log, entry, b"")
        for first in (*NUMBERS, 72, 75):
            for second in numbers:
                entry = struct.pack(">qi", wrapped(first, "q"), second)
                yield Case(f"base {base} time entry {first} {second}", base, log, b"", entry)
