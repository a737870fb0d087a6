"""Damaged records under a right CRC, read by Kafka's own classes and by us: the same verdict, the same records.

Needs Java and the jars of Kafka 4.3.1, which `scripts/conformance` fetches; skipped where they are missing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import cramjam
import pytest

from conformance.judge import Judge
from kafkats.compression import Codec, compress
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Batch
from tests.formats.logs import RECORD, nullable, raw_batch, raw_message, record

KAFKA = "4.3.1"
CASES = 1500
JARS = Path(os.environ.get("KAFKATS_JARS", Path.home() / ".cache/kafkats/jars")) / KAFKA
WITH_HEADERS = record(bytes.fromhex("00 00 02 02 6b 02 76 04 02 68 02 78 02 6e 01"))

pytestmark = [
    pytest.mark.slow(1),
    pytest.mark.skipif(
        not (JARS.is_dir() and shutil.which("java")), reason=f"no Java, or no jars of Kafka {KAFKA}"
    ),
]


def _damaged(data: bytes, random: Random) -> bytes:
    found = bytearray(data)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(found) or 1)
        end = at + random.randrange(1, 4)
        kind = random.choice(("change", "change", "change", "remove", "insert", "cut"))
        if kind == "change" and at < len(found):
            found[at] = random.choice((
                0,
                1,
                2,
                8,
                0x7F,
                0x80,
                0xFF,
                found[at] ^ 1 << random.randrange(8),
            ))
        elif kind == "remove":
            del found[at:end]
        elif kind == "insert":
            found[at:at] = random.randbytes(end - at)
        else:
            del found[at:]
    return bytes(found)


def _stream(codec: int, plain: bytes, random: Random, *, broken_lz4: bool = False) -> bytes:
    stream = compress(codec, plain, broken_lz4=broken_lz4)
    kind = random.choice(("whole", "whole", "damaged", "damaged", "followed", "raw"))
    if kind == "damaged":
        return _damaged(stream, random)
    if kind == "followed":
        return stream + random.choice((stream, b"junk", bytes(30), stream[:7]))
    if kind == "raw" and codec == Codec.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(plain))
    return stream


def _some_batch(random: Random) -> bytes:
    area = (
        _damaged(RECORD + WITH_HEADERS + RECORD, random)
        if random.random() < 0.5
        else RECORD + WITH_HEADERS + RECORD
    )
    codec = random.choice(list(Codec))
    return raw_batch(
        _stream(codec, area, random),
        attributes=codec | random.choice((0, 0x08, 0x40)),
        record_count=random.choice((3, 3, 3, 2, 4, -1)),
        base_offset=random.choice((10, 2**63 - 2)),
        base_timestamp=random.choice((0, -1, 5, 2**63 - 1)),
    )


def _some_message(magic: int, random: Random) -> bytes:
    key, value = nullable(b"k"), nullable(b"v" * random.randrange(9))
    codec = random.choice((Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4))
    if codec == Codec.NONE:
        return raw_message(5, magic, key=_damaged(key, random), value=_damaged(value, random))
    plain = b"".join(
        raw_message(
            offset,
            random.choice((magic, magic, magic, 1 - magic)),
            attributes=random.choice((0, 0, 8)),
            timestamp=random.choice((7, -1, -9)),
            key=key,
            value=value,
        )
        for offset in range(random.randrange(1, 4))
    )
    if random.random() < 0.4:
        plain = _damaged(plain, random)
    stream = _stream(
        codec, plain, random, broken_lz4=random.random() < (0.9 if magic == 0 else 0.1)
    )
    return raw_message(
        random.choice((0, 1, 2, 3, 100, -1)),
        magic,
        attributes=codec | random.choice((0, 8)),
        timestamp=99,
        value=nullable(stream),
    )


def _batches(log: bytes) -> list[Batch]:
    try:
        return list(dispatch.batches(log))
    except CorruptBatch:
        return []


def _ours(log: bytes, batch: Batch) -> list[tuple[Any, ...]] | str:
    try:
        records = dispatch.records(log, batch)
    except CorruptBatch as e:
        return e.reason
    return [
        (
            r.offset,
            r.timestamp,
            _hex(r.key),
            _hex(r.value),
            [[h.key, _hex(h.value)] for h in r.headers],
        )
        for r in records
    ]


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _theirs(answer: dict[str, Any]) -> list[tuple[Any, ...]] | None:
    (batch,) = answer["batches"]
    if "records_error" in batch:
        return None
    return [
        (r["offset"], r["timestamp"], r["key"], r["value"], r.get("headers", []))
        for r in batch["records"]
    ]


def test_the_same_verdicts_and_records(tmp_path: Path) -> None:
    random = Random(20201113)
    path = tmp_path / "00000000000000000000.log"
    accepted = refused = 0
    with Judge(KAFKA, temporary=tmp_path, log=tmp_path / "judge.log") as ask:
        for _ in range(CASES):
            log = random.choice((
                _some_batch,
                lambda r: _some_message(0, r),
                lambda r: _some_message(1, r),
            ))(random)
            batches = _batches(log)
            path.write_bytes(log)
            answer = ask("dump", path, "--deep", "--hex")
            if not batches or "batches" not in answer:
                # Too short for its magic; or Java ended in an Error over a length that it believed.
                continue
            ours, theirs = _ours(log, batches[0]), _theirs(answer)
            if theirs is not None and isinstance(ours, str):
                # The one thing that we refuse and Kafka reads, as if it were magic 1.
                assert "of a message in a wrapper is not 0 or 1" in ours, log.hex()
            else:
                assert (None if isinstance(ours, str) else ours) == theirs, log.hex()
            accepted += theirs is not None
            refused += theirs is None
    assert min(accepted, refused) > CASES // 4
