"""Replayed brokers meet formats and files that they do not know."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kafkats.compression import limit
from kafkats.errors import BadInput, KafkatsError, UsageError
from kafkats.formats import v0, v1
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.formats.v2 import encode_batch
from kafkats_model.broker import validate
from kafkats_model.broker.replay import Row, replay


def play(folder: Path, *steps: dict[str, object]) -> list[Row]:
    script = folder / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, steps)))
    return replay(script, folder / "out")


def start(kafka: str) -> dict[str, object]:
    return {"do": "broker", "broker": "1", "kafka": kafka}


def at(do: str, **more: object) -> dict[str, object]:
    return {"do": do, "broker": "1", "partition": "t-0", **more}


RECORDS_AT = 1704067200000
RECORDS = [{"timestamp": RECORDS_AT, "value": "v"}]


@pytest.mark.parametrize(
    ("kafka", "version", "outcome", "error"),
    [
        ("0.9.0", 1, "as stored", ""),  # converts nothing, and sends what the disk has
        ("0.10.2", 1, "rejected", "CORRUPT_MESSAGE: Kafka 0.10.2 does not know magic 2"),
        ("0.10.2", 2, "as stored", ""),
        ("2.8.2", 1, "converted", ""),
    ],
)
def test_a_broker_converts_only_formats_that_it_knows(
    kafka: str, version: int, outcome: str, error: str, tmp_path: Path
) -> None:
    rows = play(
        tmp_path, start("2.8.2"), at("create"), at("produce", version=7, records=RECORDS),
        {"do": "restart", "broker": "1", "kafka": kafka}, at("fetch", version=version, offset=0),
    )  # fmt: skip
    assert rows[-1]["outcome"] == outcome
    assert str(rows[-1].get("error", "")).startswith(error)


def of_one(magic: int, *, zstd: bool = False, **fields: Any) -> str:
    records = [Record(0, RECORDS_AT, TimestampType.CREATE_TIME, b"k", b"v")]
    if magic < 2:
        return (v1.encode_batch(records) if magic else v0.encode_batch(records)).hex()
    return encode_batch(records, codec=Codec.ZSTD if zstd else Codec.NONE, **fields).hex()


@pytest.mark.parametrize(
    ("kafka", "version", "sent", "says"),
    [
        # Brokers judge the format of a produce from version 3 on.
        ("2.8.2", 0, of_one(2), "in place"),
        ("1.1.1", 1, of_one(1), "converted"),
        ("2.8.2", 2, of_one(2, zstd=True), "in place"),
        (
            "2.8.2",
            3,
            of_one(2, zstd=True),
            "UNSUPPORTED_COMPRESSION_TYPE: zstd needs produce version 7",
        ),
        ("2.0.1", 2, of_one(2, zstd=True), "UNKNOWN_SERVER_ERROR: Kafka 2.0.1 does not know zstd"),
        ("2.8.2", 3, of_one(1), "INVALID_RECORD: produce version 3 does not carry magic 1"),
        ("0.10.2", 2, of_one(2), "CORRUPT_MESSAGE: Kafka 0.10.2 does not know magic 2"),
        ("0.9.0", 0, of_one(1), "CORRUPT_MESSAGE: Kafka 0.9.0 does not know magic 1"),
        # Up to 2.3 several batches are one batch each, or become one: only version 3 brings one.
        ("2.3.1", 2, of_one(2) * 2, "in place"),
        ("2.3.1", 2, of_one(1) + of_one(2), "converted"),
        ("2.3.1", 3, of_one(2) * 2, "CORRUPT_MESSAGE: 2 batches in a set that must be one"),
        ("2.4.1", 2, of_one(2) * 2, "INVALID_RECORD: 2 batches in a set that must be one"),
    ],
)
def test_formats_that_a_broker_takes(
    kafka: str, version: int, sent: str, says: str, tmp_path: Path
) -> None:
    rows = play(tmp_path, start(kafka), at("create"), at("produce", version=version, set=sent))
    assert rows[-1].get("error", rows[-1]["outcome"]) == says
    rejected = rows[-1]["outcome"] == "rejected"
    assert rows[-1]["log_end_offset"] == (0 if rejected else sent.count("6b"))  # keys


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (0, 1, "in place"),
        (0, 5, "OUT_OF_ORDER_SEQUENCE_NUMBER: sequence 5 of producer 7 follows 0"),
    ],
)
def test_sequences_in_one_set(first: int, second: int, says: str, tmp_path: Path) -> None:
    """Several batches of a producer in one set, which 2.3 takes."""
    sets = [of_one(2, producer_id=7, producer_epoch=0, base_sequence=n) for n in (first, second)]
    rows = play(
        tmp_path, start("2.3.1"), at("create"), at("produce", version=2, set="".join(sets)),
        at("produce", version=2, set=of_one(2) + sets[1]),
    )  # fmt: skip
    assert rows[2].get("error", rows[2]["outcome"]) == says
    if says == "in place":  # a set counts as appended where one of its batches does
        assert (rows[3]["outcome"], rows[3]["first_offset"]) == ("duplicate", 1)


def test_a_folder_without_segments_is_not_copied(tmp_path: Path) -> None:
    (source := tmp_path / "other").mkdir()
    (source / "large.bin").write_bytes(b"x" * 100)
    with pytest.raises(BadInput, match="it has no segments"):
        play(tmp_path, start("4.3"), at("create", **{"from": "other"}))
    assert not list((tmp_path / "out").rglob("large.bin"))


def test_only_files_of_a_partition_are_copied(tmp_path: Path) -> None:
    play(tmp_path, start("4.3"), at("create"), at("produce", version=7, records=RECORDS))
    (tmp_path / "out" / "broker-1" / "t-0" / "notes.txt").write_text("mine")
    (tmp_path / "out").rename(tmp_path / "before")
    copied = at("create", **{"from": "before/broker-1/t-0"})
    rows = play(tmp_path, start("4.3"), copied, at("fetch", version=7, offset=0))
    assert rows[-1]["bytes"] == 69
    names = {path.name for path in (tmp_path / "out" / "broker-1" / "t-0").iterdir()}
    assert "notes.txt" not in names and "leader-epoch-checkpoint" in names


def test_a_log_with_delete_horizons_is_not_given_to_a_dialect(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    steps = start("4.3"), at("create"), {"do": "restart", "broker": "1", "kafka": "kip228"}
    script.write_text("\n".join(map(json.dumps, steps)))
    with pytest.raises(UsageError, match="would misread these logs"):
        replay(script, tmp_path / "out", not_for_a_broker=True)


def test_a_small_script_cannot_ask_for_any_amount_of_work(tmp_path: Path) -> None:
    many = [{"value": "v", "count": 10_000}] * 11
    with pytest.raises(BadInput, match="at most 100000 records"):
        play(tmp_path, start("4.3"), at("create"), at("produce", version=7, records=many))
    sent = bytearray(
        encode_batch([Record(0, 0, TimestampType.CREATE_TIME, None, b"v")], base_offset=0)
    )
    sent[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(UsageError, match="at most 1048576 are played"):
        play(tmp_path, start("4.3"), at("create"), at("produce", version=7, set=sent.hex()))


def test_a_wrapper_of_too_many_messages_is_no_answer_of_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes minutes to judge. Kafka has no such limit, so the script is at fault."""
    monkeypatch.setattr(validate, "MOST_RECORDS", 3)
    (tmp_path / "again").mkdir()
    for count in (3, 4):
        records = [Record(n, RECORDS_AT, TimestampType.CREATE_TIME, b"", b"") for n in range(count)]
        sent = v1.encode_batch(records, codec=Codec.GZIP).hex()
        steps = start("2.8.2"), at("create"), at("produce", version=2, set=sent)
        if count == 3:
            assert play(tmp_path, *steps)[-1]["outcome"] == "converted"
            continue
        with pytest.raises(UsageError, match=r"line 3: a batch of at most .* and 3 records"):
            play(tmp_path / "again", *steps)


def test_a_batch_of_too_many_bytes_is_no_answer_of_a_broker(tmp_path: Path) -> None:
    zeros = Record(0, RECORDS_AT, TimestampType.CREATE_TIME, b"", bytes(2000))
    sent = encode_batch([zeros], codec=Codec.GZIP).hex()
    try:
        limit.allow(1000)
        with pytest.raises(UsageError, match="line 3: a batch of at most 1000 bytes"):
            play(tmp_path, start("2.8.2"), at("create"), at("produce", version=3, set=sent))
    finally:
        limit.allow(limit.MAX_OUTPUT_BYTES)


def test_an_output_that_is_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("out")
    with pytest.raises(KafkatsError):
        play(tmp_path, start("4.3"))


def test_a_log_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(KafkatsError, match="it is no regular file"):
        play(tmp_path, start("4.3"), at("create"), at("produce-log", version=7, log="pipe.log"))


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (at("produce", version=7, record=RECORDS), "record: this step has no such field"),
        ({"do": "consume", "broker": "1"}, "do: consume is no step; the steps are 'broker',"),
        ({"broker": "1"}, "do: is missing; it names the step"),
        (
            at("create", config={"segment.ms": [1]}),
            "config.segment.ms: is no text, number, true or",
        ),
        (at("create", config=[1]), "config: must be a mapping: keys with values, not a list"),
        (at("roll", at="soon"), "line 2: at: 'soon' is not a time"),
        (at("create", partition="orders"), "partition: 'orders' is no TOPIC-NUMBER"),
        (at("create", partition="t-00"), "partition: 't-00' is no TOPIC-NUMBER"),
        (start("5.0"), "kafka 5.0: not a release that kafkats knows"),
        (
            {"do": "restart", "broker": "1", "config": {"bogus": "x"}},
            "bogus: replay plays no such setting",
        ),
    ],
)
def test_a_wrong_step_is_reported_in_the_words_of_scripts(
    step: dict[str, object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(KafkatsError) as raised:
        play(tmp_path, *([] if step.get("do") == "broker" else [start("4.3")]), step)
    assert reason in raised.value.reason and raised.value.reason.startswith("line ")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (at("create", partition="x-0", **{"from": "gone-0"}), "no such partition directory"),
        (at("produce-log", version=7, log="gone.log"), "no such .log file"),
    ],
)
def test_a_retry_does_not_help_where_a_named_file_does_not_exist(
    step: dict[str, object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"there is {reason}") as raised:
        play(tmp_path, start("4.3"), at("create"), step)
    assert not raised.value.retryable


@pytest.mark.parametrize("line", ["[]", "null", '"roll"'])
def test_a_step_is_an_object(line: str, tmp_path: Path) -> None:
    (script := tmp_path / "script.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(BadInput, match="line 2: a step is a JSON object"):
        replay(script, tmp_path / "out")
