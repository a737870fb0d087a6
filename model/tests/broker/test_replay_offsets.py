"""Offsets and wrappers as KIP-31 words them, in what `kafkats replay` writes; rows of model/docs/seeds/kip31.toml."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from kafkats.compression import compress
from kafkats.compression.checksums import crc32c
from kafkats.formats import message_set, v1, v2
from kafkats.formats.model import Codec, Record, TimestampType
from model.tests.builders.replays import (
    BEGIN,
    Replay,
    Row,
    Step,
    broker,
    compressed,
    create,
    inner_offsets,
    outcomes,
    records,
    restart,
    step,
)

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
HOLES = (0, 3, 4)
STAMPED = {"message_timestamp_type": "LogAppendTime"}
V0 = struct.Struct(">qiIbb")
V1 = struct.Struct(">qiIbbq")


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Replay:
    return Replay(capsys, tmp_path)


def produce(version: int, codec: str = "none", *times: int) -> Step:
    return step("produce", version=version, codec=codec, records=records(*times or (BEGIN,) * 3))


def sent(data: bytes, version: int = 2) -> Step:
    return step("produce", version=version, set=data.hex())


def wrapper(*offsets: int, codec: Codec = Codec.GZIP) -> bytes:
    """A producer's wrapper of magic 1 with these offsets inside, as a compacted topic leaves them."""
    of = [Record(n, BEGIN + n, TimestampType.CREATE_TIME, b"k%d" % n, b"v%d" % n) for n in offsets]
    return v1.encode_batch(of, codec=codec)


def at_offset(data: bytes, offset: int) -> bytes:
    """A wrapper of magic 1 at another offset; its CRC does not cover the offset."""
    return struct.pack(">q", offset) + data[8:]


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("null", ["key", "value"])
def test_the_layout_of_a_message(magic: int, null: str, replay: Replay) -> None:
    """Offset, size, CRC, magic, attributes, (timestamp,) key length, key, value length, value; a length of -1 is no field."""
    record = {"timestamp": BEGIN, "key": "key", "value": "value", null: None}
    replay(
        broker(), create(message_format_version=str(magic)),
        produce(magic + 1), step("produce", version=magic + 1, records=[record]), produce(magic + 1, "gzip"),
    )  # fmt: skip
    key, value = (b"" if null == name else name.encode() for name in ("key", "value"))
    lengths = [-1 if null == name else len(name) for name in ("key", "value")]
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", BEGIN) if magic else b"")
    body += struct.pack(">i", lengths[0]) + key + struct.pack(">i", lengths[1]) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    data = replay.file().read_bytes()
    value = compressed(data, 4)
    body = struct.pack(">bb", magic, 1) + (struct.pack(">q", BEGIN) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    outer = struct.pack(">I", zlib.crc32(body)) + body
    ends = struct.pack(">qi", 3, len(message)) + message, struct.pack(">qi", 6, len(outer)) + outer
    assert data.endswith(b"".join(ends))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_the_attributes_name_the_codec(magic: int, codec: str, replay: Replay) -> None:
    replay(broker(), create(message_format_version=str(magic)), produce(magic + 1, codec))
    data = replay.file().read_bytes()
    assert data[16:18] == bytes([magic, CODECS[codec]])


@pytest.mark.parametrize(("text", "magic"), [("0", 0), ("1", 1), ("0.9.0", 0), ("0.10.0", 1)])
def test_message_format_version_is_the_magic_on_the_disk(
    text: str, magic: int, replay: Replay
) -> None:
    rows = replay(broker(), create(message_format_version=text), produce(1), produce(2))
    assert [row["formats"] for row in rows] == [f"{magic} none"] * 2
    assert replay.file().read_bytes()[16] == magic


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_wrapper_has_relative_offsets(codec: str, replay: Replay) -> None:
    """0, 1, 2 inside; the wrapper alone has an absolute offset, that of its last message; readers add."""
    replay(broker(), create(), produce(2, codec), produce(2, codec))
    data = replay.file().read_bytes()
    assert inner_offsets(data) == inner_offsets(data, 1) == [0, 1, 2]
    rows = replay.dump(replay.file())
    assert [row["last_offset"] for row in of_kind(rows, "batch")] == [2, 5]
    assert [row["base_offset"] for row in of_kind(rows, "batch")] == [0, 3]
    assert [row["offset"] for row in of_kind(rows, "record")] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("config", [{}, STAMPED])
def test_a_producer_leaves_the_offset_of_a_wrapper_blank(
    config: dict[str, str], replay: Replay
) -> None:
    """The leader sets it without compressing again: the compressed bytes are the producer's."""
    blank = at_offset(wrapper(0, 1, 2), 0)
    rows = replay(broker(), create(**config), produce(2), sent(blank), sent(at_offset(blank, 2)))
    told = [(row["outcome"], row["last_offset"]) for row in rows[1:]]
    assert told == [("in place", 5), ("in place", 8)]
    data, size = replay.file().read_bytes(), len(blank)
    assert compressed(data, 3) == compressed(data, 4) == compressed(blank)
    assert [data[at:][:8] for at in (-2 * size, -size)] == [struct.pack(">q", n) for n in (5, 8)]
    assert config or data[-size:] == at_offset(blank, 8)


@pytest.mark.parametrize("number", [None, 0, 1])
def test_a_wrong_checksum_in_a_wrapper_is_rejected(number: int | None, replay: Replay) -> None:
    """The leader decompresses to verify that of each message; nothing is appended."""
    messages = [
        v1.encode_batch([Record(n, BEGIN, TimestampType.CREATE_TIME, None, b"x")]) for n in (0, 1)
    ]
    broken = bytearray(b"".join(messages))
    if number is not None:
        broken[number * len(messages[0]) + 12 + 3] ^= 1  # the CRC of that message
    (row,) = replay(broker(), create(), sent(repacked(bytes(broken))))
    if number is not None:
        assert row["outcome"] == "rejected" and row["log_end_offset"] == 0
        assert row["error"].startswith(f"CORRUPT_MESSAGE: CRC-32 of message {number} in a wrapper")
    else:
        assert row["outcome"] == "in place" and row["log_end_offset"] == 2


def repacked(messages: bytes) -> bytes:
    """A wrapper with these messages inside."""
    header = struct.pack(">bBq", 1, Codec.GZIP, BEGIN)
    return message_set.encode_message(1, header, None, compress(Codec.GZIP, messages))


def test_offsets_with_holes_are_reassigned(replay: Replay) -> None:
    """As a mirror of a compacted topic sends them: accepted, and counted again."""
    rows = replay(broker(), create(), produce(2), sent(wrapper(*HOLES)))
    assert (rows[1]["outcome"], rows[1]["first_offset"], rows[1]["last_offset"]) == (
        "recompressed", 3, 5,
    )  # fmt: skip
    assert inner_offsets(replay.file().read_bytes(), 3) == [0, 1, 2]
    found = of_kind(replay.dump(replay.file()), "record")[3:]
    assert [(row["offset"], row["key"]) for row in found] == [(3, "k0"), (4, "k3"), (5, "k4")]


def test_the_other_way_rejects_offsets_with_holes(replay: Replay) -> None:
    """As brokers from 2.6 on do with compressed batches of magic 2."""
    of = [Record(n, BEGIN, TimestampType.CREATE_TIME, b"k", b"v") for n in HOLES]
    data = bytearray(v2.encode_batch(of, codec=Codec.GZIP))
    struct.pack_into(">i", data, 23, 2)  # a client's batch counts its records
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    rows = replay(broker(kafka="2.8.2"), create(), sent(bytes(data), 3))
    assert outcomes(rows) == ["rejected"] and rows[0]["log_end_offset"] == 0
    assert "offsets in a compressed batch are not 0, 1, 2" in rows[0]["error"]


def test_a_mirror_copies_a_wrapper_unopened(replay: Replay) -> None:
    """Bytes of one cluster's disk are a produce request to another one, holes and all."""
    source = at_offset(wrapper(*HOLES), 104)
    rows = replay(broker(), create(), produce(2), sent(source))
    assert rows[1]["outcome"] != "rejected"
    found = of_kind(replay.dump(replay.file()), "record")[3:]
    assert [(row["offset"], row["timestamp"], row["value"]) for row in found] == [
        (3 + n, BEGIN + offset, f"v{offset}") for n, offset in enumerate(HOLES)
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_the_wrapper_has_the_latest_timestamp_of_its_messages(codec: str, replay: Replay) -> None:
    times = (BEGIN + 5, BEGIN + 9, BEGIN)
    replay(broker(), create(), produce(2, codec, *times), produce(2, codec, -1, -1))
    found = of_kind(replay.dump(replay.file()), "batch")
    assert [row["max_timestamp"] for row in found] == [BEGIN + 9, -1]


def test_the_broker_assigns_the_timestamp_and_discards_a_mirrors(replay: Replay) -> None:
    source = at_offset(wrapper(0, 1), 0)
    rows = replay(broker(), create(**STAMPED), {**sent(source), "at": BEGIN + 777})
    assert rows[0]["timestamp"] == BEGIN + 777
    found = of_kind(replay.dump(replay.file()), "record")
    assert [row["timestamp"] for row in found] == [BEGIN + 777] * 2


def test_a_segment_rolls_by_the_timestamp_of_its_first_message(replay: Replay) -> None:
    """The clock stands still: only the messages' timestamps advance."""
    rows = replay(
        broker(), create(segment_ms=1000), produce(2, "none", BEGIN), produce(2, "none", BEGIN + 1000),
        produce(2, "none", BEGIN + 1001), produce(2, "none", BEGIN + 1002),
    )  # fmt: skip
    assert [row["rolled"] for row in rows] == ["", "", "yes", ""]
    assert replay.file(base=2).exists()


def test_a_segment_is_deleted_by_the_timestamp_of_its_last_message(replay: Replay) -> None:
    """The broker's times count, as in the old text, and no producer's: the last is the latest."""
    rows = replay(
        broker(), create(retention_ms=10_000, **STAMPED), {**produce(2, "none", BEGIN + 10**9), "at": BEGIN},
        {**produce(2, "none", BEGIN - 10**9), "at": BEGIN + 51_000}, step("roll"),
        {**produce(2, "none", BEGIN), "at": BEGIN + 60_000}, step("retain", at=BEGIN + 61_000), step("retain", at=BEGIN + 61_001),
    )  # fmt: skip
    assert [(row["outcome"], row["first_offset"]) for row in rows[-2:]] == [
        ("0 segments deleted", 0), ("1 segment deleted", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_the_messages_of_a_wrapper_share_the_brokers_timestamp(codec: str, replay: Replay) -> None:
    """Whatever the producer wrote in each: contiguous offsets, and one time for all."""
    times = (BEGIN + 5, BEGIN + 9, BEGIN)
    sets = [{**produce(2, codec, *times), "at": BEGIN + at} for at in (70, 80)]
    replay(broker(), create(**STAMPED), *sets)
    found = of_kind(replay.dump(replay.file()), "record")
    assert [(row["offset"], row["timestamp"] - BEGIN) for row in found] == [
        (0, 70), (1, 70), (2, 70), (3, 80), (4, 80), (5, 80),
    ]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_producers_notice_nothing(version: int, replay: Replay) -> None:
    """The answers to a produce request are the same in both phases."""
    rows = replay(
        broker(), create(message_format_version="0"), produce(version, "gzip"),
        restart(message_format_version="1"), produce(version, "gzip"),
    )  # fmt: skip
    told = [
        (row["first_offset"], row["last_offset"], row["timestamp"])
        for row in rows
        if row["do"] == "produce"
    ]
    assert told == [(0, 2, -1), (3, 5, -1)]


def keyed(codec: str, *keys: str, at: int = BEGIN) -> Step:
    of = [{"timestamp": at, "key": key, "value": f"{key}{at}"} for key in keys]
    return step("produce", version=2, codec=codec, records=of)


@pytest.mark.slow(1)
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_the_cleaner_merges_message_sets(codec: str, replay: Replay) -> None:
    """Several wrappers become one with new relative offsets; holes stay, and it has the time of its last message."""
    config = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0}
    rows = replay(
        broker(), create(**config), keyed(codec, "a", "b", "c"), keyed(codec, "a", "d", at=BEGIN + 1),
        keyed(codec, "e", "d", at=BEGIN + 5), step("roll"), step("compact"),
    )  # fmt: skip
    assert rows[-1]["outcome"] == "1 segment into 1"
    found = replay.dump(replay.file())
    (merged,) = of_kind(found, "batch")
    assert (merged["last_offset"], merged["max_timestamp"]) == (6, BEGIN + 5)
    assert [row["offset"] for row in of_kind(found, "record")] == [1, 2, 3, 5, 6]
    assert inner_offsets(replay.file().read_bytes()) == [0, 1, 2, 4, 5]


MINUTES = (0, 10_000, 59_999, 60_000, 61_000, 200_000, 190_000)
"""When each message of the segment of the index tests was created, after a full minute."""


def with_indexes(replay: Replay, *words: str) -> dict[str, list[Row]]:
    """The indexes that `kafkats layouts -o` writes for a segment with an offset entry per message, dumped."""
    config = {"index_interval_bytes": 0}
    replay(broker(), create(**config), *(produce(2, "none", BEGIN + time) for time in MINUTES))
    replay.run("layouts", replay.root(), "-o", replay.folder / "layouts", "--config", "index.interval.bytes=0", "--json", *words)  # fmt: skip
    files = (replay.folder / "layouts").rglob("*")
    return {
        path.name.partition(".")[2]: replay.run("dump", path) for path in files if path.is_file()
    }


def test_the_minute_index_is_a_file_of_its_own(replay: Replay) -> None:
    """SegmentBaseOffset...time.index: timestamp int64, offset int32; an entry for the first message of each minute that
    also gets an offset entry.
    """
    found = with_indexes(replay)["append-time.minute.time.index"]
    path = next((replay.folder / "layouts").rglob("0*.append-time.minute.time.index"))
    entries = list(struct.iter_unpack(">qi", path.read_bytes()))
    assert entries == [(row["timestamp"], row["relative_offset"]) for row in found]
    minutes = [(time - BEGIN) // 60_000 for time, _ in entries]
    assert minutes == [0, 1, 3]


def test_an_offset_index_with_timestamps_is_twice_as_large(replay: Replay) -> None:
    """Offset int32, position int32 and timestamp int64: 16 bytes instead of 8."""
    with_indexes(replay)
    path = next((replay.folder / "layouts").rglob("*.enriched.index"))
    entries = len(list(struct.iter_unpack(">iqi", path.read_bytes())))
    assert entries == len(MINUTES) - 1
    assert path.stat().st_size == 2 * replay.file(".index").stat().st_size == 16 * entries
