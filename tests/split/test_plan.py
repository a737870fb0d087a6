"""Split: the plan by tables, and plan, apply, undo on directories of real brokers of every generation."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.errors import CorruptPlan, Refused, UsageError
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.formats import dispatch
from kafkats.index import txn_index
from kafkats.logdir import families
from kafkats.logdir.producers import snapshot_at
from kafkats.plans.facts import SEGMENTS, all_findings, damaged
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units
from kafkats.segment.copying import copy_range
from kafkats.segment.parity import digest_records
from kafkats.split.parts import PARTS, SplitOptions, look
from kafkats.split.plan import plan_split
from kafkats_model.memory_source import array_source
from tests.builders.directories import contents, unpacked
from tests.builders.operations import altered, applied, undone, verified
from tests.golden import partitions

FILE = {"size": 100, "mtime_ns": 1, "ctime_ns": 2, "inode": 3}
LOG = "00000000000000000000.log"
BY_SIZE = SplitOptions("rolled", segment_bytes=600)


def facts(**columns: Any) -> dict[str, Any]:
    """A healthy segment of orders-0, with what `columns` say instead."""
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "directory_ctime_ns": 5,
        "topic": "orders",
        "base_offset": 0,
        "next_base_offset": 20,
        "log": FILE,
        "index": FILE,
        "timeindex": FILE,
        "valid_bytes": 100,
        "stop": "",
        "blocked": "",
        "findings": [],
        "index_interval_bytes": 4096,
        "segment_index_bytes": 1000,
        "settings_from": "given",
    } | columns


def part(offset: int, start: int, end: int, **columns: Any) -> dict[str, Any]:
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "base_offset": 0,
        "part_offset": offset,
        "start": start,
        "end": end,
        "aborted": 0,
        "action": "split",
        "reason": "",
    } | columns


def plan(segments: list[dict[str, Any]], parts: list[dict[str, Any]]) -> Plan:
    return plan_split(
        pa.Table.from_pylist(segments, schema=SEGMENTS),
        pa.Table.from_pylist(parts, schema=PARTS),
        BY_SIZE,
    )


TWO = [part(0, 0, 40), part(7, 40, 100)]
OVERLAP = {"kind": "overlap", "severity": "damage", "file": LOG, "position": -1, "entry": -1, "expected": "", "found": "", "reason": "overlaps"}  # fmt: skip
HEAD = [("replace", ".index", -1), ("replace", ".log", 40), ("replace", ".timeindex", -1)]
TAIL = [
    ("add", ".index", -1),
    ("add", ".log", 60),
    ("add", ".snapshot", -1),
    ("add", ".timeindex", -1),
]


@pytest.mark.parametrize(
    ("columns", "parts", "head", "tail"),
    [
        ({}, TWO, HEAD, TAIL),
        ({}, [], [], []),
        ({"index": None}, TWO, [("add", ".index", -1), *HEAD[1:]], TAIL),
        ({"timeindex": None}, TWO, HEAD[:2], TAIL[:2]),
        ({"txnindex": FILE}, [TWO[0], TWO[1] | {"aborted": 2}],
         [*HEAD, ("remove", ".txnindex", 0)], [*TAIL, ("add", ".txnindex", -1)]),
        ({"txnindex": FILE}, [TWO[0] | {"aborted": 2}, TWO[1]], [*HEAD, ("replace", ".txnindex", -1)], TAIL),
        ({"snapshot": FILE}, TWO, HEAD, TAIL),
    ],
)  # fmt: skip
def test_what_is_planned(
    columns: dict[str, Any], parts: list[dict[str, Any]], head: list[Any], tail: list[Any]
) -> None:
    items = plan([facts(**columns)], parts).items.to_pylist()

    def of(base: int) -> list[tuple[str, str, int]]:
        return [
            (i["action"], i["file"][20:], i["after_bytes"])
            for i in items
            if i["base_offset"] == base
        ]

    assert (sorted(of(0)), sorted(of(7))) == (sorted(head), sorted(tail))
    assert {i["next_base_offset"] for i in items if i["base_offset"] == 7} <= {20}
    assert {i["next_base_offset"] for i in items if i["base_offset"] == 0} <= {7}


@pytest.mark.parametrize(
    ("columns", "parts", "why"),
    [
        ({}, [part(0, 0, 100, action="blocked", reason="no marker")], "no marker"),
        ({"stop": "bad-crc", "valid_bytes": 60}, TWO, "byte 60 .bad-crc"),
        ({"blocked": "offsets-not-increasing: so"}, TWO, "not-increasing"),
        ({"log": FILE | {"size": 101}}, TWO, "make a new plan"),
        ({"findings": [OVERLAP]}, TWO, "overlaps"),
    ],
)
def test_what_stays_whole(columns: dict[str, Any], parts: list[dict[str, Any]], why: str) -> None:
    made = plan([facts(**columns)], parts)
    (item,) = made.items.to_pylist()
    assert (item["action"], item["file"]) == ("blocked", LOG)
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(item["reason"])


@pytest.mark.parametrize(
    "options",
    [
        SplitOptions("size"),
        SplitOptions("rolled"),
        SplitOptions("expired"),
        SplitOptions("mixed", rule="kip33"),
        SplitOptions("mixed", rule="mine"),
    ],
)
def test_options_that_say_nothing(options: SplitOptions) -> None:
    with pytest.raises((UsageError, Refused)):
        plan_split(pa.Table.from_pylist([], SEGMENTS), pa.Table.from_pylist([], PARTS), options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../../x.log"},
        {"file": "00000000000000000001.log"},
        {"file": "0.log", "base_offset": 0},
        {"action": "remove", "before": FILE},
        {"after_bytes": 101, "file": LOG, "base_offset": 0},
        {"after_bytes": -1, "file": LOG, "base_offset": 0},
        {"log": None},
        {"rule": "mine"},
        {"segment_index_bytes": 0},
    ],
)
def test_a_sealed_plan_of_something_else_is_not_worked_on(wrong: dict[str, object]) -> None:
    good = plan([facts()], TWO)
    assert partition_works(good, run_of(good))
    bad = altered(good, wrong)
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))


# On directories that real brokers wrote.


def planned(root: Path, options: SplitOptions) -> Plan:
    parts = pa.Table.from_batches(
        [look(unit, options) for unit in list_units([root])], schema=PARTS
    )
    return plan_split(verified(root), parts, options)


def logs(root: Path) -> dict[str, bytes]:
    """All bytes of each partition, in order."""
    return {
        p.name: b"".join(log.read_bytes() for log in sorted(p.glob("*.log")))
        for p in partitions(root)
    }


def records(log: bytes) -> Any:
    return digest_records(
        array_source(np.frombuffer(log, np.uint8)), timestamps=True, headers=True, control=True
    )


def aborted(partition: Path) -> list[Any]:
    found = []
    for path in sorted(partition.glob("*.txnindex")):
        entries = txn_index.read(path)
        base = int(path.stem)
        following = [int(log.stem) for log in partition.glob("*.log") if int(log.stem) > base]
        assert len(entries) and (entries["last_offset"] >= base).all()
        assert (entries["last_offset"] < min(following, default=2**62)).all()
        found += entries.tolist()
    return found


CASES = [
    ("rolling-0.8.2.2", BY_SIZE, 20),
    ("rolling-0.10.2.2", SplitOptions("rolled", segment_ms=2000), 10),
    ("rolling-4.3.1", SplitOptions("rolled", segment_bytes=1000, segment_ms=5000), 40),
    ("transactions-4.3.1", SplitOptions("rolled", segment_bytes=1), 80),
    ("transactions-2.8.2", BY_SIZE, 30),
    ("compaction-3.9.1", BY_SIZE, 40),
    ("compaction-2.8.2-v1", BY_SIZE, 20),
    ("upgrade-0.9-to-2.8", SplitOptions("rolled", segment_bytes=3000), 8),
    ("matrix-2.8.2-v1", SplitOptions("rolled", segment_bytes=3000), 8),
    ("timestamps-4.3.1", SplitOptions("mixed", latest_ms=1_700_000_000_000), 1),
]


@pytest.mark.slow(1)
@pytest.mark.examples(2)
@pytest.mark.parametrize(
    ("name", "options", "least"), CASES, ids=[f"{one[0]} {one[1].split}" for one in CASES]
)
def test_there_and_back(tmp_path: Path, name: str, options: SplitOptions, least: int) -> None:
    root = unpacked(name, tmp_path)
    before, bytes_before = contents(root), logs(root)
    transactions = {p: aborted(p) for p in partitions(root)}
    made = planned(root, options)
    assert made.header["totals"]["blocked"] == 0
    assert made.header["totals"]["segments_added"] >= least
    summary = applied(made)
    assert (summary["exit_code"], set(summary["outcomes"])) == (0, {"done"})

    after = verified(root, deep=True)
    assert damaged(after).num_rows == 0
    now = contents(root)
    assert logs(root) == bytes_before
    cut = {i["partition_dir"] for i in made.items.to_pylist()}
    assert all(
        one == before[file]
        for file, one in now.items()
        if file in before and file.split("/")[0] not in cut
    )
    assert {p: aborted(p) for p in partitions(root)} == transactions
    seen = {(r["partition_dir"], r["base_offset"]): r for r in after.to_pylist()}
    for item in made.items.to_pylist():
        path = root / item["partition_dir"] / item["file"]
        if item["action"] == "remove":
            assert not path.exists()
        elif path.suffix == ".log":
            data = path.read_bytes()
            assert (
                dispatch.first_offset(data, next(dispatch.batches(data))) == item["base_offset"]
                or item["before"]
            )
            row = seen[item["partition_dir"], item["base_offset"]]
            # a short segment shows no interval: the one of its neighbours may be another by now
            same = row["index_interval_bytes"] == item["index_interval_bytes"]
            assert {row["offset_index"], row["time_index"]} <= {
                "equal",
                "missing",
                *(() if same else ("sound",)),
            }
        elif path.suffix == ".snapshot":
            continue
        if path.exists():
            assert path.stat().st_mtime_ns == item["log"]["mtime_ns"], "mtime is data"
    name_of_one = next(iter(cut))
    assert records(logs(root)[name_of_one]) == records(bytes_before[name_of_one])
    if options.split == "rolled":
        assert not planned(root, options).items.num_rows, "nothing is left to do"

    assert set(applied(made)["outcomes"]) == {"already"}
    assert {row["outcome"] for row in undone(made)} == {"undone"}
    assert contents(root) == before


@pytest.mark.slow(2)
def test_snapshots_are_those_of_the_whole_log(tmp_path: Path) -> None:
    """Each new family's snapshot, against a replay from the first batch on."""
    root = unpacked("transactions-4.3.1", tmp_path)
    made = planned(root, SplitOptions("rolled", segment_bytes=1))
    assert applied(made)["exit_code"] == 0
    partition, bare = root / "txn-0", tmp_path / "txn-0"
    bare.mkdir()
    for log in partition.glob("*.log"):
        shutil.copy2(log, bare)
    states = set()
    for path in sorted(partition.glob("*.snapshot")):
        states.add(path.read_bytes())
        assert path.read_bytes() == snapshot_at(bare, int(path.stem)), path.name
    assert len(states) > 80


@pytest.mark.slow(1)
def test_a_split_head_expires(tmp_path: Path) -> None:
    """The first batch that has not expired begins a segment: all before it is older."""
    root = unpacked("rolling-4.3.1", tmp_path)
    expired = SplitOptions("expired", expired_before_ms=1_600_000_010_000)
    made = planned(root, expired)
    assert made.header["totals"]["segments_added"] > 2
    assert applied(made)["exit_code"] == 0
    assert not planned(root, expired).items.num_rows
    by_base = {
        (r["partition_dir"], r["base_offset"]): r
        for r in verified(root).to_pylist()
        if r["base_offset"] >= 0
    }
    for item in made.items.to_pylist():
        row = by_base[item["partition_dir"], item["base_offset"]]
        if item["action"] == "replace":
            assert 0 <= row["max_timestamp"] < 1_600_000_010_000
        else:
            assert row["first_timestamp"] >= 1_600_000_010_000


def test_an_active_segment_needs_a_clean_stop(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    clean = planned(root, BY_SIZE)
    assert any(item["next_base_offset"] < 0 for item in clean.items.to_pylist())
    (root / paths.CLEAN_SHUTDOWN).unlink()
    assert applied(clean)["exit_code"] == 3
    made = planned(root, BY_SIZE)
    blocked = [item for item in made.items.to_pylist() if item["action"] == "blocked"]
    assert blocked and all(item["next_base_offset"] < 0 for item in blocked)
    assert "clean-shutdown" in blocked[0]["reason"]


@pytest.mark.slow(2)
def test_a_corrupt_segment_stays_and_the_rest_goes_on(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    log = min(root.glob("none-ct-0/*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    made = planned(root, BY_SIZE)
    blocked = [item for item in made.items.to_pylist() if item["action"] == "blocked"]
    assert [(item["partition_dir"], item["file"]) for item in blocked] == [("none-ct-0", log.name)]
    assert applied(made)["exit_code"] == 0
    assert log.read_bytes() == data
    assert [f["kind"] for f in all_findings(verified(root)) if f["severity"] == "damage"].count(
        "bad-crc"
    ) == 1


def test_a_wrapper_that_does_not_decompress_blocks_its_segment(tmp_path: Path) -> None:
    """Its first offset, which the new segment would be called by, is inside of it."""
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    log = min(root.glob("gzip-ct-0/*.log"))
    data = bytearray(log.read_bytes())
    for batch in list(dispatch.batches(bytes(data)))[1:]:
        data[batch.position + 40 : batch.position + 50] = bytes(10)
    log.write_bytes(data)
    blocked = [
        item for item in planned(root, BY_SIZE).items.to_pylist() if item["action"] == "blocked"
    ]
    assert [(item["partition_dir"], item["file"]) for item in blocked] == [("gzip-ct-0", log.name)]


@pytest.mark.examples(3)
@pytest.mark.parametrize("position", [0, 7, 16, 20, 61, -1])
def test_a_copy_that_is_none_is_found_out(
    tmp_path: Path, position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte of an offset, of a magic, of an epoch, of a record, the last one: what the hash is of is what is read back."""

    def copy(log: Path, start: int, end: int, target: Path) -> None:
        copy_range(log, start, end, target)
        data = bytearray(target.read_bytes())
        data[position] ^= 1
        target.write_bytes(data)

    root = unpacked("matrix-4.1.0-v2", tmp_path)
    made = planned(root, BY_SIZE)
    before = contents(root)
    monkeypatch.setattr(families, "copy_range", copy)
    summary = applied(made)
    assert summary["exit_code"] and not summary["outcomes"].keys() & {"done", "already"}
    assert contents(root) == before


@pytest.mark.parametrize("change", ["appended", "other-bytes", "new-segment"])
def test_what_changed_since_is_refused(tmp_path: Path, change: str) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made = planned(root, BY_SIZE)
    log = min(root.glob("none-ct-0/*.log"))
    if change == "appended":
        with log.open("ab") as file:
            file.write(log.read_bytes())
    elif change == "other-bytes":
        log.write_bytes(log.read_bytes())
    else:
        added = [
            i
            for i in made.items.to_pylist()
            if i["partition_dir"] == "none-ct-0" and i["action"] == "add"
        ]
        (log.parent / added[0]["file"]).write_bytes(b"")
    before = contents(root)
    works = [
        work for work in partition_works(made, run_of(made)) if work.partition_dir == "none-ct-0"
    ]
    rows = [row for work in works for row in apply_partition(work).to_pylist()]
    assert {row["outcome"] for row in rows} == {"refused"}
    assert contents(root) == before


def test_a_swap_that_a_broker_has_yet_to_finish_comes_first(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made = planned(root, BY_SIZE)
    (root / "none-ct-0" / "00000000000000000000.log.swap").touch()
    work = next(
        work for work in partition_works(made, run_of(made)) if work.partition_dir == "none-ct-0"
    )
    before = contents(root)
    assert set(apply_partition(work)["outcome"].to_pylist()) == {"refused"}
    assert contents(root) == before
    items = [
        item
        for item in planned(root, BY_SIZE).items.to_pylist()
        if item["partition_dir"] == "none-ct-0"
    ]
    assert items and {item["action"] for item in items} == {"blocked"}
    assert "begun to replace segments" in items[0]["reason"]


def test_a_disk_that_is_too_full_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made, before = planned(root, BY_SIZE), contents(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    summary = applied(made)
    assert summary["exit_code"] == 2 and "nothing was begun" in summary["errors"][0]
    assert contents(root) == before


def test_parts_that_are_not_the_whole_log(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made, before = planned(root, BY_SIZE), contents(root)
    items = [i for i in made.items.to_pylist() if i["partition_dir"] == "none-ct-0"]
    last = max(i["base_offset"] for i in items)
    for wrong in ([i for i in items if i["base_offset"] != last], _shifted(items)):
        bad = make_plan(
            "split",
            made.header["options"],
            {},
            pa.Table.from_pylist(wrong, schema=made.items.schema),
        )
        assert applied(bad)["exit_code"] > 0
        assert contents(root) == before


def _shifted(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first border one byte later."""
    first, second = sorted({i["base_offset"] for i in items})[:2]
    by = {first: 1, second: -1}
    return [
        i
        | {
            "after_bytes": i["after_bytes"]
            + (by.get(i["base_offset"], 0) if i["file"].endswith(".log") else 0)
        }
        for i in items
    ]
