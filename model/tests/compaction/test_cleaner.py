"""Compaction by key: partitions that real brokers compacted, replayed to the same files, and the rules one by one."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v2
from kafkats.formats.model import Record
from kafkats.logdir.checkpoints import read_offsets
from kafkats_model.broker.brokers import topic_for
from kafkats_model.broker.generation import generation
from kafkats_model.broker.replay import BEGIN_MS, Row, replay
from kafkats_model.broker.starting import adopt
from kafkats_model.compaction.cleaner import compact
from tests.builders.commands import run
from tests.golden import Case, Unpacked, case, cases

NOW = 1_800_000_000_000
DAY = 86_400_000
PASSES = (("before", "after-first-pass"), ("between", "after"))
KINDS = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)


def step(do: str, **fields: Any) -> dict[str, Any]:
    return {"do": do, "broker": "1", "partition": "t-0", **fields}


def broker(kafka: str, at: int = NOW) -> dict[str, Any]:
    return {"do": "broker", "broker": "1", "kafka": kafka, "at": at}


def played(tmp_path: Path, *steps: dict[str, Any]) -> list[Row]:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in steps))
    return replay(path, tmp_path / "out")


def horizons(partition: Path) -> set[int]:
    found = set()
    for log in partition.glob("*.log"):
        for batch in dispatch.batches(log.read_bytes(), verify=False):
            found |= {batch.delete_horizon_ms} - {None}
    return {one for one in found if one is not None}


def clock(one: Case, partition: str, which: int, new: set[int], retention_ms: int) -> int:
    """When the broker cleaned: to the ms from a delete horizon that it wrote, else from its log."""
    if new:
        return max(new) - retention_ms
    lines = re.findall(
        rf"\[(\S+ \S+)\].*Beginning cleaning of log {re.escape(partition)}\b",
        one.text("broker-log.txt.xz"),
    )
    time = datetime.strptime(lines[-which], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)


GOLDEN = [
    pytest.param(one.name, partition, states, id=f"{one.name} {partition} {states[1]}")
    for one in cases("compaction")
    for partition in one.info["partitions"]
    for states in PASSES
]


@pytest.mark.examples(by="kafka")
@pytest.mark.parametrize(("name", "partition", "states"), GOLDEN)
def test_the_files_are_those_that_the_broker_left(
    name: str, partition: str, states: tuple[str, str], golden: Unpacked, tmp_path: Path
) -> None:
    """K31-14, ENR-33: every log and index of both passes of nine brokers, and the checkpoint."""
    one = case(name)
    before, after = (golden(name, state) / partition for state in states)
    config = one.topic_config(partition)
    config.pop("file.delete.delay.ms", None)
    new = horizons(after) - horizons(before)
    retention = int(config.get("delete.retention.ms", DAY))
    now = clock(one, partition, 2 - PASSES.index(states), new, retention)
    rows = played(
        tmp_path,
        broker(one.kafka, now),
        {**step("create", config=config, **{"from": str(before)}), "partition": partition},
        {**step("compact"), "partition": partition},
    )
    assert " into " in str(rows[2]["outcome"])
    ours = tmp_path / "out/broker-1" / partition
    for kind in KINDS:
        names = {path.name for path in after.glob(f"*{kind}")}
        assert {path.name for path in ours.glob(f"*{kind}")} == names
        for file in sorted(names):
            assert (ours / file).read_bytes() == (after / file).read_bytes(), file
    for path in after.glob("*.log"):
        assert (ours / path.name).stat().st_mtime_ns // 10**6 == path.stat().st_mtime_ns // 10**6
    offset = paths.partition_name(partition)
    checkpoints = [read_offsets(d.parent / paths.CLEANER) for d in (ours, after)]
    assert checkpoints[0][offset] == checkpoints[1][offset]


COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}


def sent(
    *pairs: tuple[str, str | None], at: int = NOW, version: int = 3, **fields: Any
) -> dict[str, Any]:
    """A produce of records (key, value), then a new segment."""
    records = [{"timestamp": at, "key": key, "value": value} for key, value in pairs]
    return step("produce", version=version, records=records, at=at, **fields)


def content(tmp_path: Path) -> list[Record]:
    logs = sorted((tmp_path / "out/broker-1/t-0").glob("*.log"))
    data = [log.read_bytes() for log in logs]
    return [r for one in data for b in dispatch.batches(one) for r in dispatch.records(one, b)]


def offsets(tmp_path: Path) -> list[int]:
    return [record.offset for record in content(tmp_path)]


@pytest.mark.parametrize(
    "kafka", ["0.9.0", "0.10.2", "0.11.0", "2.3", "2.8.2", "3.1", "3.9", "4.3"]
)
def test_the_last_record_of_each_key_stays(kafka: str, tmp_path: Path) -> None:
    version = 1 if kafka == "0.9.0" else 2 if kafka == "0.10.2" else 3
    fields = {"version": version}
    rows = played(
        tmp_path,
        broker(kafka),
        step("create", config={"cleanup.policy": "compact"}),
        sent(("a", "1"), ("b", "1"), **fields),
        sent(("a", "2"), ("c", "1"), **fields),
        step("compact"),
        step("roll"),
        sent(("b", "2"), **fields),
        step("compact"),
        step("compact"),
    )
    assert [row["outcome"] for row in rows[-4::3]] == ["done", "nothing to clean"]
    assert rows[4]["outcome"] == "nothing to clean", "the active segment"
    assert rows[-2] | {"line": 0} == {
        "line": 0, "do": "compact", "broker": "1", "partition": "t-0",
        "outcome": "1 segment into 1", "first_offset": 0, "last_offset": 3, "log_end_offset": 5,
        "bytes": rows[-2]["bytes"], "stored_bytes": rows[-2]["stored_bytes"],
    }  # fmt: skip
    assert offsets(tmp_path) == [1, 2, 3, 4], "b of the active segment does not count"


def test_a_log_that_is_clean_enough_waits(tmp_path: Path) -> None:
    """ENR-33: min.cleanable.dirty.ratio, and max.compaction.lag.ms for a log that waits too long."""
    config = {"cleanup.policy": "compact", "max.compaction.lag.ms": DAY}
    big = [(f"k{n}", "v" * 50) for n in range(20)]
    rows = played(
        tmp_path,
        broker("4.3"),
        step("create", config=config),
        sent(*big),
        step("roll"),
        step("compact"),
        sent(("k1", "new")),
        step("roll"),
        step("compact"),
        step("compact", at=NOW + DAY + 1),
    )
    outcomes = [row["outcome"] for row in rows if row["do"] == "compact"]
    assert outcomes == ["1 segment into 1", "clean enough", "2 segments into 1"]


def test_young_records_wait(tmp_path: Path) -> None:
    config = COMPACT | {"min.compaction.lag.ms": 1000}
    rows = played(
        tmp_path,
        broker("2.8.2"),
        step("create", config=config),
        sent(("a", "1")),
        step("roll"),
        sent(("a", "2"), at=NOW + 500),
        step("roll"),
        step("compact", at=NOW + 1000),
        step("compact", at=NOW + 1500),
    )
    assert [row.get("last_offset") for row in rows[-2:]] == [0, 1]
    assert offsets(tmp_path) == [1]


@pytest.mark.parametrize(("after", "kept"), [(999, True), (1000, False)])
def test_the_time_of_deletion_is_written_into_the_batch(
    after: int, kept: bool, tmp_path: Path
) -> None:
    """KIP-534: the first cleaning writes it, a later one deletes the tombstone."""
    steps = [
        broker("3.1"),
        step("create", config=COMPACT | {"delete.retention.ms": 1000}),
        sent(("a", "1"), ("b", "1"), ("a", None)),
        step("roll"),
        step("compact"),
    ]
    played(tmp_path, *steps)
    log = tmp_path / f"out/broker-1/t-0/{0:020d}.log"
    assert [b.delete_horizon_ms for b in dispatch.batches(log.read_bytes())] == [NOW + 1000]
    assert offsets(tmp_path) == [1, 2]
    more = (sent(("c", "1"), at=NOW + after), step("roll"), step("compact"))
    (tmp_path / "later").mkdir()
    played(tmp_path / "later", *steps, *more)
    assert offsets(tmp_path / "later") == ([1, 2, 3] if kept else [1, 3])


@pytest.mark.parametrize("kafka", ["0.9.0", "0.10.2", "2.8.2"])
@pytest.mark.parametrize(("after", "kept"), [(1000, False), (999, True)])
def test_before_3_1_tombstones_go_by_the_mtimes_of_segments(
    kafka: str, after: int, kept: bool, tmp_path: Path
) -> None:
    """The limit lies delete.retention.ms before the mtime of the last clean segment."""
    version = {"0.9.0": 1, "0.10.2": 2, "2.8.2": 3}[kafka]
    config = COMPACT | {"delete.retention.ms": 1000, "segment.bytes": 110}
    rows = played(
        tmp_path,
        broker(kafka),
        step("create", config=config),
        sent(("a", "1"), ("b", "1"), ("a", None), version=version),
        step("roll"),
        sent(("c", "1"), ("d", "1"), ("e", "1"), at=NOW + after, version=version),
        step("roll"),
        step("compact"),
        sent(("f", "1"), at=NOW + after, version=version),
        step("roll"),
        step("compact"),
    )
    assert rows[6]["outcome"] == "2 segments into 2"
    assert offsets(tmp_path) == ([1, 2, 3, 4, 5, 6] if kept else [1, 3, 4, 5, 6])


def test_records_without_a_key_are_deleted(tmp_path: Path) -> None:
    made = v2.encode_batch([
        Record(n, NOW, 0, key, b"v") for n, key in enumerate((b"a", None, b"b"))
    ])  # type: ignore[arg-type]
    played(
        tmp_path,
        broker("4.3"),
        step("create"),
        step("produce", version=3, set=made.hex()),
        step("roll"),
        {"do": "restart", "broker": "1", "config": COMPACT},
        step("compact"),
    )
    assert offsets(tmp_path) == [0, 2]


def test_the_end_of_the_section_stays_known(tmp_path: Path) -> None:
    """4.0 keeps the last batch of the section, empty, where 3.9 forgets its offset."""
    for kafka, count in (("3.9", 0), ("4.3", 1)):
        folder = tmp_path / kafka
        folder.mkdir()
        made = v2.encode_batch([Record(0, NOW, 0, None, b"v")])  # type: ignore[arg-type]
        played(
            folder,
            broker(kafka),
            step("create"),
            step("produce", version=3, set=made.hex()),
            step("roll"),
            {"do": "restart", "broker": "1", "config": COMPACT},
            step("compact"),
        )
        log = (folder / f"out/broker-1/t-0/{0:020d}.log").read_bytes()
        assert [(b.count, b.last_offset) for b in dispatch.batches(log)] == [(0, 0)] * count


def test_old_formats_become_magic_2_from_4_0_on(golden: Unpacked, tmp_path: Path) -> None:
    source = golden("compaction-2.8.2-v1", "before") / "batches-0"
    rows = played(
        tmp_path,
        broker("4.3"),
        step("create", config=COMPACT, **{"from": str(source)}),
        step("compact"),
    )
    logs = sorted((tmp_path / "out/broker-1/t-0").glob("*.log"))
    magics = [{b.magic for b in dispatch.batches(log.read_bytes())} for log in logs]
    assert {1} == magics[-1] and set().union(*magics[:-1]) == {2}
    assert rows[2]["log_end_offset"] == 560 or int(rows[2]["log_end_offset"]) > 0


def test_one_timer_deletes_and_compacts(tmp_path: Path) -> None:
    """ENR-33: with both policies a partition is compacted, and its old segments are deleted."""
    config = COMPACT | {"cleanup.policy": "compact,delete", "retention.ms": 1000}
    rows = played(
        tmp_path,
        broker("4.3"),
        step("create", config=config),
        sent(("a", "1")),
        step("roll"),
        sent(("a", "2"), ("b", "2"), at=NOW + 900),
        step("roll"),
        step("compact"),
        step("retain", at=NOW + 1500),
    )
    assert [row["outcome"] for row in rows[-2:]] == ["2 segments into 1", "0 segments deleted"]
    assert offsets(tmp_path) == [1, 2]


def test_a_truncated_log_is_dirty_from_there(tmp_path: Path) -> None:
    rows = played(
        tmp_path,
        broker("4.3"),
        step("create", config=COMPACT),
        sent(("a", "1"), ("b", "1")),
        step("roll"),
        sent(("c", "1")),
        step("roll"),
        step("compact"),
        step("truncate", offset=2),
        {"do": "restart", "broker": "1"},
        sent(("b", "2")),
        step("roll"),
        step("compact"),
    )
    assert (rows[-1]["first_offset"], rows[-1]["last_offset"]) == (2, 2)
    assert offsets(tmp_path) == [0, 2]


@pytest.mark.parametrize(
    ("kafka", "steps", "words"),
    [
        ("4.3", [step("create", **{"from": "nowhere-0"})], "nowhere-0"),
        ("4.3", [step("create"), step("compact")], "cleanup.policy of t-0 does not include compact"),
        ("kip228", [step("create", config=COMPACT), step("compact")], "is not played with compact"),
        ("kip228", [step("create", **{"from": "t-0"})], "dialect kip228 takes no copies"),
        ("enriched", [step("create", **{"from": "t-0"})], "dialect enriched takes no copies"),
        ("4.3", [step("create", config=COMPACT | {"min.cleanable.dirty.ratio": 2})], "min.cleanable.dirty.ratio"),
    ],
)  # fmt: skip
def test_errors(
    kafka: str,
    steps: list[dict[str, Any]],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text("".join(json.dumps(one) + "\n" for one in [broker(kafka), *steps]))
    allowed = ["--not-for-a-broker"] if kafka in ("kip228", "enriched") else []
    code, _, told = run(capsys, "replay", script, "-o", tmp_path / "out", *allowed)
    assert code == 2 and words in told


def test_a_damaged_log_is_not_compacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path and the position are told; nothing is replaced."""
    played(
        tmp_path,
        broker("4.3"),
        step("create"),
        sent(("a", "1"), ("b", "1")),
        sent(("a", "2")),
        step("roll"),
    )
    source = tmp_path / "out/broker-1/t-0"
    log = source / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    script = tmp_path / "again.jsonl"
    steps = [
        broker("4.3"),
        step("create", config=COMPACT, **{"from": "out/broker-1/t-0"}),
        step("compact"),
    ]
    script.write_text("".join(json.dumps(one) + "\n" for one in steps))
    code, _, told = run(capsys, "replay", script, "-o", tmp_path / "again")
    assert code == 2 and "line 3: CRC-32C" in told
    assert f"(broker-1/t-0/{log.name} at byte " in told
    assert not (tmp_path / "again").exists()
    rules, copied = generation("4.3"), tmp_path / "copied"
    of = adopt(source, copied, topic_for(COMPACT, rules), rules, BEGIN_MS)
    with pytest.raises(CorruptBatch):
        compact(of, BEGIN_MS)
    assert (copied / log.name).read_bytes() == data
