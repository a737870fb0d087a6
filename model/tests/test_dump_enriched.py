"""`kafkats dump --dialect enriched`: what it shows of logs and indexes, and bad input with its position."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptBatch
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.inspect.dump import dump
from kafkats_model.formats import enriched
from kafkats_model.formats.enriched import Tags
from tests.builders.commands import objects, run

RECORDS = [
    Record(offset, 1_700_000_000_000 + offset, TimestampType.LOG_APPEND_TIME, b"k", b"v" * 9)
    for offset in (100, 103, 104)
]
SOUND = enriched.encode_batch(RECORDS) + b"".join(
    enriched.encode_batch([r._replace(offset=r.offset + move) for r in RECORDS], codec=codec)
    for move, codec in ((10, Codec.GZIP), (20, Codec.SNAPPY), (30, Codec.LZ4))
)
NAME = "00000000000000000100.log"


def test_a_wrapper_without_its_records(tmp_path: Path) -> None:
    """Its last offset is only in its content."""
    log = tmp_path / NAME
    log.write_bytes(enriched.encode_batch(RECORDS, codec=Codec.GZIP))
    (row,) = dump(log, dialect="enriched")
    assert (row["base_offset"], row["last_offset"], row["count"]) == (100, None, 3)
    batch, *records = dump(log, deep=True, dialect="enriched")
    assert (batch["last_offset"], [one["offset"] for one in records]) == (104, [100, 103, 104])


def test_a_mirrored_wrapper_tells_its_end(tmp_path: Path) -> None:
    log = tmp_path / NAME
    log.write_bytes(enriched.encode_batch(RECORDS, codec=Codec.GZIP, honored=False))
    (row,) = dump(log, dialect="enriched")
    assert (row["base_offset"], row["last_offset"]) == (100, 102)


def test_another_magic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / NAME
    data = bytearray(SOUND)
    data[16] = 2
    log.write_bytes(data)
    code, _, err = run(capsys, "dump", log, "--dialect", "enriched")
    assert code == 2
    assert "magic 2 of an enriched message" in err
    assert "at byte 0" in err


def test_an_unknown_dialect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "dump", tmp_path / NAME, "--dialect", "unheard")
    assert code == 2
    assert "enriched" in err


def test_unknown_tags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / NAME
    told = Tags(unknown=b"\x63\xff")
    log.write_bytes(enriched.encode_message(100, enriched.MessageType.NORMAL, None, None, told))
    code, out, _ = run(capsys, "dump", log, "--dialect", "enriched")
    assert (code, objects(out)[0]["tags"]["unknown_hex"]) == (0, "63ff")


@settings(deadline=None)
@given(
    at=st.integers(0, len(SOUND) - 1), bits=st.integers(1, 255), cut=st.none() | st.integers(0, 200)
)
def test_mutated_bytes_are_told_with_a_position(at: int, bits: int, cut: int | None) -> None:
    """A flipped byte is found, or lies in an offset or size, which no checksum covers."""
    data = bytearray(SOUND)
    data[at] ^= bits
    del data[len(data) - (cut or 0) :]
    hit = next(b for b in enriched.batches(SOUND) if b.position <= at < b.end)
    seen = 0
    try:
        for batch in enriched.batches(data):
            enriched.decode_records(data, batch)
            seen = batch.end
    except CorruptBatch as e:
        assert e.position is not None
        assert hit.position <= e.position <= len(data)
    else:
        assert at < hit.position + 12 or seen <= hit.position


@settings(deadline=None)
@given(st.binary(max_size=120), st.sampled_from([0, 1, 2, 3, 8, 9, 10, 11]))
def test_any_content_decodes_or_is_told(content: bytes, kind: int) -> None:
    """A right checksum around any bytes, as an attacker or a defective writer makes it."""
    body = bytes([1, kind]) + bytes(4) + content
    size = len(body) + 4
    data = bytes(8) + size.to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body
    try:
        for batch in enriched.batches(data):
            enriched.decode_records(data, batch)
    except CorruptBatch as e:
        assert e.position is not None
        assert 0 <= e.position <= len(data)
