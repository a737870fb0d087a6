"""KIP-228 by `kafkats replay`: both tables of the text, the order of updates, and negative times stored, indexed, searched, rolled and retained."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkats.compression.checksums import crc32c
from tests.builders.commands import objects, run
from tools import demo_kip228

SEEDS = Path(__file__).parents[2] / "docs/seeds"
NONE, EXTENDED, MINUS_1 = "NO_TIMESTAMP (-1)", "NO_TIMESTAMP (Long.MIN_VALUE)", "-1 ms"
LONG_MIN = -(2**63)
SPUTNIK = "1957-10-04T00:00:00Z"
DAY = 86_400_000
Capture = pytest.CaptureFixture[str]


def step(do: str, **fields: Any) -> dict[str, Any]:
    return {"do": do, "broker": "1", "partition": "t-0", **fields}


def sent(*times: int | str | None, **fields: Any) -> dict[str, Any]:
    records = [{"key": "a", "value": "x"} | ({} if t is None else {"timestamp": t}) for t in times]
    return step("produce", **{"version": 3, "dialect": "kip228", "records": records, **fields})


def played(
    capsys: Capture, tmp_path: Path, *steps: dict[str, Any], kafka: str = "kip228", **config: Any
) -> list[dict[str, Any]]:
    """Play steps on one broker with one partition, which time does not roll; return their rows."""
    path = tmp_path / "script.jsonl"
    config = {"segment.ms": 10**13, **config}
    head = [{"do": "broker", "broker": "1", "kafka": kafka}, step("create", config=config)]
    path.write_text("".join(json.dumps(one) + "\n" for one in (*head, *steps)))
    return of_script(capsys, path, tmp_path / "out")[2:]


def of_script(capsys: Capture, path: Path, out: Path) -> list[dict[str, Any]]:
    code, printed, err = run(capsys, "replay", path, "-o", out, "--not-for-a-broker", "--json")
    assert code == 0, err
    return objects(printed)[:-1]


def dumped(capsys: Capture, out: Path, kind: str, name: str = f"{0:020d}.log", *words: str) -> list[dict[str, Any]]:  # fmt: skip
    code, printed, err = run(capsys, "dump", out / "broker-1/t-0" / name, *words)
    assert code == 0, err
    return [row for row in objects(printed) if row["kind"] == kind]


# ---------------------------------------------------------------- the two tables


def time_of(capsys: Capture, tmp_path: Path, **wanted: str | None) -> str:
    """Play the tables' script; return `time` of the only step with these fields."""
    path = SEEDS / "kip228-tables.jsonl"
    lines = path.read_text().splitlines()
    times = []
    for row in of_script(capsys, path, tmp_path / "out"):
        asked = {"dialect": None} | json.loads(lines[row["line"] - 1])
        if wanted.items() <= asked.items():
            assert row["outcome"] != "rejected"
            times.append(row["time"])
    assert len(times) == 1
    return str(times[0])


PRODUCERS = {
    # who sends what, to which broker: what the broker records; bit 6, first and largest timestamp
    ("none-of-an-old-producer-0", "old"): (NONE, (False, -1, -1)),
    ("none-of-an-old-producer-0", "new"): (EXTENDED, (True, LONG_MIN, LONG_MIN)),
    # the text: "Error or", see the next test
    ("none-of-a-new-producer-0", "old"): (NONE, (False, LONG_MIN, -1)),
    ("none-of-a-new-producer-0", "new"): (EXTENDED, (True, LONG_MIN, LONG_MIN)),
    ("minus-1-ms-0", "old"): (NONE, (True, -1, -1)),
    ("minus-1-ms-0", "new"): (MINUS_1, (True, -1, -1)),
}


@pytest.mark.parametrize(("partition", "broker"), PRODUCERS)
def test_a_cell_of_the_producers(
    partition: str, broker: str, tmp_path: Path, capsys: Capture
) -> None:
    """The broker says what it records, and the batch on its disk has it."""
    told = time_of(capsys, tmp_path, do="produce", partition=partition, broker=broker)
    data = (tmp_path / f"out/broker-{broker}/{partition}/{0:020d}.log").read_bytes()
    _, _, _, _, _, attributes, _, first, newest, *_ = PRINTED.unpack_from(data)
    stored = bool(attributes & 0b100_0000), first, newest
    assert (told, stored) == PRODUCERS[partition, broker]


@pytest.mark.parametrize("time", [None, SPUTNIK])
def test_an_old_broker_answers_with_an_error_where_it_has_to_build_the_set(
    time: str | None, tmp_path: Path, capsys: Capture
) -> None:
    """The text: "Error or records this as NO_TIMESTAMP". Kafka's builder takes no negative timestamp but -1."""
    steps = sent(time), sent(time, codec="gzip")
    rows = played(capsys, tmp_path, *steps, kafka="2.0", **{"compression.type": "lz4"})
    assert [row["outcome"] for row in rows] == ["rejected", "rejected"]
    assert "is negative" in rows[0]["error"]


CONSUMERS = {
    # the record's timestamp and isTimestampExtended, the consumer: how it reads the record
    ("none-of-an-old-producer-0", "old", None): NONE,
    ("none-of-an-old-producer-0", "old", "kip228"): EXTENDED,
    ("minus-1-ms-0", "new", None): NONE,
    ("minus-1-ms-0", "new", "kip228"): MINUS_1,
    ("none-of-a-new-producer-0", "new", None): f"error: {LONG_MIN} is negative",
    ("none-of-a-new-producer-0", "new", "kip228"): EXTENDED,
}


@pytest.mark.parametrize(("partition", "broker", "dialect"), CONSUMERS)
def test_a_cell_of_the_consumers(
    partition: str, broker: str, dialect: str | None, tmp_path: Path, capsys: Capture
) -> None:
    told = time_of(capsys, tmp_path, do="fetch", partition=partition, broker=broker, dialect=dialect)  # fmt: skip
    assert told == CONSUMERS[partition, broker, dialect]


@pytest.mark.parametrize("partition", ["minus-1-ms-0", "none-of-a-new-producer-0"])
def test_a_row_of_the_consumers(partition: str, tmp_path: Path, capsys: Capture) -> None:
    """An old and a new consumer read one record of a new broker."""
    for n, dialect in enumerate((None, "kip228")):
        told = time_of(capsys, tmp_path / str(n), do="fetch", partition=partition, broker="new", dialect=dialect)  # fmt: skip
        assert told == CONSUMERS[partition, "new", dialect]


def test_a_converted_fetch_has_no_timestamp_for_long_min(tmp_path: Path, capsys: Capture) -> None:
    """A broker of the dialect that converts for an old consumer turns its own number for none into Kafka's."""
    fetches = [step("fetch", version=2, offset=n) for n in range(3)]
    rows = played(capsys, tmp_path, sent(None), sent(-1), sent(0), *fetches)
    assert [row["outcome"] for row in rows[3:]] == ["converted"] * 3
    assert [row["time"] for row in rows[3:]] == [NONE, NONE, "0 ms"]


def test_the_tables_as_the_demo_prints_them(tmp_path: Path, capsys: Capture) -> None:
    played = demo_kip228.tables(of_script(capsys, demo_kip228.SCRIPT, tmp_path / "out"))
    assert demo_kip228.differences(played) == []
    assert [table.row_count for table in demo_kip228.shown(played)] == [3, 3]
    assert played.producers["minus-1-ms-0"] == (NONE, MINUS_1)


# ---------------------------------------------------------------- the order of updates


def test_brokers_then_consumers_then_producers(tmp_path: Path, capsys: Capture) -> None:
    rows = of_script(capsys, SEEDS / "kip228-phases.jsonl", tmp_path / "out")
    now = "1704067200000 ms"
    times = [row.get("time") for row in rows if row["do"] in ("produce", "fetch")]
    assert times == [
        now, now, EXTENDED, now, f"error: {LONG_MIN} is negative",
        now, EXTENDED, EXTENDED,
        "-386380800000 ms", MINUS_1, "-386380800000 ms", MINUS_1,
    ]  # fmt: skip
    assert not [row for row in rows if row["outcome"] == "rejected"]
    assert rows[-1]["first_offset"] == 0
    logs = [(tmp_path / f"out/broker-{n}/t-0/{0:020d}.log").read_bytes() for n in (1, 2)]
    assert logs[0] == logs[1], "the follower keeps the leader's bytes"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("times", [(None,), (SPUTNIK,), (5, None, 7)])
def test_producers_before_brokers(
    codec: str, times: tuple[str | int | None, ...], tmp_path: Path, capsys: Capture
) -> None:
    """An old broker appends the set, and knows no timestamp below 0: "So broker should be updated first"."""
    rows = played(capsys, tmp_path, sent(*times, codec=codec), kafka="2.0")
    assert rows[0]["outcome"] == "in place"
    assert rows[0]["time"] == ("7 ms" if 7 in times else NONE)


@pytest.mark.parametrize(("kafka", "kept"), [("2.0", False), ("3.0", False), ("3.1", True), ("4.3", True)])  # fmt: skip
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_an_old_broker_and_the_bit(
    kafka: str, kept: bool, codec: str, tmp_path: Path, capsys: Capture
) -> None:
    """Where it writes the header anew, as for a negative maximum, it clears bits that it does not know. From 3.1 on it knows the delete horizon."""
    played(capsys, tmp_path, sent(SPUTNIK, codec=codec), sent(5, codec=codec), kafka=kafka)
    first, second = dumped(capsys, tmp_path / "out", "batch")
    assert first["max_timestamp"] == -1 and first["crc_valid"]
    assert first["delete_horizon_ms"] == (-386380800000 if kept else None)
    assert second["delete_horizon_ms"] == 5, "its header stays"


# ---------------------------------------------------------------- what a leader writes


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", [0, 2, 3])
def test_the_bit_is_1_for_all_new_records(
    codec: str, version: int, tmp_path: Path, capsys: Capture
) -> None:
    """And -1 of an old producer is converted to Long.MIN_VALUE, in each format that it may send.

    A batch that stays in place gets the bit, too.
    """
    times = (None, 7, None) if version else (None, None)
    sets = [sent(*times, dialect=None, version=version, codec=codec)]
    sets += [sent(8, dialect=None, codec=codec), sent(9, codec=codec)]
    rows = played(capsys, tmp_path, *sets)
    built = "converted" if version < 3 else "recompressed"
    assert [row["outcome"] for row in rows] == [built, "in place", "in place"]
    batches = dumped(capsys, tmp_path / "out", "batch", f"{0:020d}.log", "--dialect", "kip228")
    assert [batch["timestamp_extended"] for batch in batches] == [True] * 3
    assert all(batch["codec"] == codec and batch["crc_valid"] for batch in batches)
    deep = dumped(capsys, tmp_path / "out", "record", f"{0:020d}.log", "--deep")
    assert [record["timestamp"] for record in deep] == [
        *(LONG_MIN if time is None else time for time in times), 8, 9,
    ]  # fmt: skip
    assert batches[0]["max_timestamp"] == (7 if version else LONG_MIN)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_set_with_timestamps_stays_in_place(codec: str, tmp_path: Path, capsys: Capture) -> None:
    """An old producer's batch gets the bit and a new checksum, its records stay."""
    rows = played(
        capsys, tmp_path, sent(5, 7, dialect=None, codec=codec), sent(-5, -7, codec=codec)
    )
    assert [row["outcome"] for row in rows] == ["in place", "in place"]
    batches = dumped(capsys, tmp_path / "out", "batch", f"{0:020d}.log", "--dialect", "kip228")
    assert [batch["max_timestamp"] for batch in batches] == [7, -5]
    assert all(batch["timestamp_extended"] and batch["crc_valid"] for batch in batches)


def test_log_append_time(tmp_path: Path, capsys: Capture) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    rows = played(capsys, tmp_path, sent(None), sent(None, dialect=None), step("fetch", version=4, offset=0), **config)  # fmt: skip
    assert {row["time"] for row in rows} == {"1704067200000 ms"}
    assert [row["outcome"] for row in rows[:2]] == ["in place", "in place"]


def test_the_threshold_counts_for_negative_times_too(tmp_path: Path, capsys: Capture) -> None:
    config = {"message.timestamp.difference.max.ms": DAY}
    rows = played(capsys, tmp_path, sent(SPUTNIK), sent(None), **config)
    assert [row["outcome"] for row in rows] == ["rejected", "in place"]
    assert rows[0]["error"].startswith("INVALID_TIMESTAMP: timestamp -386380800000 of record 0")


@pytest.mark.parametrize("kafka", ["kip228", "2.8.2"])
def test_days_count_from_1970(kafka: str, tmp_path: Path, capsys: Capture) -> None:
    """2004-09-16 is 12 677 days after 1970: 12 677 x 86 400 = 1 095 292 800 s."""
    played(capsys, tmp_path, sent("2004-09-16T00:00:00Z", dialect=None), kafka=kafka)
    (record,) = dumped(capsys, tmp_path / "out", "record", f"{0:020d}.log", "--deep")
    assert record["timestamp"] == 12_677 * DAY == 1_095_292_800 * 1000


@pytest.mark.parametrize("kafka", ["kip228", "2.8.2", "4.3"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_negative_times_are_stored_and_carried(
    codec: str, kafka: str, tmp_path: Path, capsys: Capture
) -> None:
    """1957-10-04 is 4 472 days before 1970: -386 380 800 s. A broker serves what it stored."""
    told = sent(SPUTNIK, -2, codec=codec, dialect="kip228" if kafka == "kip228" else None)
    rows = played(capsys, tmp_path, told, step("fetch", version=4, offset=0), kafka=kafka)
    assert [row["outcome"] for row in rows] == ["in place", "as stored"]
    assert rows[0]["bytes"] == rows[1]["bytes"]
    records = dumped(capsys, tmp_path / "out", "record", f"{0:020d}.log", "--deep")
    assert [record["timestamp"] for record in records] == [-4472 * DAY, -2]


def test_a_leader_does_not_fail_at_negative_times(tmp_path: Path, capsys: Capture) -> None:
    """Kafka cannot build a set with them (above); a broker of the dialect can."""
    rows = played(capsys, tmp_path, sent(SPUTNIK, None), sent(-5, version=2, dialect=None), **{"compression.type": "gzip"})  # fmt: skip
    assert [row["outcome"] for row in rows] == ["recompressed", "converted"]
    assert [row["time"] for row in rows] == ["-386380800000 ms", "-5 ms"]


PRINTED = struct.Struct(">qiibIhiqqqhii")
"""The batch of magic 2 as the text prints it, with the CRC and what it leaves out."""


@pytest.mark.parametrize(("codec", "bits"), [("none", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3)])
def test_the_batch_is_as_printed(codec: str, bits: int, tmp_path: Path, capsys: Capture) -> None:
    """Bits 0 to 2 are the codec, then come the timestamp type, isTransactional, isControlBatch and isTimestampExtended."""
    producer = {"id": 77, "epoch": 3, "sequence": 0, "transactional": True}
    first, second = sent(5), sent(9, 7, codec=codec, dialect=None, producer=producer, epoch=4)
    played(capsys, tmp_path, first, second, sent(-9, -7, codec=codec))
    data = (tmp_path / f"out/broker-1/t-0/{0:020d}.log").read_bytes()
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 12 + PRINTED.unpack_from(data, ends[-1])[1])
    assert ends[-1] == len(data) and len(ends) == 4
    base, _, epoch, magic, crc, attributes, *fields = PRINTED.unpack_from(data, ends[1])
    assert (base, epoch, magic, attributes) == (1, 4, 2, 0b101_0000 | bits)
    assert crc == crc32c(data[ends[1] + 21 : ends[2]])
    assert fields == [1, 9, 9, 77, 3, 0, 2]
    base, _, _, _, _, attributes, *fields = PRINTED.unpack_from(data, ends[2])
    assert (base, attributes) == (3, 0b100_0000 | bits)
    assert fields == [1, -9, -7, -1, -1, -1, 2]
    batches = dumped(capsys, tmp_path / "out", "batch", f"{0:020d}.log", "--dialect", "kip228")
    assert [batch["codec"] for batch in batches] == ["none", codec, codec]
    assert all(batch["timestamp_extended"] for batch in batches)


# ---------------------------------------------------------------- indexed, searched, rolled, retained

FIFTIES = [{"at": 1704067200000 + n, **sent(f"195{n}-01-01T00:00:00Z")} for n in range(8)]


def test_negative_times_are_indexed(tmp_path: Path, capsys: Capture) -> None:
    played(capsys, tmp_path, *FIFTIES, **{"index.interval.bytes": 0})
    entries = dumped(capsys, tmp_path / "out", "time-entry", f"{0:020d}.timeindex")
    times = [entry["timestamp"] for entry in entries]
    assert times == sorted(set(times)) and len(times) == 7 and max(times) < 0
    assert [entry["offset"] for entry in entries] == list(range(1, 8))


def test_a_time_without_number_is_not_indexed(tmp_path: Path, capsys: Capture) -> None:
    played(capsys, tmp_path, sent(None), sent(None, dialect=None), **{"index.interval.bytes": 0})
    assert not dumped(capsys, tmp_path / "out", "time-entry", f"{0:020d}.timeindex")


ASKED = (
    ("1949-01-01T00:00:00Z", 0, "first-after"),
    ("1953-01-01T00:00:00Z", 3, "exact"),
    ("1953-01-01T00:00:00.001Z", 4, "first-after"),
    ("1957-01-01T00:00:00Z", 7, "exact"),
    ("1957-10-04T00:00:00Z", -1, "past-end"),
)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("config", [{}, {"index.interval.bytes": 0}, {"segment.bytes": 150}])
def test_negative_times_are_searched(
    config: dict[str, int], clean: bool, tmp_path: Path, capsys: Capture
) -> None:
    """Also after a clean stop, and after a kill, when the indexes are built from the log."""
    lookups = [step("list-offsets", version=1, time=time) for time, _, _ in ASKED]
    again = {"do": "restart", "broker": "1", "clean": clean}
    rows = played(capsys, tmp_path, *FIFTIES, *lookups, again, *lookups, **config)
    answers = [(row["first_offset"], row["outcome"]) for row in rows if row["do"] == "list-offsets"]
    assert answers == [(offset, reason) for _, offset, reason in ASKED] * 2


@pytest.mark.parametrize(("size", "found"), [(10_000, 3), (100, -1)])
def test_shipped_kafka_searches_the_first_segment_only(
    size: int, found: int, tmp_path: Path, capsys: Capture
) -> None:
    """Its time index stays empty, and mtime chooses the segment: always the first."""
    older = [{**one, "dialect": None} for one in FIFTIES]
    asked = step("list-offsets", version=1, time="1953-01-01T00:00:00Z")
    config = {"index.interval.bytes": 0, "segment.bytes": size}
    rows = played(capsys, tmp_path, *older, asked, kafka="2.8.2", **config)
    assert not dumped(capsys, tmp_path / "out", "time-entry", f"{0:020d}.timeindex")
    assert rows[-1]["first_offset"] == found
    assert rows[-1]["outcome"] == ("exact" if found > 0 else "weak-evidence")


def test_truncation_cuts_negative_times(tmp_path: Path, capsys: Capture) -> None:
    """The largest timestamp is read again: a search above it finds nothing, and the next entry follows."""
    lookups = [step("list-offsets", version=1, time=f"195{n}-01-01T00:00:00Z") for n in (4, 5)]
    rows = played(
        capsys, tmp_path, *FIFTIES, step("truncate", offset=5), *lookups,
        sent("1958-01-01T00:00:00Z"), lookups[1], **{"index.interval.bytes": 0},
    )  # fmt: skip
    assert [r["first_offset"] for r in rows if r["do"] == "list-offsets"] == [4, -1, 5]


def test_negative_times_roll(tmp_path: Path, capsys: Capture) -> None:
    """segment.ms counts from the first timestamp, 1950, by the records' own times: a segment of a week would be one for each record."""
    rows = played(capsys, tmp_path, *FIFTIES, **{"segment.ms": 3 * 366 * DAY})
    assert [n for n, row in enumerate(rows) if row["rolled"]] == [4]


def test_shipped_kafka_rolls_by_the_clock_instead(tmp_path: Path, capsys: Capture) -> None:
    older = [{**one, "dialect": None} for one in FIFTIES]
    rows = played(capsys, tmp_path, *older, kafka="2.8.2", **{"segment.ms": 3 * 366 * DAY})
    assert not [row for row in rows if row["rolled"]]


@pytest.mark.parametrize(("kafka", "deleted"), [("kip228", 7), ("2.8.2", 0)])
def test_retention_goes_by_negative_times(
    kafka: str, deleted: int, tmp_path: Path, capsys: Capture
) -> None:
    """Seven segments end before 1957, 67 years ago. For shipped Kafka they are as old as their files, and so the last one stops nothing."""
    told = [{**one, "dialect": None if kafka == "2.8.2" else "kip228"} for one in FIFTIES]
    config = {"segment.bytes": 100, "retention.ms": (2024 - 1957) * 366 * DAY}
    rows = played(capsys, tmp_path, *told, step("retain"), kafka=kafka, **config)
    assert rows[-1]["outcome"] == f"{deleted} segment{'s' * (deleted != 1)} deleted"
    assert rows[-1]["first_offset"] == deleted


# ---------------------------------------------------------------- -1, by name only, for no broker


def test_minus_1_is_shifted_where_it_is_no_timestamp(tmp_path: Path, capsys: Capture) -> None:
    """1969-12-31T23:59:59.999Z cannot be told from "no timestamp"; one millisecond earlier is kept."""
    path = tmp_path / "script.jsonl"
    moment = "1969-12-31T23:59:59.999Z"
    head = {"do": "broker", "broker": "1", "kafka": "2.8.2"}, step("create")
    path.write_text("".join(json.dumps(one) + "\n" for one in (*head, sent(moment, dialect=None))))
    code, _, err = run(capsys, "replay", path, "-o", tmp_path / "refused")
    assert code == 2 and "line 3" in err and "shift it by 1 ms" in err
    rows = played(capsys, tmp_path, sent("1969-12-31T23:59:59.998Z", dialect=None), kafka="2.8.2")
    assert rows[0]["outcome"] == "in place"
    (record,) = dumped(capsys, tmp_path / "out", "record", f"{0:020d}.log", "--deep")
    assert record["timestamp"] == -2


@pytest.mark.parametrize("moment", ["1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.998Z"])
def test_an_instant_is_no_word(moment: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "script.jsonl"
    head = {"do": "broker", "broker": "1", "kafka": "2.8.2"}, step("create")
    asked = step("list-offsets", version=1, time=moment)
    path.write_text("".join(json.dumps(one) + "\n" for one in (*head, asked)))
    code, _, err = run(capsys, "replay", path, "-o", tmp_path / "out")
    assert code == 2 and "line 3" in err and "a word in the protocol" in err


@pytest.mark.parametrize(
    "line",
    [
        {"do": "broker", "broker": "1", "kafka": "kip228"},
        {"do": "restart", "broker": "1", "kafka": "kip228"},
        sent(-1),
        step("fetch", version=4, offset=0, dialect="kip228"),
    ],
)
def test_it_would_mislead_a_broker(line: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(json.dumps(line) + "\n")
    code, _, err = run(capsys, "replay", path, "-o", tmp_path / "out")
    assert code == 3 and "line 1" in err and "--not-for-a-broker" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (sent(-1, version=2), "produce version 3 or later"),
        (step("fetch", version=3, offset=0, dialect="kip228"), "fetch version 4 or later"),
        (sent(-1, dialect="kip229"), "dialect"),
        (sent(-1, codec="zstd"), ""),
    ],
)
def test_the_dialect_is_of_magic_2(
    line: dict[str, Any], says: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "script.jsonl"
    head = {"do": "broker", "broker": "1", "kafka": "kip228"}, step("create")
    path.write_text("".join(json.dumps(one) + "\n" for one in (*head, line)))
    code, out, err = run(capsys, "replay", path, "-o", tmp_path / "out", "--not-for-a-broker")
    assert (code == 2 and says in err) if says else "does not know zstd" in out


def test_without_its_name_bit_6_is_the_delete_horizon(tmp_path: Path, capsys: Capture) -> None:
    played(capsys, tmp_path, sent(SPUTNIK))
    (batch,) = dumped(capsys, tmp_path / "out", "batch")
    assert batch["delete_horizon_ms"] == -386380800000 and "timestamp_extended" not in batch
    (batch,) = dumped(capsys, tmp_path / "out", "batch", f"{0:020d}.log", "--dialect", "kip228")
    assert batch["delete_horizon_ms"] is None and batch["timestamp_extended"] is True


def test_a_record_of_an_older_producer_by_the_dialect(tmp_path: Path, capsys: Capture) -> None:
    """-1 without the bit is none; a reader of the dialect has its own number for it."""
    played(capsys, tmp_path, sent(None, 3, dialect=None), kafka="2.8.2")
    for words, none in ((("--deep",), -1), (("--deep", "--dialect", "kip228"), LONG_MIN)):
        records = dumped(capsys, tmp_path / "out", "record", f"{0:020d}.log", *words)
        assert [record["timestamp"] for record in records] == [none, 3]


def test_its_compaction_is_not_played(tmp_path: Path, capsys: Capture) -> None:
    """Shipped compaction needs bit 6 for the delete horizon."""
    path = tmp_path / "script.jsonl"
    create = step("create", config={"cleanup.policy": "compact"})
    head = {"do": "broker", "broker": "1", "kafka": "kip228"}, create
    path.write_text("".join(json.dumps(one) + "\n" for one in head))
    code, _, err = run(capsys, "replay", path, "-o", tmp_path / "out", "--not-for-a-broker")
    assert code == 2 and "line 2: cleanup.policy" in err


# ---------------------------------------------------------------- what the text rejects


def test_legacy_records_need_no_migration(tmp_path: Path, capsys: Capture) -> None:
    """Rejected: a flag hasTimestamp in each record, which a tool adds to old ones. With the bit the old batches stay as they are."""
    restart = {"do": "restart", "broker": "1", "kafka": "kip228"}
    fetch = step("fetch", version=4, offset=0, dialect="kip228")
    before = played(capsys, tmp_path, sent(None, dialect=None), kafka="2.0")
    log = tmp_path / f"out/broker-1/t-0/{0:020d}.log"
    stored = log.read_bytes()
    (tmp_path / "out").rename(tmp_path / "before")
    rows = played(capsys, tmp_path, sent(None, dialect=None), restart, sent(-1), fetch, kafka="2.0")
    assert before[0]["bytes"] == len(stored) and log.read_bytes()[: len(stored)] == stored
    assert rows[-1]["time"] == EXTENDED


def test_a_delta_that_producers_add(tmp_path: Path, capsys: Capture) -> None:
    """Rejected: 200 years are added to each time. Shipped brokers index and find them, if who asks knows the delta."""
    delta = 200 * 365 * DAY
    steps = [sent(-386380800000 + n * DAY + delta, dialect=None) for n in range(3)]
    asked = [step("list-offsets", version=1, time=-386380800000 + 2 * DAY + more) for more in (delta, 0)]  # fmt: skip
    rows = played(capsys, tmp_path, *steps, *asked, kafka="2.8.2")
    assert [row["first_offset"] for row in rows[3:]] == [2, 0]


def test_no_topic_has_a_property_for_it(tmp_path: Path, capsys: Capture) -> None:
    """Rejected: a property "may have valid negative timestamps". No broker has it, and none is needed for the bit."""
    path = tmp_path / "script.jsonl"
    create = step("create", config={"message.timestamp.negative": True})
    head = {"do": "broker", "broker": "1", "kafka": "kip228"}, create
    path.write_text("".join(json.dumps(one) + "\n" for one in head))
    code, _, err = run(capsys, "replay", path, "-o", tmp_path / "out", "--not-for-a-broker")
    assert code == 2 and "line 2: message.timestamp.negative" in err


# ---------------------------------------------------------------- shipped Kafka, and the other commands


@pytest.mark.parametrize("kafka", ["0.11.0", "2.8.2", "4.3", "kip228"])
def test_verify_says_what_negative_times_do(kafka: str, tmp_path: Path, capsys: Capture) -> None:
    """The time index of shipped brokers stays empty, and that is no defect. Bit 6 is read as the delete horizon."""
    by_name = kafka == "kip228"
    told = [{**one, "dialect": "kip228" if by_name else None} for one in FIFTIES]  # fmt: skip
    played(capsys, tmp_path, *told, kafka=kafka)
    root = tmp_path / "out/broker-1"
    if by_name:
        assert run(capsys, "verify", root)[0] == 3
        root = shutil.copytree(root / "t-0", tmp_path / "copy/t-0")  # nothing names the dialect
    code, out, _ = run(capsys, "verify", root, "--deep", "--json")
    (remark,) = (row for row in objects(out) if row.get("kind") == "negative-timestamps")
    assert "8 records from before 1970, the newest of -410227200000 ms" in remark["reason"]
    assert ("bit 6 of 8 batches is read as a delete horizon" in remark["reason"]) == by_name
    assert code == by_name, "the time index of the dialect is no index of Kafka's"


def test_shipped_logs_of_negative_times_end_to_end(tmp_path: Path, capsys: Capture) -> None:
    """What the commands say is what a broker does: it keeps by mtime, finds in the first segment, and has no largest timestamp. kafkats keeps the active segment."""
    older = [{**one, "dialect": None} for one in FIFTIES]
    played(capsys, tmp_path, *older, kafka="4.3", **{"segment.bytes": 150})
    root = tmp_path / "out/broker-1"
    for at, mine, kafkas in (
        ("1950-01-01T00:00:00Z", 0, 0),
        ("1953-01-01T00:00:00Z", 3, -1),
        ("max-timestamp", 7, -1),
    ):
        code, out, _ = run(capsys, "lookup", root, "--at", at, "--json")
        row = objects(out)[0]
        assert (code, row["offset"], row["kafka_offset"]) == (0, mine, kafkas), at
    policy = tmp_path / "policy.yaml"
    policy.write_text("topics:\n  t:\n    cleanup.policy: delete\n    retention.ms: 86400000\n")
    # three segments, and the producer snapshots of two
    for now, deleted in (("2024-01-01T12:00:00Z", 0), ("2024-01-03T00:00:00Z", 6 * 70 + 2 * 10)):
        words = ["simulate", "retain", root, "--policy", policy, "--now", now, "--json"]
        code, out, err = run(capsys, *words)
        assert code == 0, err
        assert objects(out)[0]["now_bytes"] == deleted
    code, out, _ = run(capsys, "export", root, "--at", "1953-01-01T00:00:00Z", "--to", "spark-offsets")  # fmt: skip
    assert code == 0 and '\\"0\\":3' in out
    code, _, err = run(capsys, "export", root, "--at", "1953-01-01T00:00:00Z", "--to", "spark-by-timestamp")  # fmt: skip
    assert code == 2 and "before 1970" in err


@pytest.mark.parametrize(
    ("at", "offset", "reason"),
    [
        ("1953-01-01T00:00:00Z", 3, "exact"),
        ("1957-10-04T00:00:00Z", 9, "first-after"),
        ("1969-12-31T23:59:59.999Z", 9, "exact"),
        ("1970-01-01T00:00:00Z", -1, "past-end"),
        ("max-timestamp", 9, "exact"),
        ("latest", 11, "exact"),
    ],
)
def test_lookup_by_the_dialect(
    at: str, offset: int, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    """Records without a timestamp, 8 and 10, answer no time. -1 ms is one."""
    steps = (*FIFTIES, sent(None), sent(-1), sent(None, dialect=None))
    played(capsys, tmp_path, *steps, **{"segment.bytes": 150})
    words = ["lookup", tmp_path / "out/broker-1", "--at", at, "--dialect", "kip228", "--json"]
    code, out, err = run(capsys, *words)
    assert code == 0, err
    row = objects(out)[0]
    assert (row["offset"], row["reason"]) == (offset, reason)


@pytest.mark.parametrize(
    "words",
    [
        ["--at", "0", "--dialect", "enriched"],
        ["--at", "0", "--dialect", "kip228", "--how", "kafka"],
        ["--every", "1d", "--from", "-1", "--until", "0", "-o", "t", "--dialect", "kip228"],
    ],
)
def test_lookups_that_have_no_dialect(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    played(capsys, tmp_path, sent(1))
    code, _, err = run(capsys, "lookup", tmp_path / "out/broker-1", *words)
    assert code == 2 and "dialect" in err
    assert not Path("t").exists()


def test_a_lookup_by_the_dialect_in_a_damaged_log(tmp_path: Path, capsys: Capture) -> None:
    played(capsys, tmp_path, sent(1), sent(2))
    log = tmp_path / f"out/broker-1/t-0/{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    words = ["lookup", tmp_path / "out/broker-1", "--dialect", "kip228", "--json", "--at"]
    code, out, _ = run(capsys, *words, "1970-01-01T00:00:00.001Z")
    assert (code, objects(out)[0]["offset"]) == (0, 0), "the answer lies before it"
    code, out, _ = run(capsys, *words, "1970-01-01T00:00:00.002Z")
    assert code == 1 and "CRC" in objects(out)[0]["evidence"]
