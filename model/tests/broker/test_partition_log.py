"""A partition as a broker keeps it: the same files as real brokers wrote, and cuts that leave what was there before."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import dispatch, v1, v2
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.logdir.checkpoints import EpochStart, read_epochs
from kafkats.logdir.partition import log_bases
from kafkats.segment.reader import read_so_far
from kafkats_model.broker.files import delete_segment
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.requests import list_offsets
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.broker.starting import start
from kafkats_model.errors import Rejected
from tests.golden import Unpacked, case

NOW = 1_700_000_000_000
WRITTEN = (
    *(("rolling-4.3.1", f"by-{word}-0") for word in ("bytes", "index", "lat", "ms", "ms-exact", "ms-future", "ms-jump", "ms-old", "timeindex")),
    *(("rolling-2.8.2", f"by-{word}-0") for word in ("bytes", "index", "lat", "ms", "ms-exact", "ms-jump", "timeindex")),
    ("follower-4.1.0", "both-up-0"),
    ("follower-2.8.2", "both-up-0"),
)  # fmt: skip
"""Partitions whose broker got one batch with each append."""
KINDS = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)


def of_golden(name: str, partition: str, directory: Path) -> PartitionLog:
    one = case(name)
    kafka = generation(one.kafka)
    return create(directory, topic_of(settings_from(one.topic_config(partition)), kafka), kafka, 1)


@pytest.mark.parametrize(("name", "partition"), WRITTEN)
def test_a_follower_writes_the_files_that_the_broker_wrote(
    name: str, partition: str, golden: Unpacked, tmp_path: Path
) -> None:
    theirs = golden(name, case(name).states[-1]) / partition
    ours = of_golden(name, partition, tmp_path / partition)
    for base in log_bases(theirs):
        data = (theirs / paths.segment_file(base, paths.LOG)).read_bytes()
        for batch in dispatch.batches(data):
            ours.append_as_follower(data[batch.position : batch.end], now_ms=NOW)
    ours.close(NOW)
    assert log_bases(ours.directory) == log_bases(theirs)
    for base in log_bases(theirs):
        for file in (paths.segment_file(base, kind) for kind in KINDS):
            assert (ours.directory / file).read_bytes() == (theirs / file).read_bytes(), file


def batch(offset: int, timestamp: int, *, epoch: int = 0, value: bytes = b"v" * 40) -> bytes:
    record = Record(offset, timestamp, TimestampType.CREATE_TIME, b"k", value)
    return v2.encode_batch([record], leader_epoch=epoch)


def log_of(directory: Path, *offsets: int, kafka: str = "4.3", **config: int) -> PartitionLog:
    """A log with one batch per offset; its third and later timestamps fall."""
    given = {"internal.segment.bytes": 500, "index.interval.bytes": 0} | config
    rules = generation(kafka)
    made = create(directory, topic_of(settings_from(given), rules), rules, NOW)
    for offset in offsets:
        made.append_as_follower(batch(offset, NOW - abs(offset - 2), epoch=offset // 4), now_ms=NOW)
    return made


def content(log: PartitionLog) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(log.directory.iterdir())}


@pytest.mark.parametrize("offset", range(13))
def test_a_truncated_log_goes_on_like_one_that_was_never_longer(
    offset: int, tmp_path: Path
) -> None:
    short = log_of(tmp_path / "short-0", *range(offset))
    cut = log_of(tmp_path / "cut-0", *range(12))
    assert cut.truncate(offset, NOW) == min(offset, 12)
    assert cut.epochs == short.epochs
    logs = [
        b"".join(d for n, d in content(one).items() if n.endswith(".log")) for one in (cut, short)
    ]
    assert logs[0] == logs[1]
    if cut.active.size:  # a broker keeps a segment that became empty
        assert cut.active.largest == short.active.largest
        assert cut.active.first_timestamp == short.active.first_timestamp
        relative = cut.active.path(paths.OFFSET_INDEX).read_bytes()
        assert relative == short.active.path(paths.OFFSET_INDEX).read_bytes()[: len(relative)]
    for again in range(min(offset, 12), 14):
        cut.append_as_follower(batch(again, NOW, epoch=again // 4), now_ms=NOW)
    assert cut.log_end_offset == 14


def test_a_cut_inside_a_batch_removes_all_of_it(tmp_path: Path) -> None:
    """The log end is the offset that was asked for, until the broker starts again."""
    log = log_of(tmp_path / "t-0")
    records = [Record(n, NOW, TimestampType.CREATE_TIME, b"k", b"v") for n in range(10)]
    log.append_as_follower(v2.encode_batch(records[:4]) + v2.encode_batch(records[4:]), now_ms=NOW)
    assert log.truncate(7, NOW) == log.log_end_offset == 7
    assert log.read(0, 10, 1 << 20) == v2.encode_batch(records[:4])
    assert list_offsets(log, 1, -1, now_ms=NOW).answer.offset == 0 == log.high_watermark
    log.high_watermark = 7
    assert list_offsets(log, 1, -1, now_ms=NOW).answer.offset == 7
    log.close(NOW)
    assert start(log, log.topic, log.generation, NOW, clean=True).log_end_offset == 4


@pytest.mark.parametrize(("lost", "end"), [(0, 12), (1, 11), (120, 10), (10**6, 8)])
def test_a_start_after_a_kill_cuts_what_is_torn(lost: int, end: int, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", *range(12))
    path = log.active.path(paths.LOG)
    path.write_bytes(path.read_bytes()[: max(log.active.size - lost, 0)])
    again = start(log, log.topic, log.generation, NOW, clean=False)
    assert again.log_end_offset == end == max(again.active.base_offset, end)
    whole = log_of(tmp_path / "w-0", *range(end))
    assert (
        again.active.path(paths.LOG).read_bytes() == (whole.directory / path.name).read_bytes()
        if end > 8
        else not again.active.size
    )
    assert again.active.largest.timestamp == (whole.active.largest.timestamp if end > 8 else -1)


def test_a_start_fails_at_a_time_index_that_its_recovery_fills(tmp_path: Path) -> None:
    """Kafka throws: `Attempt to append to a full time index`. In 48 bytes fit 3 and the last one."""
    log = log_of(
        tmp_path / "t-0", **{"internal.segment.bytes": 9999}, **{"segment.index.bytes": 48}
    )
    sets = [batch(n, NOW + n) for n in range(5)]
    log.append_as_follower(b"".join(sets[:4]), now_ms=NOW)
    again = start(log, log.topic, log.generation, NOW, clean=False)
    assert again.active.time_entries == 3
    path = again.active.path(paths.LOG)
    path.write_bytes(path.read_bytes() + sets[4])
    with pytest.raises(BadInput, match="6 offset or 3 time entries"):
        start(again, log.topic, log.generation, NOW, clean=False)


def test_a_clean_start_changes_no_index(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", *range(12))
    log.close(NOW)
    before = content(log)
    again = start(log, log.topic, log.generation, NOW + 5, clean=True)
    assert content(again) == before
    assert (again.log_start_offset, again.log_end_offset) == (0, 12)
    assert again.epochs == log.epochs == read_epochs(log.directory / paths.LEADER_EPOCH)
    assert again.active.created_ms == NOW + 5
    assert again.active.unindexed_bytes == 0


def test_retention_keeps_the_log_end(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", *range(12), **{"retention.ms": 1000})
    log.high_watermark = 12
    bases = log_bases(log.directory)
    assert len(bases) > 1
    assert not any(v.deletes for v in log.delete_old_segments(NOW + 900).verdicts)
    assert all(v.deletes for v in log.delete_old_segments(NOW + 10_000).verdicts)
    assert log_bases(log.directory) == [12] and log.log_start_offset == log.log_end_offset == 12
    assert log.append_as_follower(batch(12, NOW), now_ms=NOW) is not None


@pytest.mark.parametrize(
    ("kafka", "below"), [("4.3", "UnexpectedAppendOffset"), ("0.11.0", "OffsetsOutOfOrder")]
)
def test_a_follower_takes_only_what_comes_next(kafka: str, below: str, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", 0, 1, 2, kafka=kafka)
    before = content(log)
    for data, name in (
        (batch(2, NOW), below),
        (batch(3, NOW) + batch(3, NOW), "OffsetsOutOfOrder"),
        (batch(5, NOW) + batch(4, NOW), "OffsetsOutOfOrder"),
        (batch(2, NOW) + batch(9, NOW), below),
        (batch(9, NOW, value=b"v" * 900), "RECORD_LIST_TOO_LARGE"),
    ):
        with pytest.raises(Rejected) as e:
            log.append_as_follower(data, now_ms=NOW)
        assert e.value.error == name
    log.keep_epochs([EpochStart(0, 0)], NOW)  # Kafka has begun the epoch of the last one
    bad = bytearray(batch(3, NOW))
    bad[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append_as_follower(bytes(bad), now_ms=NOW)
    assert content(log) == before
    assert log.append_as_follower(batch(3, NOW)[:-1], now_ms=NOW) is None
    assert log.append_as_follower(batch(7, NOW) + batch(8, NOW)[:30], now_ms=NOW) is not None
    assert log.log_end_offset == 8


@pytest.mark.parametrize(
    ("kafka", "left"), [("2.8", []), ("2.2.0", []), ("2.1.1", [EpochStart(0, 0), EpochStart(1, 5)])]
)
def test_an_older_format_forgets_the_epochs(
    kafka: str, left: list[EpochStart], tmp_path: Path
) -> None:
    from kafkats.formats import v1

    log = log_of(tmp_path / "t-0", 0, 5, kafka=kafka)
    assert log.epochs == [EpochStart(0, 0), EpochStart(1, 5)]
    old = v1.encode_batch([Record(6, NOW, TimestampType.CREATE_TIME, b"k", b"v")])
    log.append_as_follower(old, now_ms=NOW)
    assert log.epochs == read_epochs(log.directory / paths.LEADER_EPOCH) == left


@pytest.mark.parametrize(("kafka", "left"), [("2.7.1", []), ("2.7.0", [10])])
def test_an_emptied_log_has_no_snapshot_at_its_start(
    kafka: str, left: list[int], tmp_path: Path
) -> None:
    """From 2.7.1 on, because a truncation of all segments loads the producers anew (KAFKA-12153)."""
    log = log_of(tmp_path / "t-0", 12, kafka=kafka)
    log.high_watermark = 13
    log.delete_records(13, NOW)
    log.roll(13, NOW)
    log.delete_old_segments(NOW)
    assert [one.base_offset for one in log.segments] == [13]
    log.truncate(10, NOW)
    log.close(NOW)
    assert [int(path.name[:20]) for path in log.directory.glob("*.snapshot")] == left


@pytest.mark.parametrize(
    ("kafka", "left"), [("2.0.1", [EpochStart(2, 6)]), ("1.1.1", [EpochStart(3, 5)])]
)
def test_a_lower_epoch_begins_since_2_0(kafka: str, left: list[EpochStart], tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", kafka=kafka)
    for offset, epoch in ((5, 3), (6, 2)):
        log.append_as_follower(batch(offset, NOW, epoch=epoch), now_ms=NOW)
    assert log.epochs == left


@pytest.mark.parametrize(
    ("kafka", "left"),
    [("2.7", [EpochStart(2, 6)]), ("2.6", [EpochStart(1, 6), EpochStart(2, 6)])],
)
def test_a_start_assigns_epochs_anew_since_2_7(
    kafka: str, left: list[EpochStart], tmp_path: Path
) -> None:
    """The checkpoint of 1.1 may have two epochs at one offset."""
    log = log_of(tmp_path / "t-0", 6, kafka=kafka)
    log.keep_epochs([EpochStart(1, 6), EpochStart(2, 6)], NOW)
    log.close(NOW)
    again = start(log, log.topic, log.generation, NOW, clean=True)
    assert again.epochs == read_epochs(log.directory / paths.LEADER_EPOCH) == left


def test_epochs_at_one_log_start_stay_in_1_1(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", 5, 7, kafka="1.1.1")
    log.keep_epochs([EpochStart(0, 5), EpochStart(1, 7), EpochStart(2, 7)], NOW)
    log.high_watermark = 8
    log.delete_records(6, NOW)
    assert log.epochs == [EpochStart(0, 6), EpochStart(1, 7), EpochStart(2, 7)]
    log.delete_records(7, NOW)
    assert log.epochs == [EpochStart(1, 7), EpochStart(2, 7)]


def test_an_epoch_that_one_append_begins_and_deletes_was_written(tmp_path: Path) -> None:
    """As in Kafka: the file has a header then, where one of a new partition is empty."""
    from kafkats.formats import v1

    log = log_of(tmp_path / "t-0", kafka="2.8")
    checkpoint = log.directory / paths.LEADER_EPOCH
    assert checkpoint.read_bytes() == b""
    old = v1.encode_batch([Record(1, NOW, TimestampType.CREATE_TIME, b"k", b"v")])
    log.append_as_follower(batch(0, NOW) + old, now_ms=NOW)
    assert checkpoint.read_bytes() == b"0\n0\n"


@pytest.mark.parametrize(("kafka", "entries"), [("4.3", 2), ("3.9.0", 1), ("2.8", 1), ("1.1", 1)])
def test_a_batch_or_an_append_gets_an_index_entry(kafka: str, entries: int, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", 0, kafka=kafka, **{"internal.segment.bytes": 4096})
    log.append_as_follower(batch(1, NOW) + batch(2, NOW), now_ms=NOW)
    index = log.active.path(paths.OFFSET_INDEX).read_bytes()
    assert len(index) == 8 * entries
    first = int.from_bytes(index[:4], "big")
    assert first == (2 if kafka in ("3.9.0", "2.8") else 1)


@pytest.mark.parametrize(
    ("kafka", "cut"), [("4.3", [EpochStart(0, 0)]), ("2.6.0", [EpochStart(0, 0), EpochStart(3, 1)])]
)
def test_a_rejected_append_has_begun_its_epoch(
    kafka: str, cut: list[EpochStart], tmp_path: Path
) -> None:
    """As in Kafka: the epoch is written before the size is judged.

    From 2.6.1 on a truncation without effect deletes it.
    """
    log = log_of(tmp_path / "t-0", 0, kafka=kafka)
    with pytest.raises(Rejected):
        log.append_as_follower(batch(1, NOW, epoch=3, value=b"v" * 900), now_ms=NOW)
    assert read_epochs(log.directory / paths.LEADER_EPOCH) == [EpochStart(0, 0), EpochStart(3, 1)]
    assert log.truncate(1, NOW) == 1
    assert read_epochs(log.directory / paths.LEADER_EPOCH) == cut


def test_batches_may_overlap(tmp_path: Path) -> None:
    """A follower compares last offsets only."""
    log = log_of(tmp_path / "t-0")
    data = b"".join(
        v2.encode_batch(
            [Record(n, NOW, TimestampType.CREATE_TIME, b"k", b"v") for n in offsets], leader_epoch=0
        )
        for offsets in ((0, 3), (2, 5))
    )
    assert log.append_as_follower(data, now_ms=NOW) is not None
    assert log.log_end_offset == 6


def test_an_unclean_start_keeps_the_recovery_point(tmp_path: Path) -> None:
    """It moves only when segments are flushed, so a second kill recovers the same segments again."""
    log = log_of(tmp_path / "t-0", *range(6))
    flushed = log.recovery_point
    assert 0 < flushed < log.log_end_offset
    again = start(log, log.topic, log.generation, NOW, clean=False)
    assert (again.recovery_point, again.log_end_offset) == (flushed, 6)
    again.close(NOW)
    assert start(again, log.topic, log.generation, NOW, clean=True).recovery_point == 6


def test_records_are_deleted_up_to_the_high_watermark(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", *range(12))
    bases = log_bases(log.directory)
    log.high_watermark = 11
    assert log.delete_records(bases[1] + 1, NOW) == bases[1] + 1
    assert log_bases(log.directory) == bases
    with pytest.raises(Rejected, match="OFFSET_OUT_OF_RANGE"):
        log.delete_records(12, NOW)
    log.delete_old_segments(NOW)
    assert log_bases(log.directory) == bases[1:] and log.log_start_offset == bases[1] + 1


def test_a_fetch_reads_only_what_it_returns(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", **{"internal.segment.bytes": 1 << 20})
    for offset in range(400):
        log.append_as_follower(batch(offset, NOW, value=b"v" * 1000), now_ms=NOW)
    before = read_so_far()
    found = log.read(350, 400, 3000)
    assert [b.base_offset for b in dispatch.batches(found)] == [350, 351]
    assert read_so_far() - before < 10_000 < log.active.size


@pytest.mark.parametrize(("kafka", "bases"), [("1.1", [0]), ("1.0.2", [0, 3])])
def test_up_to_1_0_a_truncation_that_cuts_no_record_leaves_full_indexes(
    kafka: str, bases: list[int], tmp_path: Path
) -> None:
    log = log_of(tmp_path / "t-0", 0, kafka=kafka)
    records = [Record(n, NOW, TimestampType.CREATE_TIME, b"k", b"v") for n in (1, 2, 3, 4)]
    log.append_as_follower(v2.encode_batch(records), now_ms=NOW)
    assert log.truncate(4, NOW) == 4, "inside the batch: record 0 is the last one"
    log.roll(4, NOW)
    log.truncate(3, NOW)
    assert log_bases(log.directory) == [0] and log.active.size > 0
    log.append_as_follower(batch(3, NOW), now_ms=NOW)
    assert log_bases(log.directory) == bases


def test_up_to_0_11_a_recovery_point_above_the_log_end_stays(tmp_path: Path) -> None:
    for kafka, point in (("0.11.0", 12), ("1.0", 0), ("2.8", 0), ("3.0", 0)):
        log = log_of(tmp_path / f"{kafka}-0", *range(12), kafka=kafka)
        log.recovery_point = 12
        for base in log_bases(log.directory)[1:]:
            delete_segment(log.directory, base)
        (log.directory / paths.segment_file(0, paths.LOG)).write_bytes(b"")
        again = start(log, log.topic, log.generation, NOW, clean=False)
        assert (again.recovery_point, again.log_end_offset) == (point, 0), kafka


@pytest.mark.parametrize(("kafka", "point"), [("0.10.2", 0), ("0.11.0", 12)])
def test_up_to_0_10_a_truncation_to_the_log_end_lowers_the_recovery_point(
    kafka: str, point: int, tmp_path: Path
) -> None:
    log = log_of(tmp_path / "t-0", kafka=kafka)
    log.recovery_point = 12
    log.truncate(0, NOW)
    assert (log.recovery_point, log.log_end_offset) == (point, 0)


@pytest.mark.parametrize(("kafka", "timed"), [("0.10.0", False), ("0.10.1", True)])
def test_segments_have_time_indexes_from_0_10_1_on(kafka: str, timed: bool, tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", kafka=kafka)
    start(log, log.topic, log.generation, NOW, clean=False)
    assert any(tmp_path.glob("t-0/*.timeindex")) == timed


@pytest.mark.parametrize(("kafka", "rejected"), [("2.1.1", 0), ("1.1", 2), ("0.11.0", 3)])
def test_up_to_2_1_0_a_second_roll_at_an_offset_is_an_error(
    kafka: str, rejected: int, tmp_path: Path
) -> None:
    """The indexes of what replaces the segment are full: up to 1.0 until a restart."""
    log = log_of(tmp_path / "t-0", kafka=kafka)
    errors = []
    for _ in range(2):
        try:
            log.roll(0, NOW)
        except Rejected as e:
            errors.append(e.error)
    try:
        log.append_as_follower(batch(0, NOW), now_ms=NOW)
    except Rejected as e:
        errors.append(e.error)
    assert errors == ["UNKNOWN_SERVER_ERROR"] * rejected
    assert log_bases(log.directory) == [0]


def test_an_index_entry_at_the_log_end_hides_all_timestamps(tmp_path: Path) -> None:
    """A recovery indexes a wrapper by its first offset, which can be below the log end up to 0.10."""
    log = log_of(tmp_path / "t-0", kafka="0.10.2")
    records = [Record(o, NOW + o, TimestampType.CREATE_TIME, b"k", b"v") for o in (0, 3)]
    log.append_as_follower(v1.encode_batch(records[:1]), now_ms=NOW)
    log.append_as_follower(v1.encode_batch(records, codec=Codec.GZIP), now_ms=NOW)
    log = start(log, log.topic, log.generation, NOW, clean=False)
    log.truncate(2, NOW)
    (left,) = dispatch.batches(log.active.path(paths.LOG).read_bytes())
    assert left.max_timestamp == NOW
    assert (log.active.offset_entries, log.active.largest.timestamp) == (1, -1)
