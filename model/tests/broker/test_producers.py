"""Producer state: sequences, epochs, transactions, and the snapshots that restarts begin with. Kafka's own answers are compared by conformance/sequences.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.errors import BadInput, UsageError
from kafkats.formats import v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.index import txn_index
from kafkats.logdir.producers import snapshot_at
from kafkats.logdir.snapshot import ProducerEntry, read_snapshot
from kafkats_model.broker.generation import generation
from kafkats_model.broker.markers import EndMarker
from kafkats_model.broker.partition_log import DUPLICATE, PartitionLog, create
from kafkats_model.broker.replay import BEGIN_MS, Row, replay
from kafkats_model.broker.requests import fetch
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.broker.starting import start
from kafkats_model.errors import Rejected
from model.tests.builders.replays import broker, step

NOW = 1_700_000_000_000
ONE = [{"timestamp": BEGIN_MS, "value": "x"}]
P = 7
MOST = 2**31 - 1


def log_of(directory: Path, kafka: str = "4.3", **config: str | int) -> PartitionLog:
    rules = generation(kafka)
    return create(directory, topic_of(settings_from(config), rules), rules, NOW)


def sent(log: PartitionLog, sequence: int, *, count: int = 1, epoch: int = 0, transactional: bool = False, producer: int = P) -> tuple[int, int, str]:  # fmt: skip
    records = [
        Record(n, NOW + sequence % 1000, TimestampType.CREATE_TIME, b"k", b"v")
        for n in range(count)
    ]
    data = v2.encode_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)  # fmt: skip
    made = log.append_as_leader(data, now_ms=NOW, leader_epoch=0)
    return made.first_offset, made.last_offset, made.how


def rejected(log: PartitionLog, sequence: int, **fields: int) -> str:
    before = log.log_end_offset
    with pytest.raises(Rejected) as e:
        sent(log, sequence, **fields)  # type: ignore[arg-type]
    assert log.log_end_offset == before and e.value.position == 0
    return e.value.error


def snapshots(log: PartitionLog) -> dict[int, list[ProducerEntry]]:
    return {int(p.name[:20]): read_snapshot(p) for p in sorted(log.directory.glob("*.snapshot"))}


def test_the_last_five_batches_are_known_again(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0")
    for n in range(7):
        assert sent(log, 2 * n, count=2) == (2 * n, 2 * n + 1, "in place")
    size = log.active.size
    for n in range(2, 7):
        assert sent(log, 2 * n, count=2) == (2 * n, 2 * n + 1, DUPLICATE)
    assert (log.active.size, log.log_end_offset) == (size, 14)
    assert rejected(log, 2, count=2) == rejected(log, 12, count=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_sequences_and_epochs(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0")
    assert sent(log, 41)[2] == "in place", "the first batch that is seen may have any sequence"
    assert rejected(log, 43) == rejected(log, 40) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert rejected(log, 42, epoch=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert sent(log, 0, epoch=2)[2] == "in place"
    assert rejected(log, 42) == "INVALID_PRODUCER_EPOCH"
    assert sent(log, MOST, producer=8)[2] == sent(log, 0, producer=8)[2] == "in place"


def test_a_transaction(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0")
    sent(log, 0, transactional=True, producer=9)
    sent(log, 0, transactional=True)
    sent(log, 1, transactional=True)
    assert rejected(log, 2) == "INVALID_TXN_STATE"
    for one, name in (((P, 0, False, 5), ""), ((P, 0, True, 4), "TRANSACTION_COORDINATOR_FENCED"), ((9, 0, True, 5), "")):  # fmt: skip
        try:
            log.end_transaction(EndMarker(*one), now_ms=NOW, leader_epoch=0)
        except Rejected as e:
            assert e.error == name
        else:
            assert not name
    entries = txn_index.read(log.active.path(paths.TXN_INDEX))
    assert [tuple(map(int, e)) for e in entries] == [(0, P, 1, 3, 0)], (
        "the other one is open since 0"
    )
    assert sent(log, 2)[2] == "in place"
    log.truncate(3, NOW)
    assert log.active.path(paths.TXN_INDEX).read_bytes() == b""
    log.truncate(2, NOW)
    log.close(NOW)
    assert {e.producer_id: e.txn_first_offset for e in snapshots(log)[2]} == {P: 1, 9: 0}


def test_snapshots_at_each_roll_and_at_the_stop(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", **{"retention.bytes": 1})
    for n in range(4):
        sent(log, n)
        if n < 3:
            log.roll(log.log_end_offset, NOW)
    assert list(snapshots(log)) == [1, 2, 3]
    log.close(NOW)
    assert list(snapshots(log)) == [1, 2, 3, 4]
    for offset, name in ((o, paths.segment_file(o, paths.SNAPSHOT)) for o in (1, 2, 3, 4)):
        assert (log.directory / name).read_bytes() == snapshot_at(log.directory, offset)
    log.high_watermark = 4
    log.delete_old_segments(NOW)
    assert list(snapshots(log)) == [3, 4]


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_knows_what_snapshot_and_log_say(clean: bool, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0")
    for n in range(3):
        sent(log, n)
    sent(log, 0, transactional=True, producer=9)
    log.end_transaction(EndMarker(9, 0, False, 0), now_ms=NOW, leader_epoch=0)
    aborted = log.active.path(paths.TXN_INDEX).read_bytes()
    if clean:
        log.close(NOW)
    again = start(log, log.topic, log.generation, NOW, clean=clean)
    assert again.active.path(paths.TXN_INDEX).read_bytes() == aborted != b""
    assert list(snapshots(again)) == [5]
    assert sent(again, 2) == (2, 2, DUPLICATE)
    assert rejected(again, 1) == "OUT_OF_ORDER_SEQUENCE_NUMBER", (
        "a snapshot has only the last batch"
    )
    assert sent(again, 3)[2] == "in place"
    later = start(again, again.topic, again.generation, NOW + 10**9, clean=False)
    assert sent(later, 99)[2] == "in place", "the producer has expired"


@pytest.mark.parametrize("kafka", ["0.10.2", "kip"])
def test_older_brokers_have_no_producers(kafka: str, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", kafka)
    message = v1.encode_batch([Record(0, NOW, TimestampType.CREATE_TIME, b"k", b"v")])
    log.append_as_leader(message, now_ms=NOW, leader_epoch=0)
    log.roll(log.log_end_offset, NOW)
    log.close(NOW)
    assert not snapshots(log) and log.producers is None
    with pytest.raises(Rejected, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
        log.end_transaction(EndMarker(P, 0, True, 0), now_ms=NOW, leader_epoch=0)


def played(folder: Path, *steps: dict[str, Any]) -> list[Row]:
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in steps))
    return replay(path, folder / "out")


def produce(sequence: int, *, epoch: int = 0, transactional: bool = False) -> dict[str, object]:
    producer = {"id": P, "epoch": epoch, "sequence": sequence, "transactional": transactional}
    return step("produce", version=7, records=ONE, producer=producer)


def test_a_script(tmp_path: Path) -> None:
    end = {"producer": P, "commit": False}
    rows: list[Row] = played(
        tmp_path,
        broker("1", "2.8.2"),
        broker("2", "2.8.2"),
        step("create"),
        step("create", "2"),
        produce(0, transactional=True),
        produce(0, transactional=True),
        produce(2, transactional=True),
        step("end-transaction", **end),
        step("end-transaction", **end, producer_epoch=3),
        produce(0, epoch=2),
        step("replicate", "2", leader="1"),
    )
    assert [row["outcome"] for row in rows[4:]] == ["in place", DUPLICATE, "rejected", "done", "done", "rejected", "as it is"]  # fmt: skip
    assert (rows[5]["first_offset"], rows[5]["timestamp"], rows[5]["bytes"]) == (0, BEGIN_MS, 0)
    assert str(rows[9]["error"]).startswith(
        "INVALID_PRODUCER_EPOCH: epoch 2 of producer 7, after 3"
    )
    for kind in (".snapshot", ".txnindex"):
        ours, theirs = (sorted((tmp_path / f"out/broker-{n}/t-0").glob(f"*{kind}")) for n in "12")
        assert [p.read_bytes() for p in ours] == [p.read_bytes() for p in theirs] != []


def test_a_producer_needs_version_3(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 3: a producer id needs produce version 3"):
        played(tmp_path, broker("1", "2.8.2"), step("create"), {**produce(0), "version": 2})


def test_an_abort_without_a_transaction_has_an_entry_before_2_8(tmp_path: Path) -> None:
    for kafka, entries in (("2.8", 0), ("2.7", 1)):
        log = log_of(tmp_path / kafka / "t-0", kafka)
        log.end_transaction(EndMarker(P, 0, False, 0), now_ms=NOW, leader_epoch=0)
        path = log.active.path(paths.TXN_INDEX)
        assert (len(txn_index.read(path)) if path.exists() else 0) == entries


@pytest.mark.parametrize(
    ("kafka", "error"),
    [("2.5", ""), ("2.4", "UNKNOWN_PRODUCER_ID"), ("0.11.0", "OUT_OF_ORDER_SEQUENCE_NUMBER")],
)
def test_the_first_sequence_of_a_producer_by_release(
    tmp_path: Path, kafka: str, error: str
) -> None:
    log = log_of(tmp_path / "t-0", kafka)
    assert (rejected(log, 41) if error else "") == error
    assert sent(log, 42 if not error else 0)[2] == "in place"


def test_producers_are_judged_before_the_roll_up_to_2_3(tmp_path: Path) -> None:
    for kafka, bases in (("2.4", [0, 1]), ("2.3", [0])):
        log = log_of(tmp_path / kafka / "t-0", kafka, **{"segment.bytes": 100})
        sent(log, 0)
        rejected(log, 2)
        assert [one.base_offset for one in log.segments] == bases


def test_an_empty_segment_is_not_rolled_before_2_1(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", "2.0")
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR"):
        log.roll(0, NOW)
    log_of(tmp_path / "t-1", "2.1").roll(0, NOW)


@pytest.mark.parametrize(("kafka", "lost"), [("2.0", True), ("2.1", False)])
def test_a_filled_segment_is_not_rolled_at_its_own_offset(
    kafka: str, lost: bool, tmp_path: Path
) -> None:
    """An index can mislead a start to a log end below the last batch. To 2.1.0 all is lost then."""
    log = log_of(tmp_path / "t-0", kafka, **{"index.interval.bytes": 0})
    for sequence in range(3):
        sent(log, sequence)
    log.log_end_offset = 0
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR: a segment at 0 is there already"):
        log.roll(0, NOW)
    index = log.active.path(paths.OFFSET_INDEX).read_bytes()
    size = log.active.path(paths.LOG).stat().st_size
    assert log.active.size == size
    assert (size == 0, index == bytes(16)) == (lost, lost)
    assert log.active.largest.timestamp == (0 if lost else NOW + 2)
    log.close(NOW)
    again = start(log, log.topic, log.generation, NOW, clean=True)
    assert again.log_end_offset == (0 if lost else 3)


def test_an_index_entry_below_the_last_one_fails_the_append(tmp_path: Path) -> None:
    """After a start that the index has misled. As in Kafka, the batch is in the log then."""
    log = log_of(tmp_path / "t-0", "1.1.1", **{"index.interval.bytes": 0})
    for sequence in range(3):
        sent(log, sequence)
    log.close(NOW)
    log = start(log, log.topic, log.generation, NOW, clean=True)
    size, log.log_end_offset = log.active.size, 2
    sent(log, 0, producer=8)
    log.log_end_offset = 2
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR: an index entry of 2 after 2"):
        sent(log, 0, producer=9)
    assert (log.active.size, log.log_end_offset) == (size // 3 * 5, 2)


def test_a_time_index_entry_below_the_last_one_fails_the_roll(tmp_path: Path) -> None:
    """After a start that the index has misled. A stop goes on without the entry, as in Kafka."""
    log = log_of(tmp_path / "t-0", "0.11.0", **{"index.interval.bytes": 0})
    for sequence in range(3):
        sent(log, sequence)
    log.close(NOW)
    log = start(log, log.topic, log.generation, NOW, clean=True)
    log.log_end_offset = 1
    late = Record(1, NOW + 50, TimestampType.CREATE_TIME, b"k", b"v")
    log.append_as_follower(v2.encode_batch([late]), now_ms=NOW)
    entries = log.active.time_entries
    with pytest.raises(Rejected, match="UNKNOWN_SERVER_ERROR: an index entry of 1 after 2"):
        log.roll(0, NOW)
    log.close(NOW)
    assert (len(log.segments), log.active.time_entries) == (1, entries)


@pytest.mark.parametrize(("kafka", "known"), [("2.4", {P}), ("2.3", set())])
def test_a_start_forgets_producers_below_the_log_start(
    kafka: str, known: set[int], tmp_path: Path
) -> None:
    """Also those of a snapshot above it, up to 2.3."""
    log = log_of(tmp_path / "t-0", kafka)
    sent(log, 0)
    log.append_as_follower(v2.encode_batch([Record(1, NOW, TimestampType.CREATE_TIME, b"k", b"v")], leader_epoch=0), now_ms=NOW)  # fmt: skip
    log.close(NOW)
    log.log_start_offset = 1
    log = start(log, log.topic, log.generation, NOW, clean=True)
    assert log.producers is not None
    assert {*log.producers._producers} == known


@pytest.mark.parametrize(
    ("epoch", "coordinator", "error"),
    [(0, 1, "INVALID_PRODUCER_EPOCH"), (1, 0, "TRANSACTION_COORDINATOR_FENCED")],
)
def test_a_start_judges_markers_up_to_2_4_0(
    epoch: int, coordinator: int, error: str, tmp_path: Path
) -> None:
    """A producer that was forgotten can have an older one: its segment is still read from its start."""
    for kafka, starts in (("2.4.0", False), ("2.4.1", True)):
        log = log_of(tmp_path / kafka / "t-0", kafka)
        log.end_transaction(EndMarker(P, 1, True, 1), now_ms=NOW, leader_epoch=0)
        assert log.producers is not None
        log.producers.clear(1)
        log.end_transaction(EndMarker(P, epoch, True, coordinator), now_ms=NOW, leader_epoch=0)
        log.recovery_point = 0
        if starts:
            assert start(log, log.topic, log.generation, NOW, clean=False).log_end_offset == 2
            continue
        with pytest.raises(BadInput, match=f"Kafka 2.4.0 does not load it: {error}"):
            start(log, log.topic, log.generation, NOW, clean=False)


def test_batches_below_the_log_start_stay_known_up_to_2_3(tmp_path: Path) -> None:
    """Those of a producer that has one above it. One without is forgotten."""
    log = log_of(tmp_path / "t-0", "2.3")
    first = sent(log, 0)
    sent(log, 0, producer=8)
    sent(log, 1)
    log.high_watermark = 3
    log.delete_records(2, NOW)
    assert sent(log, 0) == (*first[:2], DUPLICATE)
    assert sent(log, 0, producer=8) == (3, 3, "in place")


def test_up_to_0_11_one_batch_is_known_again(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", "0.11.0")
    for n in range(2):
        sent(log, n)
    assert sent(log, 1) == (1, 1, DUPLICATE)
    assert rejected(log, 0) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize(("kafka", "again"), [("0.11.0", 2), ("1.0", 1)])
def test_up_to_0_11_a_marker_is_the_last_batch(kafka: str, again: int, tmp_path: Path) -> None:
    """With the sequence of the batch before, so that batch is found at the marker's offset."""
    log = log_of(tmp_path / "t-0", kafka)
    sent(log, 0, transactional=True)
    sent(log, 1, transactional=True)
    log.end_transaction(EndMarker(P, 0, False, 1), now_ms=NOW + 5, leader_epoch=0)
    assert sent(log, 1, transactional=True) == (again, again, DUPLICATE)
    log.close(NOW)
    (entry,) = snapshots(log)[3]
    timestamp = NOW + 5 if again == 2 else NOW + 1
    assert (entry.last_sequence, entry.last_offset, entry.offset_delta) == (1, again, 0)
    assert entry.timestamp == timestamp


@pytest.mark.parametrize(
    ("kafka", "flushed", "recovered"),
    [("0.11.0", [2, 3, 4], [3, 4]), ("1.0", [1, 2, 3, 4], [2, 3, 4])],
)
def test_snapshots_of_a_flush_and_of_a_recovery(
    kafka: str, flushed: list[int], recovered: list[int], tmp_path: Path
) -> None:
    """Up to 0.11 a flush deletes those below the last two segments, and a recovery writes none before it."""
    log = log_of(tmp_path / "t-0", kafka)
    for n in range(4):
        sent(log, n)
        if n < 3:
            log.roll(log.log_end_offset, NOW)
    log.close(NOW)
    assert list(snapshots(log)) == flushed
    for offset in flushed:
        (log.directory / paths.segment_file(offset, paths.SNAPSHOT)).unlink()
    log.recovery_point = 2
    start(log, log.topic, log.generation, NOW, clean=False)
    assert list(snapshots(log)) == recovered


@pytest.mark.parametrize(("kafka", "left"), [("0.11.0", False), ("1.0", True)])
def test_a_transaction_index_of_no_transactions(kafka: str, left: bool, tmp_path: Path) -> None:
    """A recovery empties it. Up to 0.11 a start has deleted that of the active segment before."""
    log = log_of(tmp_path / "t-0", kafka)
    sent(log, 0, transactional=True)
    log.end_transaction(EndMarker(P, 0, False, 1), now_ms=NOW, leader_epoch=0)
    log.truncate(1, NOW)
    path = log.active.path(paths.TXN_INDEX)
    assert path.read_bytes() == b""
    start(log, log.topic, log.generation, NOW, clean=False)
    assert path.exists() == left


@pytest.mark.parametrize(("kafka", "bases", "ends"), [("2.2", [3], (3, 3)), ("2.1", [0], (3, 2))])
def test_a_log_that_ends_below_its_log_start(
    kafka: str, bases: list[int], ends: tuple[int, int], tmp_path: Path
) -> None:
    """From 2.2.1 on it is emptied. Before, it stays."""
    log = log_of(tmp_path / "t-0", kafka)
    for sequence in range(2):
        sent(log, sequence)
    log.log_start_offset = 3
    log = start(log, log.topic, log.generation, NOW, clean=False)
    assert [one.base_offset for one in log.segments] == bases
    assert (log.log_start_offset, log.log_end_offset) == ends
    assert fetch(log, 4, ends[1], 100).data == b""
    with pytest.raises(Rejected, match="OFFSET_OUT_OF_RANGE"):
        fetch(log, 4, 0, 100)


def test_the_recovery_point_of_a_start_and_of_a_log_start(tmp_path: Path) -> None:
    for kafka, moved, loaded in (("2.8", 2, 2), ("2.7", 2, 3), ("2.3", 0, 3)):
        log = log_of(tmp_path / kafka / "t-0", kafka)
        for sequence in range(3):
            sent(log, sequence)
        log.high_watermark = 3
        log.delete_records(2, NOW)
        assert log.recovery_point == moved
        log = start(log, log.topic, log.generation, NOW, clean=False)
        assert log.recovery_point == loaded


def test_a_start_fails_at_a_batch_outside_of_the_transaction(tmp_path: Path) -> None:
    """A producer that was forgotten can send one: its segment is still read from its start."""
    log = log_of(tmp_path / "t-0", "0.11.0")
    sent(log, 0, transactional=True)
    assert log.producers is not None
    log.producers.clear(1)
    sent(log, 0)
    log.recovery_point = 0
    with pytest.raises(BadInput, match=r"Kafka 0\.11\.0 does not load it: INVALID_TXN_STATE"):
        start(log, log.topic, log.generation, NOW, clean=False)


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ({}, {"base_sequence": 1}, ""),
        ({}, {"base_sequence": 2}, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ({}, {"producer_epoch": 1, "base_sequence": 1}, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ({}, {"producer_epoch": 1}, ""),
        ({"producer_epoch": 1}, {}, "INVALID_PRODUCER_EPOCH"),
        ({"transactional": True}, {"base_sequence": 1}, "INVALID_TXN_STATE"),
    ],
)
def test_a_set_of_several_batches_of_a_producer(
    first: dict[str, Any], second: dict[str, Any], error: str, tmp_path: Path
) -> None:
    """Up to 2.3 a set can have them. The second follows the first, not what was appended before."""
    log = log_of(tmp_path / "t-0", "2.3.1")
    record = Record(0, NOW, TimestampType.CREATE_TIME, b"k", b"v")
    base = {"producer_id": P, "producer_epoch": 0, "base_sequence": 0}
    batches = [v2.encode_batch([record], **base | fields) for fields in (first, second)]
    try:
        log.append_as_leader(b"".join(batches), now_ms=NOW, leader_epoch=0)
    except Rejected as e:
        assert (e.error, e.position, log.log_end_offset) == (error, len(batches[0]), 0)
    else:
        assert (error, log.log_end_offset) == ("", 2)
