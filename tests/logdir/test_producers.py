"""Producer state by replay: held to every snapshot that real brokers of 2.8 and later wrote, and to the rules by hand."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from kafkats import paths
from kafkats.errors import CorruptBatch, CorruptFile
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Record, TimestampType
from kafkats.formats.v2 import encode_batch
from kafkats.logdir import producers
from kafkats.logdir.producers import Producers, java_order, producers_at, replay, snapshot_at
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats_model.memory_source import array_source
from tests.golden import Case, Unpacked, case, cases, partitions

NEW = tuple(
    one
    for one in cases("transactions", "compaction")
    if one.kafka >= "2" and not one.name.endswith("v1")
)
"""Cases of 2.8 and later with producers: 0.11 counts a marker as its producer's last batch."""


def snapshots(partition: Path) -> list[tuple[int, bytes]]:
    return [(int(path.stem), path.read_bytes()) for path in sorted(partition.glob("*.snapshot"))]


@pytest.mark.parametrize("one", [*NEW, case("rolling-4.3.1"), case("retention-2.8.2")], ids=str)
def test_every_snapshot_of_a_real_broker_is_found_again(
    one: Case, golden: Unpacked, tmp_path: Path
) -> None:
    """From the snapshot before it, and from the first batch on. Only before the cleaner has taken some away."""
    found = producing = 0
    for partition in partitions(golden(one, one.states[0])):
        copy = tmp_path / partition.name
        shutil.copytree(partition, copy, copy_function=os.link)
        assert min(int(path.stem) for path in copy.glob("*.log")) == 0
        for offset, real in reversed(snapshots(copy)):
            (copy / paths.segment_file(offset, paths.SNAPSHOT)).unlink()
            assert snapshot_at(copy, offset) == real, f"{partition.name} at {offset}"
            found += 1
            producing += len(real) > 10
        for offset, real in snapshots(partition):  # none is left in the copy
            assert snapshot_at(copy, offset, mapped=True) == real, f"{partition.name} at {offset}"
    assert found > 5
    assert producing >= (5 if one in NEW else 0)


def log(*batches: bytes) -> object:
    return array_source(np.frombuffer(b"".join(batches), np.uint8))


def data(
    offset: int,
    *,
    count: int = 2,
    pid: int = 7,
    epoch: int = 0,
    seq: int = 0,
    txn: bool = False,
    ts: int = 50,
) -> bytes:
    records = [
        Record(offset + i, ts - i, TimestampType.CREATE_TIME, b"k", b"v") for i in range(count)
    ]
    return encode_batch(
        records, producer_id=pid, producer_epoch=epoch, base_sequence=seq, transactional=txn,
        base_offset=offset, last_offset=offset + max(count, 1) - 1,
    )  # fmt: skip


def marker(
    offset: int,
    kind: ControlType,
    *,
    pid: int = 7,
    epoch: int = 0,
    coordinator: int = 3,
    ts: int = 90,
) -> bytes:
    key, value = encode_end_marker(kind, coordinator)
    record = Record(offset, ts, TimestampType.CREATE_TIME, key, value)
    return encode_batch(
        [record], producer_id=pid, producer_epoch=epoch, transactional=True, control=True
    )


def known(*batches: bytes, **limits: int) -> Producers:
    found: Producers = {}
    replay(found, log(*batches), **limits)  # type: ignore[arg-type]
    return found


def test_a_data_batch() -> None:
    assert known(data(10, count=3, seq=4)) == {7: ProducerEntry(7, 0, 6, 12, 2, 50, -1, -1)}


def test_the_last_batch_counts_and_the_first_begins_the_transaction() -> None:
    batches = [data(10 + 2 * i, seq=2 * i, txn=True, ts=100 - i) for i in range(5)]
    assert known(*batches) == {7: ProducerEntry(7, 0, 9, 19, 1, 96, -1, 10)}


def test_sequences_begin_again_at_zero() -> None:
    assert known(data(0, count=4, seq=2**31 - 2))[7].last_sequence == 1
    assert known(data(0, seq=-1))[7].last_sequence == -1


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_ends_the_transaction_and_keeps_the_last_batch(kind: ControlType) -> None:
    assert known(data(0, txn=True), marker(2, kind)) == {7: ProducerEntry(7, 0, 1, 1, 1, 90, 3, -1)}
    assert (
        known(data(0, txn=True), marker(2, kind), data(3, seq=2, txn=True))[7].txn_first_offset == 3
    )


def test_a_new_epoch_forgets_the_last_batch() -> None:
    bumped = marker(2, ControlType.ABORT, epoch=1)
    assert known(data(0, txn=True), bumped) == {7: ProducerEntry(7, 1, -1, -1, 0, 90, 3, -1)}
    assert known(marker(0, ControlType.COMMIT)) == {7: ProducerEntry(7, 0, -1, -1, 0, 90, 3, -1)}


def test_what_compaction_left() -> None:
    emptied = encode_batch(
        [],
        base_offset=5,
        last_offset=9,
        max_timestamp=44,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
    )
    assert known(emptied) == {7: ProducerEntry(7, 1, 7, 9, 4, 44, -1, -1)}
    control = encode_batch(
        [],
        base_offset=5,
        last_offset=5,
        producer_id=8,
        producer_epoch=1,
        transactional=True,
        control=True,
    )
    assert known(control) == {8: ProducerEntry(8, -1, -1, -1, 0, -1, -1, -1)}


def test_only_batches_that_end_between_the_offsets() -> None:
    batches = [data(0, seq=0), data(2, seq=2), data(4, seq=4)]
    assert known(*batches, to_offset=4)[7].last_offset == 3
    assert known(*batches, to_offset=5)[7].last_offset == 3
    assert known(*batches, from_offset=5)[7].last_offset == 5
    assert known(*batches, from_offset=6) == {}


def test_producers_do_not_mix() -> None:
    batches = []
    for i in range(40):
        batches += [data(4 * i, pid=i % 3, seq=2 * i, txn=True), data(4 * i + 2, pid=9, seq=i)]
    found = known(*batches, marker(200, ControlType.COMMIT, pid=1))
    assert {pid: (p.last_offset, p.txn_first_offset) for pid, p in found.items()} == {
        0: (157, 0), 9: (159, -1), 1: (149, -1), 2: (153, 8)
    }  # fmt: skip
    assert list(found) == [0, 9, 1, 2]


def test_what_a_broker_would_not_load() -> None:
    with pytest.raises(CorruptBatch, match="open transaction") as caught:
        known(data(0, txn=True), data(2, seq=2))
    assert caught.value.position == len(data(0, txn=True))
    bad = encode_batch(
        [Record(2, 1, TimestampType.CREATE_TIME, b"\0", b"")],
        producer_id=7,
        producer_epoch=0,
        control=True,
    )
    with pytest.raises(CorruptBatch, match="marker that cannot be read"):
        known(bad)


def test_a_damaged_snapshot_is_passed_over(golden: Unpacked, tmp_path: Path) -> None:
    partition = golden("transactions-4.3.1", "data") / "txn-0"
    copy = tmp_path / "txn-0"
    shutil.copytree(partition, copy)
    *_, (before, _), (offset, real) = snapshots(copy)
    (copy / paths.segment_file(offset, paths.SNAPSHOT)).unlink()
    (copy / paths.segment_file(before, paths.SNAPSHOT)).write_bytes(b"\0\1damage")
    with pytest.raises(CorruptFile):
        read_snapshot(copy / paths.segment_file(before, paths.SNAPSHOT))
    assert snapshot_at(copy, offset) == real


def test_a_corrupt_log_is_named(golden: Unpacked, tmp_path: Path) -> None:
    copy = tmp_path / "txn-0"
    shutil.copytree(golden("transactions-4.3.1", "data") / "txn-0", copy)
    for path in copy.glob("*.snapshot"):
        path.unlink()
    first = min(copy.glob("*.log"))
    first.write_bytes(bytes(first.stat().st_size))
    with pytest.raises(CorruptBatch) as caught:
        producers_at(copy, 500)
    assert (caught.value.path, caught.value.position) == (str(first), 0)


def test_the_order_is_that_of_a_java_hash_map() -> None:
    def ids(*given: int) -> list[int]:
        return [
            e.producer_id
            for e in java_order({i: ProducerEntry(i, 0, 0, 0, 0, 0, 0, 0) for i in given})
        ]

    assert ids(5, 3, 1) == [1, 3, 5]
    assert ids(33, 17, 1) == [33, 17, 1], "one slot: by age"
    assert ids(16, 1) == [16, 1]
    assert ids(*range(20, 0, -1)) == list(range(1, 21)), "32 slots"
    assert ids(2**32 + 2, 1, 2**16 + 4) == [1, 2**32 + 2, 2**16 + 4]


def test_nothing_but_magic_2_has_producers(golden: Unpacked) -> None:
    partition = partitions(golden("matrix-2.8.2-v1", "data"))[0]
    end = max(int(path.stem) for path in partition.glob("*.log"))
    assert snapshot_at(partition, end) == encode_snapshot([])
    assert producers.producers_at(partition, end) == {}
    assert case("matrix-2.8.2-v1").kafka == "2.8.2"
