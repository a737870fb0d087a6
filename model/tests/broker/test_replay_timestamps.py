"""Timestamps as KIP-32 words them, in what `kafkats replay` writes and answers; rows of model/docs/seeds/kip32.toml."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from model.tests.builders.replays import (
    BEGIN,
    Replay,
    Row,
    Step,
    broker,
    compressed,
    create,
    outcomes,
    records,
    restart,
    step,
)

LATER = BEGIN + 60_000
TIMES = (BEGIN + 7, BEGIN + 9, BEGIN + 3)
STAMPED = {"message_timestamp_type": "LogAppendTime"}
CODECS = ("none", "gzip", "snappy", "lz4")


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Replay:
    return Replay(capsys, tmp_path)


def produce(codec: str = "none", *times: int, version: int = 2, **fields: object) -> Step:
    given = records(*times or TIMES)
    return step("produce", version=version, codec=codec, records=given, **fields)


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def timestamps(replay: Replay, name: str = "1", partition: str = "t-0") -> list[int]:
    """What a consumer sees of each record."""
    rows = replay.dump(replay.file(name=name, partition=partition))
    return [row["timestamp"] for row in of_kind(rows, "record")]


def test_the_timestamp_lies_behind_the_attributes(replay: Replay) -> None:
    """Magic 1; 8 bytes of timestamp from byte 18 of the message with its offset and size on."""
    rows = replay(broker(), create(), produce("none", BEGIN + 7))
    data = replay.file().read_bytes()
    assert rows[0]["formats"] == "1 none" and data[16] == 1
    assert int.from_bytes(data[18:26], "big") == BEGIN + 7


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("kind", "bit"), [("CreateTime", 0), ("LogAppendTime", 0b1000)])
def test_the_fourth_lowest_bit_is_the_timestamp_type(
    kind: str, bit: int, codec: str, replay: Replay
) -> None:
    replay(broker(), create(message_timestamp_type=kind), produce(codec))
    assert replay.file().read_bytes()[17] == CODECS.index(codec) | bit


def test_both_settings_are_of_a_topic(replay: Replay) -> None:
    """One broker, three topics: CreateTime, LogAppendTime, and a limit for CreateTime."""
    old = [{"timestamp": BEGIN - 5000, "key": "a", "value": "b"}]
    limit = {"max_message_time_difference_ms": 1000}
    rows = replay(
        broker(), create(partition="c-0"), create(partition="l-0", **STAMPED), create(partition="d-0", **limit),
        *(step("produce", "1", p, version=2, records=old) for p in ("c-0", "l-0", "d-0")),
    )  # fmt: skip
    assert outcomes(rows) == ["in place", "in place", "rejected"]
    assert timestamps(replay, partition="c-0") == [BEGIN - 5000]
    assert timestamps(replay, partition="l-0") == [BEGIN]


def test_by_default_no_timestamp_is_judged_or_changed(replay: Replay) -> None:
    """CreateTime, and a difference of Long.MaxValue."""
    far = (0, BEGIN, 10**15)
    rows = replay(broker(), create(), produce("none", *far))
    assert outcomes(rows) == ["in place"] and timestamps(replay) == [*far]


@pytest.mark.parametrize(("version", "formats"), [(1, "0 none"), (2, "1 none")])
def test_versions_2_carry_the_new_format(version: int, formats: str, replay: Replay) -> None:
    """A produce request of version 2 carries magic 1, and a fetch of version 2 receives it; version 1 does neither.

    A broker does not check that of a produce request: only version 3 fixes the format.
    """
    of_v2 = broker("1"), create("1"), produce()
    rows = replay(*of_v2, step("fetch", version=version, offset=0))
    assert rows[1]["formats"] == formats
    data = replay.file().read_bytes()
    replay.folder /= "again"
    replay.folder.mkdir()
    sent = produce("none", BEGIN, version=version), step("produce", version=version, set=data.hex())
    rows = replay(broker(), create(), *sent)
    assert outcomes(rows) == ["converted" if version == 1 else "in place", "in place"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_produce_response_has_a_timestamp_per_partition(codec: str, replay: Replay) -> None:
    """Under LogAppendTime the broker's, of each set; under CreateTime none (-1); a version 1 response has none."""
    rows = replay(
        broker(), create(), create(partition="l-0", **STAMPED),
        produce(codec, at=LATER), {**produce(codec), "partition": "l-0"},
        {**produce(codec, at=LATER + 9), "partition": "l-0"}, {**produce(codec, version=1), "partition": "l-0"},
    )  # fmt: skip
    assert [row["timestamp"] for row in rows] == [-1, LATER, LATER + 9, -1]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_log_append_time_of_a_wrapper(codec: str, replay: Replay) -> None:
    """The wrapper's time and bit are set; the messages inside are ignored, and not compressed again."""
    rows = replay(broker(), create(**STAMPED), create(partition="c-0"), produce(codec, at=LATER), {**produce(codec), "partition": "c-0"})  # fmt: skip
    assert rows[0]["outcome"] == "in place"
    (wrapper,) = of_kind(replay.dump(replay.file()), "batch")
    assert (wrapper["max_timestamp"], wrapper["timestamp_type"]) == (LATER, "LOG_APPEND_TIME")
    sent = replay.file(partition="c-0").read_bytes()
    assert compressed(replay.file().read_bytes()) == compressed(sent)
    assert timestamps(replay) == [LATER] * 3


def test_log_append_time_of_a_message(replay: Replay) -> None:
    """The time in the message is overwritten."""
    rows = replay(broker(), create(**STAMPED), produce(at=LATER))
    assert rows[0]["outcome"] == "in place" and timestamps(replay) == [LATER] * 3
    assert int.from_bytes(replay.file().read_bytes()[18:26], "big") == LATER


@pytest.mark.parametrize("codec", CODECS[1:])
def test_create_time_of_a_wrapper(codec: str, replay: Replay) -> None:
    """The wrapper gets the largest time of its messages, whatever the producer wrote there."""
    replay(broker(), create(), produce(codec))
    data = bytearray(replay.file().read_bytes())
    data[18:26] = bytes(8)
    data[12:16] = zlib_crc(data[16:])
    replay.folder /= "again"
    replay.folder.mkdir()
    (row,) = replay(broker(), create(), step("produce", version=2, set=data.hex()))
    (wrapper,) = of_kind(replay.dump(replay.file()), "batch")
    assert (row["outcome"], wrapper["max_timestamp"]) == ("in place", max(TIMES))


def zlib_crc(data: bytearray) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


LIMIT = 1000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("difference", "outcome"),
    [(0, "in place"), (LIMIT, "in place"), (-LIMIT, "in place"), (LIMIT + 1, "rejected"), (-LIMIT - 1, "rejected")],
)  # fmt: skip
def test_the_difference_to_the_clock_is_limited(
    codec: str, difference: int, outcome: str, replay: Replay
) -> None:
    """Within the limit it is appended as it is; one message beyond it, and the entire set is rejected."""
    limit = {"max_message_time_difference_ms": LIMIT}
    (row,) = replay(broker(), create(**limit), produce(codec, BEGIN, BEGIN + difference))
    assert row["outcome"] == outcome
    if outcome == "rejected":
        assert row["error"].startswith("TimestampExceededThresholdException: ")
        assert row["log_end_offset"] == 0 and replay.file().stat().st_size == 0
    else:
        assert timestamps(replay) == [BEGIN, BEGIN + difference]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_follower_builds_its_time_index_from_what_it_gets(
    kind: str, codec: str, replay: Replay
) -> None:
    """From a wrapper's time, or each message's own; it judges nothing and changes nothing, whatever its own settings are."""
    sparse = {"index_interval_bytes": 0, "message_timestamp_type": kind}
    strict = {**sparse, "message_timestamp_type": "CreateTime", "max_message_time_difference_ms": 0}
    rows = replay(
        broker("1"), broker("2"), create("1", **sparse), create("2", **strict),
        produce(codec, BEGIN + 4), produce(codec), produce(codec, BEGIN + 50), step("replicate", "2", leader="1", at=LATER),
    )  # fmt: skip
    assert rows[-1]["outcome"] == "as it is"
    assert replay.file(name="2").read_bytes() == replay.file().read_bytes()
    entries = of_kind(replay.dump(replay.file(".timeindex", name="2")), "time-entry")
    last = BEGIN + 50 if kind == "CreateTime" else BEGIN
    assert entries[-1]["timestamp"] == last


@pytest.mark.parametrize(
    ("codec", "kind", "seen"),
    [
        ("gzip", "CreateTime", TIMES),
        ("gzip", "LogAppendTime", (LATER,) * 3),
        ("none", "CreateTime", TIMES),
        ("none", "LogAppendTime", (LATER,) * 3),
    ],
)
def test_the_timestamp_that_a_consumer_sees(
    codec: str, kind: str, seen: tuple[int, ...], replay: Replay
) -> None:
    """Of a message inside: its own, if the wrapper's bit is 0, else the wrapper's; of any other: its own."""
    replay(broker(), create(message_timestamp_type=kind), produce(codec, at=LATER))
    assert timestamps(replay) == [*seen]


def test_a_search_skips_no_later_message(replay: Replay) -> None:
    """All messages from the searched time on are behind the answer; earlier ones may be."""
    times = [BEGIN + n * 1000 - (4500 if n % 5 == 4 else 0) for n in range(20)]
    asked = range(BEGIN - 1, BEGIN + 19_500, 500)
    rows = replay(
        broker(), create(index_interval_bytes=60, segment_bytes=400),
        *(produce("none", time) for time in times),
        *(step("list-offsets", version=1, time=time) for time in asked),
    )  # fmt: skip
    answers = [row["first_offset"] for row in rows if row["do"] == "list-offsets"]
    earlier = 0
    for time, answer in zip(asked, answers, strict=True):
        assert all(t < time for t in times[:answer])
        earlier += any(t < time for t in times[answer:])
    assert earlier > 0 and len(set(answers)) > 5


def test_retention_goes_by_the_last_time_index_entry(replay: Replay) -> None:
    """The last entry is the latest timestamp of the segment: one late message keeps the earlier ones with it."""
    old = BEGIN - 100_000
    rows = replay(
        broker(), create(retention_ms=50_000),
        produce("none", old, at=BEGIN + 30_000), produce("none", BEGIN), produce("none", old),
        step("roll"), produce("none", BEGIN + 9),
        step("retain", at=BEGIN + 50_000), step("retain", at=BEGIN + 50_001),
    )  # fmt: skip
    assert [row["outcome"] for row in rows if row["do"] == "retain"] == [
        "0 segments deleted", "1 segment deleted",
    ]  # fmt: skip


@pytest.mark.parametrize(("last", "deleted"), [(BEGIN - 10**9, 1), (BEGIN + 10**10, 0)])
def test_retention_depends_on_the_other_messages_of_the_segment(
    last: int, deleted: int, replay: Replay
) -> None:
    """One message of the future, and its whole segment stays."""
    rows = replay(
        broker(), create(retention_ms=1000, segment_ms=10**12), produce("none", BEGIN - 10**9),
        produce("none", last), produce("none", BEGIN - 10**9), step("roll"), produce("none", BEGIN), step("retain"),
    )  # fmt: skip
    assert rows[-1]["outcome"] == f"{deleted} segment{'s' * (deleted != 1)} deleted"


def test_a_segment_rolls_when_nothing_came_for_long(replay: Replay) -> None:
    """log.roll.ms after the largest timestamp of all messages so far: a message of that moment comes in time."""
    rows = replay(
        broker(kafka="kip32"), create(segment_ms=1000), produce("none", BEGIN), produce("none", BEGIN + 900),
        produce("none", BEGIN + 100, at=BEGIN + 1900), produce("none", BEGIN + 1000, at=BEGIN + 1901),
    )  # fmt: skip
    assert [row["rolled"] for row in rows] == ["", "", "", "yes"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("between", [(), (restart(),), (step("truncate", offset=3),)])
def test_rolling_counts_from_the_earliest_timestamp(
    between: tuple[Step, ...], codec: str, replay: Replay
) -> None:
    """In memory; a start scans the messages of the active segment for it. `kip` takes the first one."""
    rolled, folder = {}, replay.folder
    for kafka in ("kip32-earliest", "kip"):
        replay.folder = folder / kafka
        replay.folder.mkdir()
        rows = replay(
            broker(kafka=kafka), create(segment_ms=1000), produce(codec, BEGIN + 600, BEGIN + 700),
            produce(codec, BEGIN + 300), produce(codec, BEGIN + 500), produce(codec, BEGIN + 100), step("truncate", offset=4),
            *between, produce(codec, BEGIN + 1300), produce(codec, BEGIN + 1301),
        )  # fmt: skip
        rolled[kafka] = [row["rolled"] for row in rows if row["do"] == "produce"]
    assert rolled == {"kip32-earliest": [*[""] * 5, "yes"], "kip": [""] * 6}


def test_a_follower_finds_the_earliest_timestamp_in_a_wrapper(replay: Replay) -> None:
    """The wrapper has the largest one."""
    kafka, config = "kip32-earliest", {"segment_ms": 1000}
    rows = replay(
        broker("1", kafka), broker("2", kafka), create("1", **config), create("2", **config),
        produce("gzip", BEGIN + 300, BEGIN + 900), step("replicate", "2", leader="1"),
        produce("none", BEGIN + 1301), step("replicate", "2", leader="1"),
    )  # fmt: skip
    assert rows[2]["rolled"] == "yes"
    assert replay.file(name="2", base=2).exists()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_mirror_maker_is_a_producer(kind: str, codec: str, replay: Replay) -> None:
    """It sends what it has read of another cluster's disk, and the broker treats it as the application's own."""
    replay(broker(), create(), produce("none", BEGIN), produce(codec))
    read = replay.file().read_bytes()
    read = read[12 + int.from_bytes(read[8:12], "big") :]
    replay.folder = replay.folder / "target"
    replay.folder.mkdir()
    config = {"message_timestamp_type": kind}
    rows = replay(
        broker(), create(partition="a-0", **config), create(partition="m-0", **config),
        {**produce(codec, at=LATER), "partition": "a-0"},
        step("produce", partition="m-0", version=2, set=read.hex()),
    )  # fmt: skip
    assert rows[0]["timestamp"] == rows[1]["timestamp"]
    logs = [replay.file(partition=name).read_bytes() for name in ("a-0", "m-0")]
    assert logs[0] == logs[1]
    assert timestamps(replay, partition="m-0") == (
        [*TIMES] if kind == "CreateTime" else [LATER] * 3
    )


def test_a_start_reads_the_first_timestamp_of_the_active_segment(replay: Replay) -> None:
    """By KIP-33. In memory only: after a start the broker reads it, and rolls as it would have."""
    steps = (create(segment_ms=1000), produce("none", BEGIN + 500), produce("none", BEGIN + 400))
    rolled = {}
    for name, between in (("running", ()), ("started", (restart(),))):
        replay.folder = replay.folder.parent / name
        replay.folder.mkdir(parents=True)
        rows = replay(broker(), *steps, *between, produce("none", BEGIN + 1500), produce("none", BEGIN + 1501))  # fmt: skip
        rolled[name] = [row["rolled"] for row in rows if row["do"] == "produce"]
    assert rolled["started"] == rolled["running"] == ["", "", "", "yes"]


@pytest.mark.parametrize(("kafka", "deleted"), [("0.10.0.1", (1, 0)), ("kip", (1, 1))])
def test_a_new_replica_has_new_files(kafka: str, deleted: tuple[int, int], replay: Replay) -> None:
    """By file times its retention begins again at its creation; by timestamps it is that of the leader."""
    config = {"retention_ms": 10_000}
    rows = replay(
        broker("1", kafka), broker("2", kafka), create("1", **config), create("2", **config),
        produce("none", BEGIN), step("roll"), produce("none", BEGIN),
        step("replicate", "2", leader="1", at=BEGIN + 9_000), step("roll", "2"),
        produce("none", BEGIN + 9_500), step("replicate", "2", leader="1"),
        step("retain", "1", at=BEGIN + 10_001), step("retain", "2"),
    )  # fmt: skip
    counts = [int(row["outcome"].split()[0]) for row in rows if row["do"] == "retain"]
    assert (*counts,) == deleted


def test_a_truncation_cuts_the_time_index_with_the_log(replay: Replay) -> None:
    rows = replay(
        broker(), create(index_interval_bytes=0), *(produce("none", BEGIN + n) for n in range(6)),
        step("truncate", offset=3), restart(),
    )  # fmt: skip
    assert rows[-2]["log_end_offset"] == 3
    entries = of_kind(replay.dump(replay.file(".timeindex")), "time-entry")
    assert entries and max(row["timestamp"] for row in entries) == BEGIN + 2
    assert max(row["offset"] for row in entries) <= 3


def test_the_latency_of_messages(replay: Replay) -> None:
    """LogAppendTime minus CreateTime, where a batch has both: magic 2 keeps the producer's time as its base."""
    replay(broker(kafka="2.8.2"), create(**STAMPED), *(produce("none", BEGIN + n, version=3, at=LATER) for n in range(3)))  # fmt: skip
    rows = replay.run("latency", replay.root(), "--json")
    (row,) = [row for row in rows if row.get("source") == "append-time"]
    assert (row["samples"], row["least_ms"], row["most_ms"]) == (3, 59_998, 60_000)


def test_a_quiet_topic_is_rolled(replay: Replay) -> None:
    """One active segment, and no further message: `kafkats plan roll` closes it, so that retention can delete it."""
    replay(broker(kafka="2.8.2"), create(), produce("none", BEGIN, version=3))
    planned = {}
    for waited in (1000, 1001):
        words = ("--config", "segment.ms=1000", "--now", str(BEGIN + waited), "--json")
        rows = replay.run(
            "plan", "roll", replay.root(), "-o", replay.folder / f"plan-{waited}", *words
        )
        planned[waited] = rows[-1]["summary"]["segments_added"]
    assert planned == {1000: 0, 1001: 1}
