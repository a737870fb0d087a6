"""Latency to a broker: from the one place in a header that keeps both times, and from the times of files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from kafkats.formats import v1, v2
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.lookup.latency import LATENCY, latency, most_ms
from kafkats.lookup.partitions import lookup_partitions
from tests.golden import Unpacked, case

T0 = 1_600_000_000_000


def batch(offset: int, created: int, appended: int | None = None, magic: int = 2) -> bytes:
    records = [Record(offset, created, TimestampType.CREATE_TIME, None, b"value")]
    encode = v2.encode_batch if magic == 2 else v1.encode_batch
    return encode(records, codec=Codec.NONE, log_append_time=appended)


def in_place(data: bytes, created: int) -> bytes:
    """As a leader leaves it that writes nothing anew: the header's first time stays the producer's."""
    changed = bytearray(data)
    changed[27:35] = created.to_bytes(8, "big", signed=True)
    return bytes(changed)  # the checksum is not looked at here


def partition(root: Path, name: str, data: bytes, mtime_ms: int = T0) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    log = folder / f"{0:020d}.log"
    log.write_bytes(data)
    os.utime(log, ns=(mtime_ms * 10**6,) * 2)
    return folder


def test_append_time(tmp_path: Path) -> None:
    delays = list(range(0, 1000, 10))
    data = b"".join(in_place(batch(n, T0, T0 + delay), T0) for n, delay in enumerate(delays))
    (row,) = latency(lookup_partitions([partition(tmp_path, "t-4", data)])).to_pylist()
    others = np.array(delays[1:])
    assert row == {
        "topic": "t", "partition": 4, "source": "append-time", "samples": 99, "same": 1, "unknown": 0, "least_ms": 10,
        "median_ms": int(np.percentile(others, 50, method="higher")), "p99_ms": 990, "most_ms": 990, "reason": "",
    }  # fmt: skip


def test_what_keeps_no_create_time_is_counted(tmp_path: Path) -> None:
    data = (
        batch(0, T0, T0 + 5, magic=1)
        + in_place(batch(1, -1, T0 + 5), -1)
        + in_place(batch(2, T0, T0 + 7), T0)
    )
    (row,) = latency(lookup_partitions([partition(tmp_path, "t-0", data)])).to_pylist()
    assert (row["samples"], row["unknown"], row["same"], row["most_ms"]) == (1, 2, 0, 7)


def test_mtime(tmp_path: Path) -> None:
    late = partition(tmp_path, "late-0", batch(0, T0 - 90) + batch(1, T0 - 30))
    ahead = partition(tmp_path, "ahead-0", batch(0, T0 + 40, magic=1))
    bare = partition(tmp_path, "bare-0", batch(0, -1))
    table = latency([unit for path in (late, ahead, bare) for unit in lookup_partitions([path])])
    assert table.schema == LATENCY
    found = {
        row["topic"]: (row["source"], row["samples"], row["most_ms"]) for row in table.to_pylist()
    }
    assert found == {"late": ("mtime", 1, 30), "ahead": ("mtime", 1, -40), "bare": ("", 0, 0)}
    assert most_ms(table, "mtime") == 30
    assert most_ms(table) == 0


def test_unreadable_is_a_row(tmp_path: Path) -> None:
    folder = partition(tmp_path, "t-0", batch(0, T0 - 5) + b"\x00" * 8 + b"\xff" * 20)
    (row,) = latency(lookup_partitions([folder])).to_pylist()
    assert row["reason"]


def test_real_batches_keep_both_times(golden: Unpacked) -> None:
    """In place, whatever the codec; wrappers of magic 1 keep the CreateTime inside only."""
    new, old = case("matrix-4.3.1-v2"), case("matrix-2.8.2-v1")
    rows = latency(lookup_partitions([golden(new, new.states[-1])])).to_pylist()
    for row in rows:
        lat = row["topic"].endswith("-lat")
        assert row["source"] == ("append-time" if lat else "mtime")
        assert row["samples"] > 0
        assert row["least_ms"] > 10**11  # made up to six years after their CreateTime
    older = latency(lookup_partitions([golden(old, old.states[-1])])).to_pylist()
    assert all(
        row["unknown"] > 0 and not row["samples"] for row in older if row["topic"].endswith("-lat")
    )
