"""A partition that no golden case has: all formats, open and ended transactions, what compaction leaves, and codecs that stand in the way.

    segment  0  magic 0 and 1, plain and in wrappers, CreateTime and LogAppendTime
    segment 40  an aborted and a committed transaction, lz4, with headers
    segment 60  an aborted transaction, zstd: it cannot be in magic 0 or 1
    segment 80  holes, an empty batch for its producer's sake, a delete horizon
    segment 120 an idempotent producer, a transaction still open, and as the log's last batch a marker

Our encoders write the logs, and Kafka itself the files beside them, as after a crash.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from conformance.batches import STAMP
from conformance.judge import Judge
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Codec, Header, Record, TimestampType
from tests.golden import Case

PARTITION = "mixture-0"


class Mixture(Case):
    """Stands where a golden case stands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "made-mixture"
        self.kind = "made"
        self.kafka = "4.3.1"
        self.states = ["data"]
        config = {"index.interval.bytes": "100"}
        self.info: dict[str, Any] = {
            "topics": {"mixture": {"config": config}},
            "partitions": {},
            "brokers": [{}],
        }

    def make(self, judge: Judge) -> None:
        """Write it; `judge` is of Kafka 4."""
        logs = self.folder / "logs" / PARTITION
        logs.mkdir(parents=True)
        for base, data in _segments().items():
            (logs / f"{base:020d}.log").write_bytes(data)
        words = ("--clean", "false", "--now", STAMP, "--config", "index.interval.bytes=100")
        made = judge("load", logs, "--out", self.folder / "data", *words)
        for path in Path(made["dir"]).iterdir():
            os.utime(path, (STAMP // 1000, STAMP // 1000))
        (self.folder / "data" / ".kafka_cleanshutdown").touch()

    def unpack(self, state: str, to: Path) -> Path:
        return Path(shutil.copytree(self.folder / state, to, dirs_exist_ok=True))


def _segments() -> dict[int, bytes]:
    r, of_77 = _records, {"producer_id": 77, "producer_epoch": 1, "leader_epoch": 3}
    in_77 = of_77 | {"transactional": True}
    return {
        0: b"".join((
            v0.encode_batch(r(0, 4)),
            v0.encode_batch(r(4, 8), codec=Codec.SNAPPY),
            v1.encode_batch(r(8, 12)),
            v1.encode_batch(r(12, 20, 2), codec=Codec.GZIP),
            v1.encode_batch(r(20, 30), codec=Codec.LZ4, log_append_time=STAMP - 5, stamp_inner=False),
            v1.encode_batch(r(30, 33), log_append_time=STAMP - 4),
            v2.encode_batch(r(33, 40), codec=Codec.GZIP, leader_epoch=2, log_append_time=STAMP - 3),
        )),
        40: b"".join((
            v2.encode_batch(r(40, 45, headers=True), codec=Codec.LZ4, base_sequence=0, **in_77),
            _marker(45, 0, in_77),
            v2.encode_batch(r(46, 50), codec=Codec.LZ4, base_sequence=5, **in_77),
            _marker(50, 1, in_77),
        )),
        60: b"".join((
            v2.encode_batch(r(60, 70), codec=Codec.ZSTD, base_sequence=9, **in_77),
            _marker(70, 0, in_77),
            v2.encode_batch(r(71, 75), codec=Codec.NONE, leader_epoch=3),
        )),
        80: b"".join((
            v2.encode_batch(r(82, 92, 3), base_offset=80, last_offset=95, leader_epoch=4),
            v2.encode_batch([], base_offset=96, last_offset=99, producer_id=5, producer_epoch=0, base_sequence=2, max_timestamp=STAMP - 9),
            v2.encode_batch(r(100, 104), codec=Codec.GZIP, delete_horizon_ms=STAMP, leader_epoch=4),
        )),
        120: b"".join((
            v2.encode_batch(r(120, 130), base_sequence=0, producer_id=6, producer_epoch=0, leader_epoch=4),
            v2.encode_batch(
                r(130, 133), base_sequence=0, producer_id=8, producer_epoch=0, leader_epoch=4, transactional=True
            ),
            v2.encode_batch(r(133, 135), codec=Codec.SNAPPY, base_sequence=19, **in_77),
            _marker(135, 1, in_77),
        )),
    }  # fmt: skip


def _records(first: int, end: int, step: int = 1, *, headers: bool = False) -> list[Record]:
    more = (Header("h", b"x"), Header("n", None)) if headers else ()
    return [
        Record(
            at,
            STAMP - 1000 + at,
            TimestampType.CREATE_TIME,
            b"k%d" % at,
            None if at % 7 == 0 else b"v" * at,
            more,
        )
        for at in range(first, end, step)
    ]


def _marker(offset: int, kind: int, producer: dict[str, Any]) -> bytes:
    record = Record(offset, STAMP, TimestampType.CREATE_TIME, bytes((0, 0, 0, kind)), bytes(6))
    return v2.encode_batch([record], control=True, **producer)
