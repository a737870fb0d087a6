"""Scripts, played: the matrix of KIP-31 and KIP-32 as outcomes, the same bytes each time, and errors with their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import BadInput, KafkatsError, Refused, StorageFailed, UsageError
from kafkats.formats import v0
from kafkats.formats.model import Record, TimestampType
from kafkats_model.broker.replay import BEGIN_MS, Row, replay
from tests.builders.commands import run
from tests.builders.directories import scan_root

ISO = "2024-01-01T00:00:00Z"
ONE = [{"timestamp": ISO, "key": "a", "value": "x"}]
TWO = [*ONE, {"timestamp": ISO, "key": "b", "value": "y"}]


def broker(name: str = "1", kafka: str = "2.8.2") -> dict[str, Any]:
    return {"do": "broker", "broker": name, "kafka": kafka}


def step(do: str, name: str = "1", **fields: Any) -> dict[str, Any]:
    return {"do": do, "broker": name, "partition": "t-0", **fields}


def played(tmp_path: Path, *steps: dict[str, Any], to: str = "out") -> list[Row]:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in steps))
    return replay(path, tmp_path / to)


def outcomes(rows: list[Row]) -> list[object]:
    return [row["outcome"] for row in rows if row["do"] not in ("broker", "create")]


FORMATS = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
IN_PLACE, CONVERTED, RECOMPRESSED = "in place", "converted", "recompressed"
MATRIX = (
    # produce version, codec, format on disk, outcome
    (1, "none", 0, IN_PLACE),
    (1, "gzip", 0, RECOMPRESSED),  # K31-23: absolute offsets, so compressed again
    (2, "none", 0, CONVERTED),  # K32-33
    (2, "gzip", 0, CONVERTED),  # K31-24
    (1, "none", 1, CONVERTED),  # K32-35
    (1, "gzip", 1, CONVERTED),  # K31-29
    (2, "none", 1, IN_PLACE),
    (2, "gzip", 1, IN_PLACE),  # K31-30: no recompression
    (3, "gzip", 2, IN_PLACE),
    (2, "gzip", 2, CONVERTED),
    (3, "lz4", 1, CONVERTED),
)


@pytest.mark.parametrize(("version", "codec", "magic", "outcome"), MATRIX)
def test_produce(version: int, codec: str, magic: int, outcome: str, tmp_path: Path) -> None:
    rows = played(
        tmp_path,
        broker(),
        step("create", config={"message.format.version": FORMATS[magic]}),
        step("produce", version=version, codec=codec, records=TWO),
        *(step("fetch", version=v, offset=0) for v in (1, 2, 4)),
    )
    sent = ["converted" if magic > most else "as stored" for most in (0, 1, 2)]
    assert outcomes(rows) == [outcome, *sent]
    assert (rows[2]["first_offset"], rows[2]["last_offset"]) == (0, 1)


@pytest.mark.parametrize(
    ("version", "kind", "timestamp"),
    [(2, "LogAppendTime", BEGIN_MS), (1, "LogAppendTime", -1), (2, "CreateTime", -1)],
)
def test_the_timestamp_of_a_produce_response(
    version: int, kind: str, timestamp: int, tmp_path: Path
) -> None:
    config = {"message.format.version": "0.10.0", "message.timestamp.type": kind}
    rows = played(
        tmp_path,
        broker(),
        step("create", config=config),
        step("produce", version=version, records=ONE),
    )
    assert rows[2]["timestamp"] == timestamp


def test_a_canary(tmp_path: Path) -> None:
    """Phase 2 on one broker: its leader converts, the follower takes both formats as they are, old consumers go on."""
    rows = played(
        tmp_path,
        broker("1"),
        broker("2"),
        step("create", config={"message.format.version": "0.9.0"}),
        step("create", "2", config={"message.format.version": "0.9.0"}),
        step("produce", version=2, records=ONE),
        {"do": "restart", "broker": "1", "config": {"message.format.version": "0.10.0", "message.timestamp.difference.max.ms": 1000}},
        step("produce", version=1, records=[{"key": "a"}]),
        step("produce", version=2, records=[{"timestamp": 5, "key": "a"}]),
        step("fetch", version=1, offset=0),
        step("replicate", "2", leader="1"),
        step("replicate", "2", leader="1"),
        step("fetch", version=1, offset=0),
        step("list-offsets", version=1, time=-1),
    )  # fmt: skip
    assert outcomes(rows) == [CONVERTED, "done", CONVERTED, "rejected", "as stored", "as it is", "nothing new", CONVERTED, "exact"]  # fmt: skip
    assert str(rows[7]["error"]).startswith("INVALID_TIMESTAMP: timestamp 5 of record 0")
    assert rows[8]["bytes"] == 0, "nothing is below the high watermark yet"
    assert rows[12]["first_offset"] == 2
    logs = [(tmp_path / f"out/broker-{n}/t-0/{0:020d}.log").read_bytes() for n in (1, 2)]
    assert logs[0] == logs[1]


FULL = (
    broker(),
    broker("2", "4.3"),
    step("create", config={"segment.bytes": 200, "index.interval.bytes": 0}),
    step("create", "2"),
    *(step("produce", version=3, records=TWO, at=BEGIN_MS + n) for n in range(5)),
    step("replicate", "2", leader="1", bytes=1),
    step("replicate", "2", leader="1"),
    step("truncate", offset=5),
    step("delete-records", offset=1),
    step("delete-records", offset=99),
    {"do": "restart", "broker": "1", "clean": False, "lose": 1},
    step("roll"),
    step("produce", version=5, codec="lz4", records=ONE),
    step("list-offsets", version=1, time=ISO),
    step("retain", "2", at="2025-01-01T00:00:00Z"),
    step("produce", version=0, records=ONE),
)


def test_the_same_script_leaves_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = played(tmp_path, *FULL, to="a")
    again = played(tmp_path, *FULL, to="b")
    for row in (*rows, *again):
        row.pop("cpu_us", None)
    assert rows == again
    files = {}
    for name in "ab":
        root = tmp_path / name
        files[name] = {
            str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns)
            for p in root.rglob("*")
            if p.is_file()
        }
    assert files["a"] == files["b"] and len(files["a"]) > 10
    for number in (1, 2):
        root = tmp_path / f"a/broker-{number}"
        assert scan_root(root).clean_shutdown
        code, _, err = run(capsys, "verify", root, "--deep")
        assert code == 0, err
    assert str(rows[-1]["error"] if "error" in rows[-1] else rows[-1]["outcome"]) == CONVERTED


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: no JSON from character 2 on$"),
        ("[]", "line 3: "),
        ('{"do": "dance", "broker": "1"}', "line 3: .*dance"),
        ('{"do": "roll", "broker": "1", "partition": "../x"}', "line 3: roll.partition|line 3: partition"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "more": 1}', "line 3: more"),
        ('{"do": "roll", "broker": "9", "partition": "t-0"}', "line 3: there is no broker 9"),
        ('{"do": "roll", "broker": "1", "partition": "u-0"}', "line 3: broker 1 has no partition u-0"),
        ('{"do": "broker", "broker": "2", "kafka": "7.7"}', "line 3: .*7.7"),
        ('{"do": "broker", "broker": "1", "kafka": "2.8"}', "line 3: there is a broker 1 already"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 2, "records": [{}]}', "line 3: produce version 2: Kafka 4.3 answers 3 to 13"),
        ('{"do": "fetch", "broker": "1", "partition": "t-0", "version": 3, "offset": 0}', "line 3: fetch version 3: Kafka 4.3 answers 4 to 18"),
        ('{"do": "list-offsets", "broker": "1", "partition": "t-0", "version": 0, "time": 0}', "line 3: list-offsets version 0"),
        ('{"do": "list-offsets", "broker": "1", "partition": "t-0", "version": 1, "time": 0, "count": 2}', "line 3: list-offsets version 1 asks for one offset"),
        ('{"do": "list-offsets", "broker": "1", "partition": "t-0", "version": 1, "time": 0, "count": 0}', "line 3: list-offsets.count|line 3: count"),
        ('{"do": "create", "broker": "1", "partition": "u-0", "config": {"message.format.version": "1"}}', "line 3: message.format.version: Kafka 4.3 has no such"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 3}', "line 3: give records, or a set"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 3, "set": "xy"}', "line 3: set: no hex: two of 0 to 9 and a to f for each byte$"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": 5}', "line 3: the clock stands at"),
        ('{"do": "restart", "broker": "1", "lose": 5}', "line 3: a clean stop loses nothing"),
        ('{"do": "restart", "broker": "1", "kafka": "0.7"}', "line 3: "),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": true}', "line 3: at"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": 1704067200000.0}', "line 3: at"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": NaN}', "line 3: no JSON|line 3: NaN"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": 1e999}', "line 3: "),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": 9007199254740993}', "line 3: at"),
        ('{"do": "roll", "broker": "1", "partition": "t-0", "at": 99999999999999999999}', "line 3: "),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 3, "records": [{"timestamp": true}]}', "line 3: .*timestamp"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 3, "records": [{"timestamp": 1.0}]}', "line 3: .*timestamp"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": true, "records": [{}]}', "line 3: .*version"),
        ('{"do": "produce", "broker": "1", "partition": "t-0", "version": 3, "records": [{}], "producer": {"id": 1, "sequence": 0, "transactional": 1}}', "line 3: .*transactional"),
        ('{"do": "end-transaction", "broker": "1", "partition": "t-0", "producer": 1, "commit": "yes"}', "line 3: .*commit"),
        ('{"do": "fetch", "broker": "1", "partition": "t-0", "version": 4, "offset": 0, "decodes": true}', "line 3: .*decodes"),
        ('{"do": "list-offsets", "broker": "1", "partition": "t-0", "version": 1, "time": false}', "line 3: .*time"),
        ('{"do": "restart", "broker": "1", "clean": 0}', "line 3: .*clean"),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be(line: str, says: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    head = [broker(kafka="4.3"), step("create")]
    script.write_text("".join(json.dumps(one) + "\n" for one in head) + line + "\n")
    with pytest.raises(KafkatsError, match=says) as e:
        replay(script, tmp_path / "out")
    assert isinstance(e.value, UsageError | BadInput) and e.value.path == str(script)
    assert sorted(tmp_path.iterdir()) == [script]


def test_a_line_that_is_no_text(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b'\n"\xff"\n')
    with pytest.raises(BadInput, match=r"line 2: not UTF-8$"):
        replay(script, tmp_path / "out")


@pytest.mark.parametrize("data", ["", "00", "ff" * 61, "00" * 100])
def test_bytes_that_are_no_set_are_rejected(data: str, tmp_path: Path) -> None:
    rows = played(tmp_path, broker(), step("create"), step("produce", version=3, set=data))
    assert rows[2]["outcome"] == "rejected" and rows[2]["log_end_offset"] == 0
    assert str(rows[2]["error"]).partition(":")[0] in ("CORRUPT_MESSAGE", "INVALID_RECORD")


def test_it_writes_into_no_log_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(tmp_path, broker(), step("create"), step("produce", version=3, records=ONE))
    script = tmp_path / "script.jsonl"
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "file").write_text("x")
    for folder in ("out", "out/broker-1/new", "out/broker-1/t-0/new", "file"):
        with pytest.raises(Refused):
            replay(script, tmp_path / folder)
        assert run(capsys, "replay", script, "-o", tmp_path / folder)[0] == 3
    (tmp_path / "file").unlink()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("made", ["", "out", "up"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageFailed("no", path="x")])
def test_an_error_leaves_nothing(
    made: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folders that were there before stay."""
    (tmp_path / made).mkdir(exist_ok=True)
    output = tmp_path / "up/up/out" if made == "up" else tmp_path / "out"
    begun: list[bool] = []

    def fails(*_: object) -> None:
        begun.append((output / ".unfinished/broker-1/t-0").is_dir())
        raise error

    monkeypatch.setattr("kafkats_model.broker.partition_log.PartitionLog.close", fails)
    script = tmp_path / "script"
    script.write_text("".join(json.dumps(one) + "\n" for one in (broker(), step("create"))))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((KeyboardInterrupt, StorageFailed)):
        replay(script, output)
    assert begun == [True] and sorted(tmp_path.rglob("*")) == before
    monkeypatch.undo()
    replay(script, output)
    assert [path.name for path in output.iterdir()] == ["broker-1"]


def test_partitions_make_a_log_directory(tmp_path: Path) -> None:
    """Also without checkpoints and markers, and with a folder between."""
    (tmp_path / "logs/notes-1").mkdir(parents=True)
    script = tmp_path / "script"
    script.write_text(json.dumps(broker()))
    replay(script, tmp_path / "logs/out")
    (tmp_path / "logs/t-0").mkdir()
    (tmp_path / "logs/t-0" / f"{0:020d}.log").write_bytes(b"")
    for folder in ("logs/new", "logs/more/new", "logs/t-0/new"):
        with pytest.raises(Refused, match="partition"):
            replay(script, tmp_path / folder)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["notes-1", "out", "t-0"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script"
    script.write_text("# nothing but a broker\n\n" + json.dumps(broker()) + "\n")
    code, out, _ = run(capsys, "replay", script, "-o", tmp_path / "out", "--json")
    first, summary = (json.loads(line) for line in out.splitlines())
    assert code == 0 and first["line"] == 3
    assert summary == {"summary": {"steps": 1, "outcomes": {"done": 1}}}
    assert run(capsys, "replay", tmp_path / "none", "-o", tmp_path / "new")[0] == 2


def test_cpu_is_measured_where_bytes_are_judged_or_converted(tmp_path: Path) -> None:
    rows = played(
        tmp_path,
        broker(),
        step("create", config={"message.format.version": "0.10.0"}),
        step("produce", version=3, codec="gzip", records=TWO * 200),
        step("produce", version=2, records=[{"timestamp": 2**62}] * 3),
        step("fetch", version=1, offset=0),
        step("roll"),
    )
    assert outcomes(rows) == ["converted", "in place", "converted", "done"]
    assert [row["do"] for row in rows if "cpu_us" in row] == ["produce", "produce", "fetch"]
    assert all(int(row["cpu_us"]) > 0 for row in rows[2:5])


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize(("kafka", "magic"), [("0.9.0", 0), ("0.10.2", 1), ("2.8.2", 2)])
def test_a_log_is_sent_again(kafka: str, magic: int, codec: str, tmp_path: Path) -> None:
    """What one broker stores becomes sets of producers to another."""
    made = [{"timestamp": ISO, "key": str(n), "value": "v" * 50} for n in range(40)]
    first = [
        broker(kafka=kafka), step("create"),
        *(step("produce", version=magic + 1, codec=codec, records=made) for _ in range(3)),
    ]  # fmt: skip
    rows = played(tmp_path, *first)
    log = f"out/broker-1/t-0/{0:020d}.log"
    again: dict[str, Any] = {"version": magic + 1, "log": log, "bytes": 1000}
    sent = played(
        tmp_path, broker(kafka=kafka), step("create"), step("produce-log", **again), to="again"
    )[-1]
    recompressed = magic == 0 and codec == "gzip"
    whole = magic == 2 or codec == "gzip"
    assert sent["sets"] == 3 if whole else int(sent["sets"]) > 9
    assert sent["outcome"] == f"{RECOMPRESSED if recompressed else IN_PLACE}: {sent['sets']}"
    assert (sent["first_offset"], sent["last_offset"]) == (0, 119)
    assert int(sent["cpu_us"]) > 0 and sent["log_end_offset"] == rows[-1]["log_end_offset"]
    copy = tmp_path / "again" / "broker-1" / "t-0" / f"{0:020d}.log"
    assert copy.read_bytes() == (tmp_path / log).read_bytes()


def test_sets_of_a_log_are_rejected_one_by_one(tmp_path: Path) -> None:
    rows = played(
        tmp_path,
        broker(),
        step("create"),
        step("produce", version=3, records=ONE),
        step("produce", version=3, records=TWO),
    )
    log = tmp_path / "out" / "broker-1" / "t-0" / f"{0:020d}.log"
    damaged = bytearray(log.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged.log").write_bytes(damaged)
    sent = played(
        tmp_path,
        broker(),
        step("create"),
        step("produce-log", version=3, log="damaged.log"),
        to="again",
    )[-1]
    assert sent["outcome"] == "in place: 1, rejected: 1" and sent["rejected"] == 1
    assert str(sent["error"]).startswith("CORRUPT_MESSAGE") and sent["log_end_offset"] == 1
    old = played(
        tmp_path,
        broker(),
        step("create"),
        step("produce-log", version=2, log="damaged.log"),
        to="old",
    )[-1]
    assert old["outcome"] == "in place: 1, rejected: 1"
    assert rows[-1]["log_end_offset"] == 3


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such .log file"),
        (b"\0" * 40, "size field 0 is below 14"),
        (v0.encode_batch([Record(0, -1, TimestampType.NONE, b"k", b"v")])[:-1], "the last batch is incomplete"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_log(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "x.log").write_bytes(content)
    with pytest.raises(KafkatsError, match=says) as said:
        played(tmp_path, broker(), step("create"), step("produce-log", version=1, log="x.log"))
    assert "line 3" in said.value.reason and "x.log" in said.value.reason
