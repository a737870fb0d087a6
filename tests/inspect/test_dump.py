"""Every row against what Kafka's own dump tool (4.3.1) said of the same files."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats import paths
from kafkats.errors import BadInput, CorruptBatch, CorruptIndex, KafkatsError, UsageError
from kafkats.formats.model import Record, TimestampType
from kafkats.formats.v2 import encode_batch
from kafkats.inspect.dump import Row, dump
from tests.builders.commands import run
from tests.golden import Unpacked, case

Lines = list[tuple[object, ...]]
V2 = re.compile(
    r"baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) count: (?P<count>\d+) "
    r"baseSequence: (?P<base_sequence>-?\d+) .*producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader_epoch>-?\d+) .*position: (?P<position>\d+) \w+: (?P<max_timestamp>-?\d+) "
    r"size: (?P<size>\d+) magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<crc_valid>\w+)"
)
V01 = re.compile(
    r"offset: (?P<last_offset>\d+) position: (?P<position>\d+) \w+: (?P<max_timestamp>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d) compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<crc_valid>\w+)"
)
RECORD = re.compile(r"\| offset: (?P<offset>-?\d+) \w+: (?P<timestamp>-?\d+)")
OFFSET = re.compile(r"offset: (?P<offset>-?\d+) position: (?P<position>\d+)$")
TIME = re.compile(r"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>-?\d+)$")
TXN = re.compile(
    r"version: (?P<version>\d+) producerId: (?P<producer_id>\d+) firstOffset: (?P<first_offset>\d+) "
    r"lastOffset: (?P<last_offset>\d+) lastStableOffset: (?P<last_stable_offset>\d+)"
)
PRODUCER = re.compile(  # no last_... where only a transaction marker is known of the producer
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<producer_epoch>-?\d+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+)"
    r"(?:.* lastSequence: (?P<last_sequence>-?\d+) lastOffset: (?P<last_offset>-?\d+) "
    r"offsetDelta: (?P<offset_delta>-?\d+) timestamp: (?P<timestamp>-?\d+))?"
)
KINDS = {
    "batch": (V2, V01),
    "record": (RECORD,),
    "offset-entry": (OFFSET,),
    "time-entry": (TIME,),
    "aborted-txn": (TXN,),
    "producer": (PRODUCER,),
}


def sections(name: str, dump_log: str) -> Iterator[tuple[str, list[str]]]:
    for section in case(name).text(dump_log).split("### ")[1:]:
        path, *lines = section.splitlines()
        if not any(line.startswith("EXCEPTION") for line in lines):
            yield path, lines


def kafkas(lines: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for line in lines:
        for kind, patterns in KINDS.items():
            m = next((m for p in patterns if (m := p.match(line))), None)
            if m:
                yield kind, {k: v for k, v in m.groupdict().items() if v is not None}
                break


def taken(path: Path, *, deep: bool = True) -> tuple[list[Row], KafkatsError | None]:
    """The rows, and the error that ended the dump. Every row must be JSON."""
    rows: list[Row] = []
    try:
        for row in dump(path, deep=deep):
            json.dumps(row).encode()
            rows.append(row)
    except KafkatsError as e:
        return rows, e
    return rows, None


CASES = [
    ("matrix-0.8.2.2-v0", "data", "dump-log.txt.xz"),
    ("matrix-0.10.2.2-v1", "data", "dump-log.txt.xz"),
    ("matrix-4.1.0-v2", "data", "dump-log.txt.xz"),
    ("content-0.9.0.1-snappy", "data", "dump-log.txt.xz"),
    ("transactions-4.3.1", "data", "dump-log.txt.xz"),
    ("timestamps-3.9.1", "data", "dump-log.txt.xz"),
    ("upgrade-0.9-to-2.8", "data", "dump-log.txt.xz"),
    ("compaction-4.1.0", "after", "dump-log-after.txt.xz"),
    ("crash-4.1.0", "before", "dump-log-before.txt.xz"),
]


@pytest.mark.parametrize(("name", "state", "dump_log"), CASES, ids=[c[0] for c in CASES])
def test_rows_are_what_kafkas_tool_prints(
    name: str, state: str, dump_log: str, golden: Unpacked
) -> None:
    root = golden(name, state)
    compared: dict[str, int] = {}
    for path, lines in sections(name, dump_log):
        if path.startswith(paths.CLUSTER_METADATA) and path.endswith(".checkpoint"):
            continue
        rows, error = taken(root / path)
        said = list(kafkas(lines))
        damaged = error is not None or any(word.startswith("Mismatches") for word in lines)
        if [row["kind"] for row in rows] == ["zeros"]:
            continue  # never cut to size: the tool shows one entry of zeros
        if damaged and not path.endswith(paths.LOG):
            continue  # the tool stops where we go on
        for kind in KINDS:
            theirs = [fields for k, fields in said if k == kind]
            ours = [row for row in rows if row["kind"] == kind]
            if damaged and kind == "record":
                continue
            if kind == "producer":
                theirs.sort(key=lambda f: int(f["producer_id"]))
                ours.sort(key=lambda r: r["producer_id"])
            assert len(ours) == len(theirs), (path, kind)
            for row, fields in zip(ours, theirs, strict=True):
                assert {k: str(row[k]).lower() for k in fields} == fields, (path, row)
            compared[kind] = compared.get(kind, 0) + len(ours)
    assert compared["batch"] > 40
    assert compared["record"] > compared["batch"] / 2
    assert compared["offset-entry"] > 10 or name.startswith(
        "content"
    )  # two topics of one segment each


def test_records_are_what_a_consumer_read(golden: Unpacked) -> None:
    root = golden("content-4.3.1-zstd", "data")
    read = case("content-4.3.1-zstd").records()
    ours = {
        (log.parent.name, row["offset"]): row
        for log in root.glob("*/*.log")
        for row in taken(log)[0]
        if row["kind"] == "record"
    }
    assert len(read) > 100
    for record in read:
        row = ours[record["tp"], record["offset"]]
        assert row["timestamp"] == record["timestamp"]
        for field in ("key", "value"):
            if record.get(field, 0) is None:
                assert row[field] is None
            elif field in record:
                assert row.get(f"{field}_hex", row.get(field, "").encode().hex()) == record[field]
        names = [n for n, _ in record.get("headers", [])]
        assert [h["key"] for h in row["headers"]] == names


def test_shallow_gives_no_records_and_does_not_decompress(golden: Unpacked) -> None:
    path = golden("matrix-0.10.2.2-v1", "data") / "gzip-ct-0" / paths.segment_file(0, paths.LOG)
    shallow, deep = taken(path, deep=False)[0], taken(path)[0]
    assert {row["kind"] for row in shallow} == {"batch"}
    assert {row["base_offset"] for row in shallow} == {None}
    batches = [row for row in deep if row["kind"] == "batch"]
    assert sum(row["count"] for row in batches) == sum(row["kind"] == "record" for row in deep)
    assert all(a["last_offset"] + 1 == b["base_offset"] for a, b in itertools.pairwise(batches))


def test_control_records_are_named(golden: Unpacked) -> None:
    rows = [
        r for log in golden("transactions-4.3.1", "data").glob("txn-0/*.log") for r in taken(log)[0]
    ]
    assert {r.get("control_type") for r in rows if r["kind"] == "record"} == {
        None,
        "COMMIT",
        "ABORT",
    }


def test_every_file_of_a_real_root(golden: Unpacked) -> None:
    kinds = set()
    for path in golden("root-3.9.1", "data").rglob("*"):
        if path.is_file() and path.name not in {"quorum-state", paths.LOCK}:
            rows, error = taken(path)
            assert error is None, path
            kinds |= {row["kind"] for row in rows}
    assert {"batch", "offset", "epoch", "meta", "partition", "clean-stop", "zeros"} <= kinds


@pytest.fixture
def log(golden: Unpacked, tmp_path: Path) -> Path:
    """A copy of a segment of several batches."""
    source = golden("crash-4.1.0", "before") / "untouched-0" / paths.segment_file(0, paths.LOG)
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes())
    return copy


def test_a_torn_tail_is_a_row(log: Path) -> None:
    whole, _ = taken(log, deep=False)
    log.write_bytes(log.read_bytes()[:-5])
    rows, error = taken(log, deep=False)
    last = whole[-1]
    assert rows == [
        *whole[:-1],
        {"kind": "tail", "position": last["position"], "size": last["size"] - 5},
    ]
    assert error is None


def test_zeros_after_the_last_batch(log: Path) -> None:
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + bytes(100))
    rows, error = taken(log)
    assert isinstance(error, CorruptBatch)
    assert (error.position, error.path) == (size, str(log))
    assert rows[-1]["kind"] == "record"


def test_a_wrong_crc_does_not_end_the_dump(log: Path) -> None:
    whole, _ = taken(log)
    data = bytearray(log.read_bytes())
    second = [row for row in whole if row["kind"] == "batch"][1]
    data[second["position"] + 80] ^= 1
    log.write_bytes(data)
    rows, error = taken(log)
    assert isinstance(error, CorruptBatch)
    assert error.position == second["position"]
    assert [r["crc_valid"] for r in rows if r["kind"] == "batch"].count(False) == 1
    assert rows[-1] == whole[-1]


def test_batches_across_windows(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = taken(log)
    for window in (1, 20, 100, 333):
        for module in ("dump", "dump_index"):
            monkeypatch.setattr(f"kafkats.inspect.{module}.WINDOW", window)
        assert taken(log) == whole


def test_a_batch_larger_than_memory_allows(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkats.inspect.dump.WINDOW", 64)
    monkeypatch.setattr("kafkats.inspect.dump.MAX_FRAME", 100)
    rows, error = taken(log)
    assert isinstance(error, CorruptBatch)
    assert (rows, error.position) == ([], 0)


@pytest.mark.parametrize("suffix", ["", ".deleted", ".cleaned", ".swap"])
def test_index_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / (paths.segment_file(1000, paths.OFFSET_INDEX) + suffix)
    path.write_bytes(
        bytes.fromhex("00000005 00000100 00000009 00000200 0000") + bytes(30) + b"\0\0\0\1"
    )
    rows, error = taken(path)
    assert rows[:2] == [
        {"kind": "offset-entry", "entry": 0, "relative_offset": 5, "offset": 1005, "position": 256},
        {"kind": "offset-entry", "entry": 1, "relative_offset": 9, "offset": 1009, "position": 512},
    ]
    assert rows[2:] == [{"kind": "zeros", "entry": 2, "position": 16, "size": 32}]
    assert isinstance(error, CorruptIndex)
    assert error.position == 48


def test_a_preallocated_index_is_told_in_one_row(tmp_path: Path) -> None:
    path = tmp_path / paths.segment_file(7, paths.TIME_INDEX)
    path.write_bytes(bytes(12) + (5).to_bytes(8, "big") + (3).to_bytes(4, "big"))
    os.truncate(path, 10485756)
    rows, error = taken(path)
    assert [(r["kind"], r["entry"]) for r in rows] == [
        ("time-entry", 0),
        ("time-entry", 1),
        ("zeros", 2),
    ]
    assert (rows[1]["offset"], rows[2]["position"], rows[2]["size"]) == (10, 24, 10485756 - 24)
    assert error is None
    path.write_bytes(bytes(12))
    assert [r["timestamp"] for r in taken(path)[0]] == [0]
    path.write_bytes(b"")
    assert taken(path) == ([], None)


SOUND = encode_batch([Record(0, 5, TimestampType.CREATE_TIME, b"k", b"v")])
RANDOM = bytes(range(7, 250, 3)) * 4
ENDS = (
    # file, content, exit code of the command
    ("0.log", SOUND, 0),
    ("0.log", SOUND + SOUND[:-1], 1),
    ("0.log", SOUND + b"x", 1),
    ("0.log", RANDOM, 1),  # its size field asks for more than there is
    ("0.log", SOUND + bytes(100), 2),
    ("0.log", SOUND[:-1] + b"x", 2),
    ("0.index", bytes(7) + b"x", 0),
    ("0.index", RANDOM + b"x", 2),
    ("0.index", bytes(7) + b"x" + bytes(80), 1),
    ("0.timeindex", bytes(120), 1),
    ("0.timeindex", RANDOM + b"x", 2),
    ("0.txnindex", RANDOM, 2),
    ("0.snapshot", RANDOM, 2),
    ("replication-offset-checkpoint", RANDOM, 2),
    ("recovery-point-offset-checkpoint", b"0\n2\nt 0 1\n", 2),
    ("leader-epoch-checkpoint", RANDOM, 2),
    ("meta.properties", RANDOM, 2),
    ("partition.metadata", RANDOM, 2),
    (".kafka_cleanshutdown", RANDOM, 2),
)


@pytest.mark.parametrize(("name", "content", "code"), ENDS)
def test_the_exit_code_says_whether_a_file_ends_well(
    name: str, content: bytes, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run(capsys, "dump", tmp_path / name)[0] == code


def test_a_copy_whose_name_does_not_tell_the_base_offset(tmp_path: Path) -> None:
    path = tmp_path / "damaged.index.swap"
    path.write_bytes(bytes.fromhex("0000000500000100"))
    assert taken(path)[0][0]["offset"] is None


@pytest.mark.parametrize(
    "name", ["gone.log", "folder", "notes.txt", ".lock", "pipe.log", "00000000000000000000.log.tmp"]
)
def test_what_is_not_dumped(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    for made in ("notes.txt", ".lock", "00000000000000000000.log.tmp"):
        (tmp_path / made).touch()
    with pytest.raises(UsageError):
        dump(tmp_path / name)


def test_a_sparse_file_beyond_2_gib(tmp_path: Path) -> None:
    path = tmp_path / paths.segment_file(0, paths.LOG)
    subprocess.run(["truncate", "-s", "3G", str(path)], check=True)
    rows, error = taken(path)
    assert (rows, isinstance(error, CorruptBatch)) == ([], True)


SUFFIXES = [*paths.SEGMENT_KINDS, ".checkpoint"]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SUFFIXES), st.data())
def test_any_mutation_gives_rows_or_our_errors(
    golden: Unpacked, tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    root = golden("transactions-4.3.1", "data") / "txn-0"
    kind = paths.LOG if suffix == ".checkpoint" else suffix
    source = next(p for p in sorted(root.glob(f"*{kind}")) if p.stat().st_size > 20)
    real = source.read_bytes()[:2000]
    at = data.draw(st.integers(0, len(real)))
    cut = data.draw(st.integers(at, min(len(real), at + 20)))
    path = tmp_path_factory.mktemp("mutated") / (source.name.removesuffix(kind) + suffix)
    path.write_bytes(real[:at] + data.draw(st.binary(max_size=20)) + real[cut:])
    rows, error = taken(path)
    assert error is None or (
        isinstance(error, BadInput) and error.position is not None and error.path == str(path)
    )
    for row in rows:
        assert row["kind"]
