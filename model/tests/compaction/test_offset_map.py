"""The offset map holds what a dict holds, grows, and is full at the number of keys that fit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from kafkats_model.compaction.offset_map import OffsetMap
from kafkats_model.kernels import compaction as k


def test_a_dict() -> None:
    random, known, offsets = Random(1), dict[bytes, int](), OffsetMap()
    for offset in range(20_000):
        key = random.randbytes(random.choice((0, 1, 2, 7, 8, 9, 16, 40)))
        known[key] = offset
        assert offsets.put(key, offset)
    assert all(offsets.get(key) == offset for key, offset in known.items())
    assert offsets.get(b"none of them") == -1
    assert offsets.latest_offset == 19_999
    assert len(offsets.table) > 1024, "it has grown"


def test_keys_that_differ_in_length_or_zeros_only() -> None:
    offsets = OffsetMap()
    keys = [bytes(n) for n in range(40)] + [b"\0" * n + b"\1" for n in range(40)]
    for offset, key in enumerate(keys):
        offsets.put(key, offset)
    assert [offsets.get(key) for key in keys] == list(range(80))


@pytest.mark.parametrize("seed", range(3))
def test_short_keys_never_collide(seed: int) -> None:
    """All keys of up to two bytes, under several seeds: they differ in few bits."""
    offsets = OffsetMap()
    offsets.state[k.SEED], offsets.state[k.SEED_2] = seed, seed * 7
    keys = [n.to_bytes(size, "big") for size in (0, 1, 2) for n in range(1 << 8 * size)]
    log = b"".join(
        v2.encode_batch([
            Record(n, 5, TimestampType.CREATE_TIME, keys[n], b"")
            for n in range(at, min(at + 500, len(keys)))
        ])
        for at in range(0, len(keys), 500)
    )
    assert offsets.fill(np.frombuffer(log, np.uint8), 0, lambda batch: False)
    assert offsets.state[k.KEYS] == len(keys)
    assert [offsets.get(key) for key in keys[:600]] == list(range(600))


def test_full() -> None:
    offsets = OffsetMap(2)
    assert offsets.put(b"a", 0) and offsets.put(b"a", 1) and offsets.put(b"b", 2)
    assert not offsets.put(b"b", 3), "as in Kafka: even a known key does not fit any more"
    assert offsets.latest_offset == 2


def test_fill() -> None:
    records = [
        Record(n, 5, TimestampType.CREATE_TIME, b"k%d" % (n % 3000), b"v") for n in range(9000)
    ]
    log = b"".join(v2.encode_batch(records[n : n + 90]) for n in range(0, 9000, 90))
    offsets = OffsetMap()
    assert offsets.fill(np.frombuffer(log, np.uint8), 100, lambda batch: False)
    assert [offsets.get(b"k%d" % n) for n in (0, 99, 2999)] == [6000, 6099, 8999]
    assert offsets.latest_offset == 8999
    late = OffsetMap(10)
    assert not late.fill(np.frombuffer(log, np.uint8), 8950, lambda batch: False)
    assert (late.latest_offset, late.get(b"k2950"), late.get(b"k2949")) == (8959, 8950, -1)
