"""The kernels and the readable rule leave the same files, batch for batch and read for read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Codec, Header, Record, TimestampType
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.compaction import cleaner as compaction
from kafkats_model.compaction import sieve
from kafkats_model.compaction.cleaner import compact
from kafkats_model.kernels import compaction as k

NOW = 1_700_000_000_000
CREATED = TimestampType.CREATE_TIME

records = st.tuples(
    st.one_of(st.none(), st.sampled_from([b"", b"a", b"key-1", b"key-22", b"0123456789abcdefg"])),
    st.one_of(st.none(), st.sampled_from([b"", b"v", b"v" * 70])),
    st.sampled_from([-1, 0, NOW, NOW - 1, NOW - 100, NOW - 10**9, 2**62]),
    st.sampled_from([(), (), (Header("h", b"x"),)]),
)
batches = st.tuples(
    st.lists(records, min_size=1, max_size=6),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4]),
    st.sampled_from([None, None, None, NOW - 5]),
    st.sampled_from([-1, -1, 7]),
    st.integers(0, 3),
)


def made(offset: int, batch: tuple) -> bytes:  # type: ignore[type-arg]
    content, codec, appended, producer, hole = batch
    kept = [
        Record(offset + n * (1 + hole), time, CREATED, key, value, headers)
        for n, (key, value, time, headers) in enumerate(content)
    ]
    fields = (
        {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    )
    return v2.encode_batch(
        kept, codec=codec, log_append_time=appended, last_offset=kept[-1].offset + hole, **fields
    )  # type: ignore[arg-type]


def cleaned(folder: Path, logs: list[list[tuple]], kafka: str, most: int) -> dict[str, bytes]:  # type: ignore[type-arg]
    rules = generation(kafka)
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "delete.retention.ms": 10,
              "index.interval.bytes": 100}  # fmt: skip
    log = create(folder / "t-0", topic_of(settings_from(config), rules), rules, NOW)
    found: dict[str, bytes] = {}
    for number, one in enumerate(logs):
        for batch in one:
            log.append_as_follower(made(log.log_end_offset, batch), now_ms=NOW)
        log.roll(log.log_end_offset, NOW)
        log.high_watermark = log.log_end_offset
        done = compact(log, NOW + 10 * number, most_keys=most)
        found[f"{number}"] = repr(done).encode()
        for path in sorted(log.directory.iterdir()):
            found[f"{number} {path.name}"] = path.read_bytes()
    return found


@pytest.mark.slow(2)
@settings(max_examples=60)
@given(
    st.lists(st.lists(batches, min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from(["2.8.2", "3.1", "4.3"]),
    st.sampled_from([1000, 1000, 3]),
)
def test_kernels_and_rule_agree(
    tmp_path_factory: pytest.TempPathFactory,
    logs: list[list[tuple]],
    kafka: str,
    most: int,  # type: ignore[type-arg]
) -> None:
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sieve, "IO_BYTES", 300)
        patched.setattr(sieve, "MESSAGE_BYTES", 500)
        fast = cleaned(folder / "kernels", logs, kafka, most)
        patched.setattr(k, "fill", lambda *_: k.OTHER)
        patched.setattr(k, "sift", lambda *_: k.OTHER)
        assert cleaned(folder / "rule", logs, kafka, most) == fast
    shutil.rmtree(folder)


def test_the_kernels_take_what_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this the test above could compare the rule with itself."""
    plain = [([(b"a", b"v", NOW, ()), (b"b", b"v", NOW, ())], Codec.NONE, None, -1, 0)] * 3
    monkeypatch.setattr(dispatch, "batches", refuse_in_pass(dispatch.batches))
    found = cleaned(tmp_path, [plain], "4.3", 10)
    assert len(found[f"0 {0:020d}.log"]) == len(made(0, plain[0]))


def refuse_in_pass(real):  # type: ignore[no-untyped-def]
    """Stand in for dispatch.batches: a position says that a pass asks for one batch of a log."""

    def batches(buf, start=None, end=None, *, verify=True):  # type: ignore[no-untyped-def]
        assert start is None or start == 0, "the readable rule was asked"
        return real(buf, start or 0, end, verify=verify)

    return batches


def test_a_wrong_checksum_stops_a_cleaning_before_anything_is_replaced(tmp_path: Path) -> None:
    rules = generation("4.3")
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    log = create(tmp_path / "t-0", topic_of(settings_from(config), rules), rules, NOW)
    for value in (b"1", b"2"):
        log.append_as_follower(
            made(log.log_end_offset, ([(b"a", value, NOW, ())], 0, None, -1, 0)), now_ms=NOW
        )
    log.roll(log.log_end_offset, NOW)
    log.high_watermark = 2
    path = tmp_path / f"t-0/{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptBatch, match="CRC-32C") as error:
        compact(log, NOW)
    assert error.value.path == str(path)
    assert error.value.position == len(data) // 2
    assert path.read_bytes() == data and not list(tmp_path.glob("t-0/*.cleaned"))


def closed(folder: Path, kafka: str, count: int, **config: int) -> PartitionLog:
    """A log whose first segment has `count` batches of one key and of a key of their own."""
    rules = generation(kafka)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, **config}
    log = create(folder / "t-0", topic_of(settings_from(compacted), rules), rules, NOW)
    for n in range(count):
        content = [(b"a", b"v", NOW, ()), (b"k%d" % n, b"v", NOW, ())]
        log.append_as_follower(
            made(log.log_end_offset, (content, Codec.NONE, None, -1, 0)), now_ms=NOW
        )
    log.roll(log.log_end_offset, NOW)
    log.high_watermark = log.log_end_offset
    return log


def all_files(directory: Path) -> dict[str, bytes]:
    kept = (path for path in directory.iterdir() if ".cleaned" not in path.name)
    return {path.name: path.read_bytes() for path in kept}


@settings(max_examples=40)
@given(
    st.sampled_from(["2.8.2", "4.3"]),
    st.integers(1, 4),
    st.integers(0, 3),
    st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 400)),
    st.booleans(),
)
def test_a_wrong_size_stops_a_cleaning_before_anything_is_replaced(
    tmp_path_factory: pytest.TempPathFactory,
    kafka: str,
    count: int,
    which: int,
    size: int,
    clean: bool,
) -> None:
    """`clean`: the damage lies below the dirty section, which only the second pass reads."""
    folder = tmp_path_factory.mktemp("sizes")
    log = closed(folder, kafka, count)
    path = log.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = [batch.position for batch in dispatch.batches(data)][which % count]
    assume(data[at + 8 : at + 12] != size.to_bytes(4, "big", signed=True))
    data[at + 8 : at + 12] = size.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    if clean:
        log.cleaned_to = log.log_end_offset
        log.append_as_follower(
            made(log.log_end_offset, ([(b"a", b"v", NOW, ())], Codec.NONE, None, -1, 0)),
            now_ms=NOW,
        )
        log.roll(log.log_end_offset, NOW)
        log.high_watermark = log.log_end_offset
    before = all_files(log.directory)
    with pytest.raises(CorruptBatch) as error:
        compact(log, NOW)
    assert (error.value.path, error.value.position) == (str(path), at)
    assert all_files(log.directory) == before
    shutil.rmtree(folder)


@pytest.mark.parametrize("left", [1, 17, 18, 40])
def test_a_torn_tail_stops_a_cleaning(left: int, tmp_path: Path) -> None:
    log = closed(tmp_path, "4.3", 2)
    path = log.directory / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 + left])
    with pytest.raises(CorruptBatch, match="incomplete") as error:
        compact(log, NOW)
    assert error.value.position == len(data) // 2


@pytest.mark.parametrize("kafka", ["2.8.2", "3.1", "4.3"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(("over", "written"), [(0, True), (1, False)])
def test_a_delete_horizon_beyond_64_bits_is_not_written(
    over: int, written: bool, codec: Codec, kafka: str, tmp_path: Path
) -> None:
    """MemoryRecords.filterTo adds with wrap-around; the builder ignores a negative horizon."""
    most = 2**63 - 1 - NOW
    log = closed(tmp_path, kafka, 1, **{"delete.retention.ms": most + over})
    content = [(b"a", b"v", NOW, ()), (b"a", None, NOW - 1, ())]
    log.append_as_follower(made(2, (content, codec, None, -1, 0)), now_ms=NOW)
    log.roll(log.log_end_offset, NOW)
    log.high_watermark = log.log_end_offset
    compact(log, NOW)
    data = (log.directory / f"{0:020d}.log").read_bytes()
    found = list(dispatch.batches(data))
    assert [r.offset for b in found for r in dispatch.records(data, b)] == [1, 3]
    horizon = NOW + most if written and kafka != "2.8.2" else None
    assert [b.delete_horizon_ms for b in found] == [None, horizon]
    assert found[1].base_timestamp == (NOW - 1 if horizon is None else horizon)


@pytest.mark.parametrize("kafka", ["2.8.2", "4.3"])
@pytest.mark.parametrize("count", [2**31 - 1, 70_000, 65_536])
def test_a_wrong_count_stops_a_cleaning_without_memory_for_it(
    count: int, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum is right, so only the records tell; the map must not grow to fit the count."""
    log = closed(tmp_path, kafka, 2)
    path = log.directory / f"{0:020d}.log"
    data = path.read_bytes()
    second = data[len(data) // 2 :]
    header = v2.BatchHeader._make(v2.HEADER.unpack_from(second))._replace(record_count=count)
    path.write_bytes(data[: -len(second)] + v2.seal(header, second[v2.HEADER_BYTES :]))
    monkeypatch.setattr(compaction, "_records_in", lambda path: 0)
    sizes = []

    def grown(old, table):  # type: ignore[no-untyped-def]
        sizes.append(len(table))
        assert len(table) <= 2**18, "65 536 records, and the map three quarters full"

    monkeypatch.setattr(k, "grow", grown)
    before = all_files(log.directory)
    with pytest.raises(CorruptBatch) as error:
        compact(log, NOW)
    assert error.value.path == str(path) and error.value.position == len(data)
    assert all_files(log.directory) == before
    assert bool(sizes) == (count == 65_536)


def test_a_batch_larger_than_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sieve, "_OUT_BYTES", 200)
    small = ([(b"a", b"v", NOW, ())], Codec.NONE, None, -1, 0)
    large = ([(b"b", b"v" * 400, NOW, ()), (b"a", b"v", NOW, ())], Codec.NONE, None, -1, 0)
    found = cleaned(tmp_path, [[small, large, small, small]], "4.3", 10)
    data = found[f"0 {0:020d}.log"]
    assert [r.offset for b in dispatch.batches(data) for r in dispatch.records(data, b)] == [1, 4]
