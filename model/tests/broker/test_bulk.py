"""Many appends in one go leave what single appends leave: files, offsets, epochs, and what a broker remembers of its segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from conformance.appended import NOW, draw, encoded
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v2
from kafkats.formats.build import Target
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.rolling.rules import Settings
from kafkats_model.broker.bulk import append_fetch, append_sets
from kafkats_model.broker.generation import generation
from kafkats_model.broker.markers import EndMarker
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.settings import Topic, settings_from, topic_of
from kafkats_model.broker.validate import Validated
from kafkats_model.errors import Rejected

RELEASES = (
    "0.8.2",
    "0.9.0",
    "0.10.0",
    "0.10.2",
    "0.11.0",
    "2.0",
    "2.8.2",
    "3.6.0",
    "3.9.1",
    "4.0.0",
    "4.3.1",
    "kip",
)
CHANGED = "message.timestamp.type"
SENT = [
    *((magic, codec) for magic in (0, 1) for codec in list(Codec)[:4]),
    *((2, codec) for codec in Codec),
]


def sound(random: Random, magic: int, codec: Codec, count: int) -> bytes:
    kind = TimestampType.CREATE_TIME if magic else TimestampType.NONE
    times = [NOW + random.randrange(-5_000, 5_000) if magic else -1 for _ in range(count)]
    return encoded(magic, codec, [Record(n, t, kind, b"k", b"v" * random.randrange(60)) for n, t in enumerate(times)])  # fmt: skip


def state(log: PartitionLog) -> dict[str, object]:
    files = {p.name: p.read_bytes() for p in sorted(log.directory.iterdir())}
    active = replace(log.active, directory=Path())
    return {
        "files": files,
        "active": active,
        "end": log.log_end_offset,
        "epochs": log.epochs,
        "flushed": log.recovery_point,
    }


def joined(sets: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray().join(sets), np.uint8)


def one_by_one(log: PartitionLog, sets: Sequence[bytes], epoch: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for data in sets:
        try:
            outcomes[log.append_as_leader(data, now_ms=NOW, leader_epoch=epoch).how] += 1
        except Rejected:
            outcomes["rejected"] += 1
    return outcomes


def compare(kafka: str, topic: Topic, sets: Sequence[bytes], epoch: int = 3) -> Counter[str]:
    rules = generation(kafka)
    with TemporaryDirectory() as folder:
        single = create(Path(folder, "single"), topic, rules, NOW)
        many = create(Path(folder, "many"), topic, rules, NOW)
        wanted = one_by_one(single, sets, epoch)
        done = append_sets(many, joined(sets), [*accumulate(map(len, sets))], now_ms=NOW, leader_epoch=epoch)  # fmt: skip
        assert +done.outcomes == +wanted
        assert state(many) == state(single)
        assert {path.stat().st_mtime_ns for path in many.directory.iterdir()} == {NOW * 1_000_000}
    return wanted


@pytest.mark.slow(9)
@given(st.integers(0, 2**32), st.sampled_from(RELEASES))
@example(0, "2.8.2")
@example(1, "4.3.1")
def test_a_leader(seed: int, kafka: str) -> None:
    """Sound and wrong sets, some with a byte changed; small segments, indexes and intervals."""
    random = Random(seed)
    magics = generation(kafka).leader.magics
    topic = replace(
        draw(random, magics).topic,
        rolling=Settings(
            segment_bytes=random.choice((700, 4_000, 1 << 30)),
            segment_ms=random.choice((0, 2_000, 604_800_000)),
            segment_index_bytes=random.choice((24, 64, 10 << 20)),
            index_interval_bytes=random.choice((0, 100, 4096)),
            compacted=random.random() < 0.2,
        ),
    )
    sets = []
    for _ in range(random.randrange(1, 25)):
        codec = Codec(topic.target.codec or 0) if random.random() < 0.5 else Codec.NONE
        magic = topic.target.magic
        if random.random() < 0.4:
            magic, codec = random.choice(SENT)
        data = (
            sound(random, magic, codec, random.randrange(1, 5))
            if random.random() < 0.7
            else draw(random, magics).data
        )
        if random.random() < 0.1:
            at = random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        sets.append(data)
    compare(kafka, topic, sets)


KEPT = [
    *((magic, Codec.NONE) for magic in (0, 1, 2)),
    *((1, codec) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)),
    *((2, codec) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)),
]


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize(("magic", "codec"), KEPT)
def test_common_sets_are_left_to_the_kernel(
    magic: int, codec: Codec, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first set, which begins segment and epoch, is judged by its records."""
    random = Random(magic * 10 + codec)
    version = ("0.9.0", "0.10.0", "2.8")[magic]
    topic = topic_of(
        settings_from({"message.format.version": version, CHANGED: kind}), generation("2.8.2")
    )
    sets = [sound(random, magic, codec, 20) for _ in range(30)]
    assert compare("2.8.2", topic, sets) == {"in place": 30}
    judged: list[bytes] = []
    original = PartitionLog.append_as_leader

    def noted(log: PartitionLog, data: bytes, *, now_ms: int, leader_epoch: int) -> Validated:
        judged.append(data)
        return original(log, data, now_ms=now_ms, leader_epoch=leader_epoch)

    monkeypatch.setattr(PartitionLog, "append_as_leader", noted)
    with TemporaryDirectory() as folder:
        log = create(Path(folder, "t-0"), topic, generation("2.8.2"), NOW)
        append_sets(log, joined(sets), [*accumulate(map(len, sets))], now_ms=NOW, leader_epoch=0)
    assert judged == (sets[:1] if magic == 2 else [])


@pytest.mark.slow(2)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_sets_that_stay_in_place_between_others(kind: str) -> None:
    """The kernels take turns; small sets and one that finds no room in their buffer."""
    random = Random(kind)
    config = {CHANGED: kind, "compression.type": "gzip", "message.format.version": "2.8"}
    topic = topic_of(settings_from(config), generation("2.8.2"))
    kinds = [(2, Codec.GZIP), (2, Codec.GZIP), (1, Codec.NONE), (0, Codec.LZ4), (2, Codec.ZSTD)]
    sets = [sound(random, *random.choice(kinds), random.randrange(1, 9)) for _ in range(60)]
    big = [Record(n, NOW, TimestampType.CREATE_TIME, b"k", bytes(1 << 19)) for n in range(5)]
    sets.insert(30, encoded(2, Codec.LZ4, big))
    wanted = Counter("converted" if data[16] < 2 else "in place" for data in sets)
    recompressed = sum(data[16] == 2 and data[22] & 7 != Codec.GZIP for data in sets)
    wanted.update({"recompressed": recompressed, "in place": -recompressed})
    assert compare("2.8.2", topic, sets) == wanted


def test_a_large_set_has_room(tmp_path: Path) -> None:
    topic = topic_of(settings_from({}), generation("4.3.1"))
    big = encoded(
        2,
        Codec.NONE,
        [Record(n, NOW, TimestampType.CREATE_TIME, b"k", bytes(1 << 19)) for n in range(3)],
    )
    small = sound(Random(1), 2, Codec.GZIP, 9)
    assert compare("4.3.1", topic, [small, big, small, big, big]) == {"in place": 5}


def test_rejected_sets_are_told(tmp_path: Path) -> None:
    topic = topic_of(settings_from({}), generation("4.3.1"))
    log = create(tmp_path / "t-0", topic, generation("4.3.1"), NOW)
    good = sound(Random(1), 2, Codec.NONE, 3)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    done = append_sets(
        log,
        joined([good, bad, good]),
        [len(good), 2 * len(good), 3 * len(good)],
        now_ms=NOW,
        leader_epoch=0,
    )
    assert +done.outcomes == {"in place": 2, "rejected": 1}
    assert done.rejected.startswith("CORRUPT_MESSAGE") and done.bytes == 2 * len(good)
    assert log.log_end_offset == 6


def followed(log: PartitionLog, fetch: bytes, *, kernel: bool) -> int | str:
    """The bytes that were appended, or the error."""
    try:
        if kernel:
            return append_fetch(log, fetch, now_ms=NOW)
        appended = log.append_as_follower(fetch, now_ms=NOW)
        return appended.bytes if appended else 0
    except (CorruptBatch, Rejected) as e:
        return e.reason


@pytest.mark.slow(3)
@given(st.integers(0, 2**32), st.sampled_from(RELEASES))
@example(2, "2.8.2")
@example(2097152, "0.8.2")
@example(3, "4.3.1")
def test_a_follower(seed: int, kafka: str) -> None:
    """Fetches of any batches, some cut, damaged or with falling offsets."""
    random = Random(seed)
    rules = generation(kafka)
    rolling = Settings(
        segment_bytes=random.choice((700, 4_000, 1 << 30)),
        segment_ms=random.choice((0, 2_000, 604_800_000)),
        segment_index_bytes=random.choice((24, 64, 10 << 20)),
        index_interval_bytes=random.choice((0, 100, 4096)),
    )
    topic = replace(topic_of(settings_from({}), rules), rolling=rolling)
    magic = random.choice(rules.leader.magics)
    with TemporaryDirectory() as folder:
        leader = create(
            Path(folder, "leader"),
            replace(topic, target=Target(magic), rolling=Settings()),
            rules,
            NOW,
        )
        epoch = 0
        for _ in range(random.randrange(1, 30)):
            codec = random.choice((Codec.NONE, Codec.NONE, Codec.GZIP))
            epoch += random.random() < 0.1
            leader.append_as_leader(
                sound(random, magic, codec, random.randrange(1, 6)), now_ms=NOW, leader_epoch=epoch
            )
        data = leader.read(0, leader.log_end_offset, 1 << 30)
        fetches: list[bytes] = []
        for batch in dispatch.batches(data):
            if not fetches or random.random() < 0.3:
                fetches.append(b"")
            fetches[-1] += data[batch.position : batch.end]
        wrong = random.choice(("", "", "cut", "damaged", "again"))
        number = random.randrange(len(fetches))
        if wrong == "cut":
            fetches[number] = fetches[number][: -random.randrange(1, 30)]
        elif wrong == "damaged":
            at = random.randrange(len(fetches[number]))
            fetches[number] = fetches[number][:at] + b"\xff" + fetches[number][at + 1 :]
        elif wrong:
            fetches.insert(number, fetches[number])
        single, many = (
            create(Path(folder, name), topic, rules, NOW) for name in ("single", "many")
        )
        for fetch in fetches:
            assert followed(many, fetch, kernel=True) == followed(single, fetch, kernel=False)
        assert state(many) == state(single)


def with_producers(log: PartitionLog) -> None:
    """Transactions of two producers, one of them aborted, and batches without a producer."""
    sequences = Counter[int]()
    for number in range(24):
        producer = (7, 9, -1)[number % 3]
        records = [Record(n, NOW, TimestampType.CREATE_TIME, b"k", bytes(200)) for n in range(3)]
        data = v2.encode_batch(records) if producer < 0 else v2.encode_batch(
            records, producer_id=producer, producer_epoch=0, base_sequence=sequences[producer],
            transactional=True,
        )  # fmt: skip
        sequences[producer] += 3
        log.append_as_leader(data, now_ms=NOW, leader_epoch=0)
        if number % 8 == 7:
            for one in (7, 9):
                marker = EndMarker(one, 0, one == 9, 0)
                log.end_transaction(marker, now_ms=NOW, leader_epoch=0)


@pytest.mark.parametrize("size", [1, 2_000, 7_000, 1 << 20])
@pytest.mark.parametrize("kafka", ["0.11.0", "2.8.2", "3.6.0", "4.3.1"])
def test_a_follower_notes_producers(kafka: str, size: int, tmp_path: Path) -> None:
    """Transaction index, snapshots and rejections are those of single appends."""
    rules = generation(kafka)
    topic = topic_of(settings_from({}), rules)
    leader, single, many = (
        create(tmp_path / name / "t-0", topic, rules, NOW) for name in ("leader", "single", "many")
    )
    with_producers(leader)
    while many.log_end_offset < leader.log_end_offset:
        fetch = leader.read(many.log_end_offset, leader.log_end_offset, size)
        wanted = followed(single, fetch, kernel=False)
        assert followed(many, fetch, kernel=True) == wanted
    again = v2.encode_batch(
        [Record(0, NOW, TimestampType.CREATE_TIME, b"k", b"v")],
        producer_id=7, producer_epoch=0, base_sequence=99, transactional=True,
    )  # fmt: skip
    for log in (leader, single, many):
        with pytest.raises(Rejected, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            log.append_as_leader(again, now_ms=NOW, leader_epoch=0)
        log.close(NOW)
    assert state(many) == state(single)
    kinds = {".txnindex", ".snapshot"}
    files = {p.name: p.read_bytes() for p in many.directory.iterdir() if p.suffix in kinds}
    assert {Path(name).suffix for name in files} == kinds
    assert all((leader.directory / name).read_bytes() == data for name, data in files.items())


def test_a_batch_outside_of_its_transaction_changes_nothing(tmp_path: Path) -> None:
    """A follower rejects the whole fetch, and writes no byte of it."""
    rules = generation("4.3.1")
    topic = topic_of(settings_from({}), rules)
    single, many = (
        create(tmp_path / name / "t-0", topic, rules, NOW) for name in ("single", "many")
    )
    begun, outside = (
        v2.encode_batch(
            [Record(n, NOW, TimestampType.CREATE_TIME, b"k", b"v")],
            leader_epoch=0, producer_id=7, producer_epoch=0, base_sequence=n, transactional=n == 0,
        )
        for n in range(2)
    )  # fmt: skip
    for log in (single, many):
        log.append_as_follower(begun, now_ms=NOW)
    before = state(many)
    wanted = followed(single, outside, kernel=False)
    assert str(wanted).startswith("INVALID_TXN_STATE")
    assert followed(many, outside, kernel=True) == wanted
    assert state(many) == state(single) == before
