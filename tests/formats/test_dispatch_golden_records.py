"""Every record that real consumers read from the golden directories, decoded by us; every batch written again."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kafkats.compression import Codec
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import Batch, Record, TimestampType
from tests.golden import RECORDS_OF, Case, Unpacked, cases, partitions

TIMESTAMP_TYPES = {
    "NoTimestampType": TimestampType.NONE,
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
    None: TimestampType.NONE,
}


def _content(data: bytes | None) -> tuple[Any, ...] | None:
    """Bytes as the golden files give them: in hex, or beyond 40 bytes the hash's first digits and the size."""
    if data is None:
        return None
    return (data.hex(),) if len(data) <= 40 else (hashlib.sha256(data).hexdigest()[:16], len(data))


def _said_content(said: dict[str, Any], field: str) -> tuple[Any, ...] | None:
    if field in said:
        return None if said[field] is None else (said[field],)
    return said[f"{field}_sha256"], said[f"{field}_size"]


def _as_told(record: Record) -> tuple[Any, ...]:
    headers = [[h.key, None if h.value is None else h.value.hex()] for h in record.headers]
    return (
        record.offset, record.timestamp, record.timestamp_type, _content(record.key), _content(record.value), headers
    )  # fmt: skip


def _as_said(said: dict[str, Any]) -> tuple[Any, ...]:
    return (
        said["offset"],
        -1 if said["timestamp"] is None else said["timestamp"],
        TIMESTAMP_TYPES[said["timestamp_type"]],
        _said_content(said, "key"),
        _said_content(said, "value"),
        said.get("headers", []),
    )


def _encode(batch: Batch, records: list[Record]) -> bytes:
    if batch.magic == v0.MAGIC:
        return v0.encode_batch(records, codec=batch.codec)
    appended = (
        batch.max_timestamp if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else None
    )
    if batch.magic == v1.MAGIC:
        return v1.encode_batch(records, codec=batch.codec, log_append_time=appended)
    return v2.encode_batch(
        records,
        codec=batch.codec,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        log_append_time=appended,
        max_timestamp=batch.max_timestamp,
        delete_horizon_ms=batch.delete_horizon_ms,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.transactional,
        control=batch.control,
    )


def _gives_the_same_bytes(batch: Batch) -> bool:
    """Whether our encoder must: not where readers lose the original timestamps, nor with another codec library.

    lz4, snappy and zstd differ from one library version to the next; zlib has not for all these brokers.
    """
    kept = batch.timestamp_type != TimestampType.LOG_APPEND_TIME or (batch.magic, batch.codec) == (
        1,
        Codec.NONE,
    )
    return kept and batch.codec in {Codec.NONE, Codec.GZIP}


class Partition:
    """All segments of one partition, decoded; `damaged` where a segment ended in corruption."""

    def __init__(self, folder: Path) -> None:
        self.records: list[Record] = []
        self.epochs: list[int] = []
        self.damaged = False
        for log in sorted(folder.glob("*.log")):
            try:
                self._read(log.read_bytes())
            except CorruptBatch:
                self.damaged = True

    def _read(self, log: bytes) -> None:
        for batch in dispatch.batches(log):
            records = dispatch.records(log, batch)
            self._check(log, batch, records)
            if not batch.control:
                self.records += records
                self.epochs += [batch.leader_epoch] * len(records)

    def _check(self, log: bytes, batch: Batch, records: list[Record]) -> None:
        raw = log[batch.position : batch.end]
        if _gives_the_same_bytes(batch):
            assert _encode(batch, records) == raw
        if records and (batch.magic < v2.MAGIC or batch.base_offset == records[0].offset):
            assert dispatch.first_offset(log, batch) == records[0].offset
        if batch.magic < v2.MAGIC:
            assert batch.last_offset == records[-1].offset


@pytest.mark.examples(by="kind")
@pytest.mark.parametrize("one", cases(), ids=repr)
def test_decodes_to_what_the_consumer_read(one: Case, golden: Unpacked) -> None:
    compared = 0
    for state, label in RECORDS_OF.get(one.kind, {"data": "records"}).items():
        if state in one.states:
            compared += _compare(one, golden(one, state), label)
    assert compared > 0


def _compare(one: Case, root: Path, label: str) -> int:
    told = defaultdict(list)
    for said in one.records(label):
        told[said["tp"]].append(said)
    compared = 0
    for folder in partitions(root):
        facts = one.info["partitions"].get(folder.name, {}).get(label)
        if facts is None:
            continue
        ours, theirs = Partition(folder), told[folder.name]
        # A clean-shutdown marker beside a torn tail sets the log end back below records that are still there.
        readable = range(facts["log_start_offset"], facts["log_end_offset"])
        mine = {
            r.offset: (_as_told(r), epoch)
            for r, epoch in zip(ours.records, ours.epochs, strict=True)
        }
        if not ours.damaged and facts["consumer"].startswith(f"{len(theirs)} records, position"):
            assert [r.offset for r in ours.records if r.offset in readable] == [
                said["offset"] for said in theirs
            ]
        for said in theirs:
            if said["offset"] in mine or not ours.damaged:
                record, epoch = mine[said["offset"]]
                assert record == _as_said(said), folder
                assert epoch == said.get("leader_epoch", epoch)
                compared += 1
    return compared
