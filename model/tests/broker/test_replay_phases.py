"""The phases of KIP-31 and KIP-32, played by `kafkats replay` as their texts word them; rows of model/docs/seeds/kip31.toml and kip32.toml."""

from __future__ import annotations

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
    inner_offsets,
    outcomes,
    records,
    restart,
    step,
)

TIMES = (BEGIN, BEGIN + 5)
CODECS = ("none", "gzip", "snappy", "lz4")


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Replay:
    return Replay(capsys, tmp_path)


def produce(
    version: int,
    codec: str = "none",
    name: str = "1",
    times: tuple[int, ...] = TIMES,
    **fields: object,
) -> Step:
    return step("produce", name, version=version, codec=codec, records=records(*times), **fields)


def fetch(version: int, name: str = "1", **fields: int) -> Step:
    return step("fetch", name, version=version, offset=0, **fields)


def stored(replay: Replay, name: str = "1") -> list[Row]:
    return replay.dump(replay.file(name=name))


@pytest.mark.parametrize("codec", CODECS)
def test_phase_1_a_produce_of_version_1(codec: str, replay: Replay) -> None:
    """Absolute offsets, and compressed again."""
    rows = replay(
        broker(), create(message_format_version="0"), produce(1, codec), produce(1, codec)
    )
    assert outcomes(rows) == (["in place"] if codec == "none" else ["recompressed"]) * 2
    assert [row["formats"] for row in rows] == [f"0 {codec}"] * 2
    data = replay.file().read_bytes()
    if codec != "none":
        assert inner_offsets(data, 1) == [2, 3]
    found = [row for row in stored(replay) if row["kind"] == "record"]
    assert [(row["offset"], row["timestamp"]) for row in found] == [(n, -1) for n in range(4)]


@pytest.mark.parametrize("codec", CODECS)
def test_phase_1_a_produce_of_version_2(codec: str, replay: Replay) -> None:
    """Down to magic 0: absolute offsets, the time field is ignored, compressed again."""
    (row,) = replay(broker(), create(message_format_version="0"), produce(2, codec))
    assert (row["outcome"], row["formats"]) == ("converted", f"0 {codec}")
    if codec != "none":
        assert inner_offsets(replay.file().read_bytes()) == [0, 1]
    found = [row for row in stored(replay) if row["kind"] == "record"]
    assert [(row["offset"], row["timestamp"]) for row in found] == [(0, -1), (1, -1)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", CODECS)
def test_phase_1_fetches_are_zero_copy(version: int, codec: str, replay: Replay) -> None:
    rows = replay(broker(), create(message_format_version="0"), produce(2, codec), fetch(version))
    assert rows[1]["outcome"] == "as stored" and rows[1]["formats"] == f"0 {codec}"
    assert rows[1]["bytes"] == rows[1]["stored_bytes"] == replay.file().stat().st_size


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("kind", "time"), [("CreateTime", -1), ("LogAppendTime", BEGIN)])
def test_phase_2_a_produce_of_version_1(codec: str, kind: str, time: int, replay: Replay) -> None:
    """Up to magic 1: relative offsets, compressed again, -1 or the broker's time."""
    config = {"message_format_version": "1", "message_timestamp_type": kind}
    rows = replay(broker(), create(**config), produce(1, codec), produce(1, codec))
    assert outcomes(rows) == ["converted"] * 2
    data = replay.file().read_bytes()
    if codec != "none":
        assert inner_offsets(data, 1) == [0, 1]
    found = [row for row in stored(replay) if row["kind"] == "record"]
    assert [(row["offset"], row["timestamp"]) for row in found] == [(n, time) for n in range(4)]


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_phase_2_a_produce_of_version_2(codec: str, kind: str, replay: Replay) -> None:
    """Checked, perhaps overwritten, and not compressed again: the producer's compressed bytes are on the disk."""
    config = {"message_format_version": "1", "message_timestamp_type": kind}
    rows = replay(broker(), create(**config), produce(2, codec), produce(2, codec))
    assert outcomes(rows) == ["in place"] * 2
    data = replay.file().read_bytes()
    assert compressed(data) == compressed(data, 1)
    assert inner_offsets(data, 1) == [0, 1]
    found = [row for row in stored(replay) if row["kind"] == "record"]
    times = TIMES * 2 if kind == "CreateTime" else (BEGIN,) * 4
    assert [(row["offset"], row["timestamp"]) for row in found] == list(enumerate(times))


@pytest.mark.parametrize("codec", CODECS)
def test_phase_2_fetches(codec: str, replay: Replay) -> None:
    """Version 1 is converted to magic 0, version 2 is sent as it is stored."""
    rows = replay(
        broker(), create(message_format_version="1"), produce(2, codec), fetch(1), fetch(2)
    )
    assert outcomes(rows[1:]) == ["converted", "as stored"]
    assert [row["formats"] for row in rows[1:]] == [f"0 {codec}", f"1 {codec}"]
    assert rows[2]["bytes"] == rows[1]["stored_bytes"] == replay.file().stat().st_size
    assert rows[1]["bytes"] < rows[2]["bytes"]


def test_at_the_begin_of_phase_2_segments_hold_both_formats(replay: Replay) -> None:
    """The broker always converts for fetch version 1, and sends version 2 both formats."""
    rows = replay(
        broker(), create(message_format_version="0"), produce(2),
        restart(message_format_version="1"), produce(2), fetch(1), fetch(2),
    )  # fmt: skip
    assert [row["magic"] for row in stored(replay) if row["kind"] == "batch"] == [0, 0, 1, 1]
    assert outcomes(rows[-2:]) == ["converted", "as stored"]
    assert [row["formats"] for row in rows[-2:]] == ["0 none", "0 none, 1 none"]


def test_after_phase_1_nothing_changes_for_consumers(replay: Replay) -> None:
    """Version 1 before the upgrade and in phase 1 receives the same bytes."""
    rows = replay(
        broker(kafka="0.9.0"), create(), produce(1, "gzip"), fetch(1),
        {**restart(message_format_version="0"), "kafka": "kip"}, fetch(1), fetch(2),
    )  # fmt: skip
    assert outcomes(rows) == ["recompressed", "as stored", "done", "as stored", "as stored"]
    assert len({row["bytes"] for row in rows if row["do"] == "fetch"}) == 1


def test_consumers_are_upgraded_before_producers(replay: Replay) -> None:
    """Producers of version 1 and consumers of version 2 cost no fetch a conversion; the other order costs every one."""
    config = {"message_format_version": "1"}
    rows = replay(broker(), create(**config), produce(1), fetch(2), produce(2), fetch(2), fetch(1))
    sent = [row["outcome"] for row in rows if row["do"] == "fetch"]
    assert sent == ["as stored", "as stored", "converted"]


PROTOCOL = "inter.broker.protocol.version"


@pytest.mark.parametrize(
    ("leader", "follower", "version", "outcome"),
    [
        # the internal version stands for fetch version 2, 0.9.0 for version 1
        ("kip", "0.9.0-1", 2, "as it is"),
        ("kip", "0.9.0", 1, "as it is"),
        # during the upgrade an old leader answers the pinned version, and not the new one
        ("0.9.0.1", "0.9.0", 1, "as it is"),
        ("0.9.0.1", "0.9.0-1", None, "rejected"),
    ],
)  # fmt: skip
def test_the_internal_version(
    leader: str, follower: str, version: int | None, outcome: str, replay: Replay
) -> None:
    old = {"message_format_version": "0"} if leader == "kip" else {}
    rows = replay(
        broker("1", leader), broker("2", "kip", **{PROTOCOL: follower}),
        create("1", **old), create("2", message_format_version="0"),
        produce(1, "gzip"), step("replicate", "2", leader="1"),
    )  # fmt: skip
    assert rows[1]["outcome"] == outcome and rows[1].get("version") == version
    if version is None:
        assert rows[1]["error"] == (
            "UNSUPPORTED_VERSION: fetch version 2 of the follower: Kafka 0.9.0.1 answers 0 to 1"
        )


def test_the_internal_version_is_bumped_after_the_upgrade(replay: Replay) -> None:
    """Pinned to 0.9.0 a follower gets magic 0 from a disk with magic 1; after the bump it gets what the leader has."""
    rows = replay(
        broker("1"), broker("2", **{PROTOCOL: "0.9.0"}), create("1"), create("2"),
        produce(2), step("replicate", "2", leader="1"),
        {"do": "restart", "broker": "2", "config": {PROTOCOL: "0.9.0-1"}},
        produce(2), step("replicate", "2", leader="1"),
    )  # fmt: skip
    sent = [(r["version"], r["outcome"], r["formats"]) for r in rows if r["do"] == "replicate"]
    assert sent == [(1, "converted", "0 none"), (2, "as it is", "1 none")]


def canary(*steps: Step) -> tuple[Step, ...]:
    """Three brokers in phase 1 with two partitions; broker 2, the canary, leads u-0 and follows t-0."""
    names = ("1", "2", "3")
    return (
        *(broker(name) for name in names),
        *(create(name, "t-0", message_format_version="0") for name in names),
        *(create(name, "u-0", message_format_version="0") for name in names),
        restart("2", message_format_version="1"),
        produce(1, "gzip", "1"),
        step("replicate", "2", leader="1"),
        step("produce", "2", "u-0", version=1, codec="gzip", records=records(*TIMES)),
        *(step("replicate", name, "u-0", leader="2") for name in ("1", "3")),
        *steps,
    )


def test_a_canary_sees_old_formats_and_sends_its_own(replay: Replay) -> None:
    """It fetches with version 2, gets magic 0 from the others, and writes magic 1 where it leads."""
    rows = replay(*canary())[1:]
    assert outcomes(rows) == ["recompressed", "as it is", "converted", "as it is", "as it is"]
    assert [row["formats"] for row in rows] == ["0 gzip", "0 gzip", *["1 gzip"] * 3]
    assert rows[1]["version"] == 2


def test_a_canary_converts_for_what_it_leads_alone(replay: Replay) -> None:
    """Few leaders on the canary: each fetch of version 1 from a partition that it leads is converted, and no other."""
    step_of = {"t-0": "1", "u-0": "2"}
    asked = [step("fetch", step_of[p], p, version=1, offset=0) for p in ("t-0", "u-0")]
    rows = replay(*canary(*asked), step("replicate", "3", leader="1"), *asked)
    sent = {row["partition"]: row["outcome"] for row in rows if row["do"] == "fetch"}
    assert sent == {"t-0": "as stored", "u-0": "converted"}


def test_a_canary_is_rolled_back(replay: Replay) -> None:
    """Stop it, delete what it led, set the format back, replicate again: magic 0 is on its disk."""
    rows = replay(
        *canary(
            restart("2", message_format_version="0"),
            step("truncate", "2", "u-0", offset=0),
            step("truncate", "1", "u-0", offset=0),
            step("produce", "1", "u-0", version=1, codec="gzip", records=records(*TIMES)),
            step("replicate", "2", "u-0", leader="1"),
            step("produce", "2", "u-0", version=2, codec="gzip", records=records(*TIMES)),
        )
    )
    assert outcomes(rows[-3:]) == ["recompressed", "as it is", "converted"]
    found = replay.dump(replay.file(name="2", partition="u-0"))
    assert {row["magic"] for row in found if row["kind"] == "batch"} == {0}


def test_a_consumer_that_does_not_know_the_format(replay: Replay) -> None:
    """It asks for version 2 but decodes magic 0: an error, and never wrong records."""
    rows = replay(
        broker(),
        create(),
        produce(2),
        fetch(2, decodes=0),
        fetch(1, decodes=0),
        fetch(2, decodes=1),
    )
    assert outcomes(rows[1:]) == ["rejected", "converted", "as stored"]
    assert rows[1]["error"] == (
        "UNSUPPORTED_VERSION: a message of magic 1, the consumer decodes magic 0 at most"
    )


@pytest.mark.parametrize(
    ("kafka", "config", "says"),
    [
        ("2.8.2", {PROTOCOL: "3.0"}, "inter.broker.protocol.version 3.0: Kafka 2.8.2 does not know it"),
        ("2.8.2", {PROTOCOL: "0.9.0-1"}, "0.9.0-1"),
        ("2.8.2", {PROTOCOL: "kip"}, "Kafka 2.8.2 does not know it"),
        ("4.3", {PROTOCOL: "3.0"}, "Kafka 4.3 has no such setting"),
        ("0.8.2", {PROTOCOL: "0.8.2"}, "Kafka 0.8.2 has no such setting"),
        ("2.8.2", {"log.dirs": "/tmp"}, "log.dirs: is not a setting of a broker"),
    ],
)  # fmt: skip
def test_a_setting_of_a_broker_that_cannot_be(
    kafka: str,
    config: dict[str, str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    replay = Replay(capsys, tmp_path)
    for steps in (
        [broker("1", kafka, **config)],
        [broker("1", kafka), {"do": "restart", "broker": "1", "config": config}],
    ):
        if "log.dirs" in config and len(steps) == 2:
            continue  # a restart takes settings of topics, too
        with pytest.raises(AssertionError, match=says):
            replay(*steps)


def test_a_release_as_protocol_version(replay: Replay) -> None:
    rows = replay(
        broker("1", "2.8.2"), broker("2", "2.8.2", **{PROTOCOL: "0.10.0-IV0"}), create("1"), create("2"),
        produce(3), step("replicate", "2", leader="1"),
    )  # fmt: skip
    assert (rows[1]["version"], rows[1]["outcome"], rows[1]["formats"]) == (
        2,
        "converted",
        "1 none",
    )
