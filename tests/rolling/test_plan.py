"""Roll: the plan by tables, and plan, apply, undo on directories of real brokers of every generation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.errors import CorruptPlan, UsageError
from kafkats.findings import Finding
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.inspect.inventory import inventory_units
from kafkats.logdir.snapshot import encode_snapshot
from kafkats.plans.facts import SEGMENTS, all_findings, damaged, directory_row
from kafkats.plans.plan import Plan
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units
from kafkats.rolling.plan import RollOptions, plan_roll
from tests.builders.directories import contents, last_log, unpacked
from tests.builders.operations import altered, applied, undone, verified
from tests.golden import partitions

DAY = 86_400_000
NOW = 1_700_000_000_000
FILE = {"size": 120, "mtime_ns": NOW * 1_000_000, "ctime_ns": 2, "inode": 3}
EMPTY = FILE | {"size": 0}
END = "00000000000000000012"
FAMILY = [("add", f"{END}{kind}") for kind in (".index", ".log", ".snapshot", ".timeindex")]
LOG, TIMEINDEX = "00000000000000000000.log", "00000000000000000000.timeindex"
CLOSE = ("replace", TIMEINDEX)


def facts(**columns: Any) -> dict[str, Any]:
    """An active segment of orders-0 that began eight days ago, with what `columns` say instead."""
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "directory_ctime_ns": 5,
        "topic": "orders",
        "base_offset": 0,
        "next_base_offset": -1,
        "clean": True,
        "log": FILE,
        "index": FILE,
        "timeindex": FILE,
        "last_offset": 11,
        "first_timestamp": NOW - 8 * DAY,
        "max_timestamp": NOW - DAY,
        "findings": [],
    } | columns


def finding(kind: str, file: str = TIMEINDEX, severity: str = "damage") -> dict[str, Any]:
    return {"kind": kind, "severity": severity, "file": file, "position": -1, "entry": -1, "expected": "", "found": "", "reason": "so"}  # fmt: skip


def plan(
    *segments: dict[str, Any], rule: str = "4.1", now_ms: int = NOW, **settings: Any
) -> tuple[Plan, dict[str, Any]]:
    policy = Policy.model_validate({"defaults": settings})
    made, due = plan_roll(
        pa.Table.from_pylist(list(segments), schema=SEGMENTS), policy, RollOptions(now_ms, rule)
    )
    return made, due.to_pylist()[0] if due.num_rows else {}


@pytest.mark.parametrize(
    ("kind", "file", "rolls"),
    [
        ("stray", "00000000000000000012.log", False),
        ("unreadable", "00000000000000000012.log", False),
        ("transient", "00000000000000000000.log.swap", False),
        ("stray", "notes.txt", True),
        ("orphan", "00000000000000000012.index", True),
    ],
)
def test_not_where_another_log_may_be_the_last(kind: str, file: str, rolls: bool) -> None:
    seen = directory_row("/data", "orders-0", [Finding(kind, file, "so")])
    made, row = plan(seen, facts())
    assert row["rolls"] and (row["veto"] == "") == rolls
    assert {item["action"] for item in made.items.to_pylist()} == (
        {"add"} if rolls else {"blocked"}
    )
    assert plan(seen | {"partition_dir": "orders-1"}, facts())[1]["veto"] == ""


@pytest.mark.parametrize(
    ("columns", "settings", "by", "expected"),
    [
        ({}, {}, "time", FAMILY),
        ({"first_timestamp": NOW - 7 * DAY}, {}, "", []),  # strictly more
        ({"first_timestamp": NOW - 7 * DAY - 1}, {}, "time", FAMILY),
        ({}, {"segment.ms": 9 * DAY}, "", []),
        ({"log": EMPTY, "last_offset": -1, "first_timestamp": -1}, {}, "", []),
        ({}, {"segment.ms": 9 * DAY, "segment.bytes": 120}, "size", FAMILY),
        ({}, {"segment.ms": 9 * DAY, "segment.bytes": 121}, "", []),
        ({}, {"segment.ms": 9 * DAY, "segment.index.bytes": 120}, "offset-index", FAMILY),
        ({"index": EMPTY}, {"segment.ms": 9 * DAY, "segment.index.bytes": 132}, "time-index", FAMILY),
        ({}, {"segment.ms": 9 * DAY, "cleanup.policy": "compact", "max.compaction.lag.ms": DAY}, "time", FAMILY),
        ({}, {"segment.ms": 9 * DAY, "cleanup.policy": "delete", "max.compaction.lag.ms": DAY}, "", []),
        # A broker of 0.8 or 0.9 wrote it: no time index, no producers.
        ({"timeindex": None}, {}, "time", [one for one in FAMILY if one[1].endswith((".log", ".index"))]),
        ({"findings": [finding("below-maximum")]}, {}, "time", [CLOSE, *FAMILY]),
        ({"findings": [finding("empty-index")], "timeindex": EMPTY, "index": EMPTY}, {}, "time", [CLOSE, *FAMILY]),
        # Where the offset index has entries, only the log's end was looked at.
        ({"findings": [finding("empty-index")], "timeindex": EMPTY}, {}, "time", [("blocked", LOG)]),
        ({"findings": [finding("not-in-log")]}, {}, "time", [("blocked", LOG)]),
        ({"findings": [finding("torn-tail-marked-clean", LOG, "danger")]}, {}, "time", [("blocked", LOG)]),
        ({"findings": [finding("sound", severity="remark")]}, {}, "time", FAMILY),
        ({"clean": False}, {}, "time", [("blocked", LOG)]),
        ({"last_offset": -1}, {}, "time", [("blocked", LOG)]),
        ({"next_base_offset": 12}, {}, None, []),
    ],
)  # fmt: skip
def test_what_is_planned(
    columns: dict[str, Any],
    settings: dict[str, Any],
    by: str | None,
    expected: list[tuple[str, str]],
) -> None:
    made, due = plan(facts(**columns), **settings)
    assert sorted((i["action"], i["file"]) for i in made.items.to_pylist()) == sorted(expected)
    assert due.get("by") == by
    assert due.get("rolls", False) == bool(by)
    assert bool(due.get("veto")) == (expected == [("blocked", LOG)])


@pytest.mark.parametrize(
    ("rule", "columns", "rolls", "evidence"),
    [
        ("4.1", {"first_timestamp": -1}, True, "created"),
        (
            "4.1",
            {"first_timestamp": -1, "log": FILE | {"mtime_ns": (NOW - DAY) * 1_000_000}},
            False,
            "created",
        ),
        ("0.8", {}, False, "created"),
        ("0.10.1", {}, True, "timestamp"),
        ("largest", {}, False, "timestamp"),
        ("largest", {"max_timestamp": NOW - 8 * DAY}, True, "timestamp"),
    ],
)
def test_what_time_is_counted_from(
    rule: str, columns: dict[str, Any], rolls: bool, evidence: str
) -> None:
    """Created, without its broker's memory: when the segment before was last written to, else when this one was."""
    old = FILE | {"mtime_ns": (NOW - 30 * DAY) * 1_000_000}
    before = facts(base_offset=0, next_base_offset=5, log=old)
    active = facts(base_offset=5) | columns
    if "log" in columns:
        _, due = plan(active, rule=rule)
    else:
        segments = (active,) if rule in ("0.8", "largest", "0.10.1") else (before, active)
        _, due = plan(*segments, rule=rule)
    assert (due["rolls"], due["evidence"]) == (rolls, evidence)


def test_a_rule_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"known are 4\.1, "):
        plan(facts(), rule="5.0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../../x.log"},
        {"file": LOG},
        {"file": f"{END}.txnindex"},
        {"file": "12.log"},
        {"action": "remove", "before": FILE},
        {"action": "replace", "before": FILE, "file": f"{END}.log"},
        {"log": None},
    ],
)
def test_a_sealed_plan_of_something_else_is_not_worked_on(wrong: dict[str, object]) -> None:
    good, _ = plan(facts())
    assert partition_works(good, run_of(good))
    bad = altered(good, wrong)
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))


# On directories that real brokers wrote.


def planned(root: Path) -> Plan:
    """Every active segment is due, whatever its timestamps."""
    segments = pa.Table.from_batches(
        [inventory_units([unit]) for unit in list_units([root])], schema=SEGMENTS
    )
    policy = Policy.model_validate({"defaults": {"segment.bytes": 14}})
    made, _ = plan_roll(segments, policy, RollOptions(now_ms=time.time_ns() // 1_000_000))
    return made


def topics(root: Path) -> list[Path]:
    return [partition for partition in partitions(root) if partition.name != "__cluster_metadata-0"]


@pytest.mark.examples(3)
@pytest.mark.parametrize(
    "name",
    ["rolling-0.8.2.2", "rolling-0.10.2.2", "rolling-2.8.2", "rolling-4.3.1", "transactions-4.3.1", "compaction-3.9.1",
     "upgrade-0.9-to-2.8", "matrix-2.8.2-v1"],
)  # fmt: skip
def test_there_and_back(tmp_path: Path, name: str) -> None:
    root = unpacked(name, tmp_path)
    before, findings = contents(root), all_findings(verified(root, deep=True))
    rolled = {p.name for p in topics(root) if last_log(p).stat().st_size}
    made = planned(root)
    assert (made.header["totals"]["segments_added"], made.header["totals"]["blocked"]) == (
        len(rolled),
        0,
    )
    assert rolled
    summary = applied(made)
    assert (summary["exit_code"], set(summary["outcomes"])) == (0, {"done"})

    after = verified(root, deep=True)
    assert all_findings(after) == findings, "nothing is wrong that was not before"
    now = contents(root)
    assert {file: one for file, one in now.items() if file in before} == before
    for name in {file.split("/")[0] for file in now.keys() - before.keys()}:
        partition, new = root / name, last_log(root / name)
        assert name in rolled
        assert new.stat().st_size == new.with_suffix(".index").stat().st_size == 0
        assert new.stat().st_mode == sorted(partition.glob("*.log"))[-2].stat().st_mode
        later = list(partition.glob("*.timeindex"))
        assert not later or new.with_suffix(".timeindex").stat().st_size == 0
        assert not later or new.with_suffix(".snapshot").stat().st_size >= 10
        assert later or not new.with_suffix(".snapshot").exists(), (
            "a broker of 0.8 knows no producers"
        )
    assert not planned(root).items.num_rows, "an empty segment does not roll"

    assert set(applied(made)["outcomes"]) == {"already"}
    assert {row["outcome"] for row in undone(made)} == {"undone"}
    assert contents(root) == before


def test_the_closing_entry(tmp_path: Path) -> None:
    """A broker that was killed may lack it: cut it off, and it comes back as it was."""
    root = unpacked("rolling-4.3.1", tmp_path)
    originals, cut = {}, 0
    for partition in topics(root):
        index = last_log(partition).with_suffix(".timeindex")
        data = originals[index] = index.read_bytes()
        offsets = last_log(partition).with_suffix(".index").read_bytes()
        if not offsets or (
            len(data) > 12 and data[-4:] >= offsets[-8:-4]
        ):  # else the maximum lies before the tail
            index.write_bytes(data[:-12])
            cut += bool(data)
    made = planned(root)
    assert cut > 3
    assert [i["action"] for i in made.items.to_pylist()].count("replace") == cut
    assert applied(made)["exit_code"] == 0
    assert {index: index.read_bytes() for index in originals} == originals


def test_the_snapshot_at_the_log_end(tmp_path: Path) -> None:
    """It is there after a clean stop and stays; missing or damaged, it is written as the broker had written it."""
    root = unpacked("transactions-4.3.1", tmp_path)
    partition = root / "txn-0"
    snapshot = max(partition.glob("*.snapshot"))
    real = snapshot.read_bytes()
    assert int(snapshot.stem) > int(last_log(partition).stem) and real != encode_snapshot([])
    for damage in (None, b"\0\1broken", b""):
        snapshot.unlink()
        if damage is not None:
            snapshot.write_bytes(damage)
        made = planned(root)
        assert applied(made)["exit_code"] == 0
        assert snapshot.read_bytes() == real
        assert {row["outcome"] for row in undone(made)} == {"undone"}
        assert (snapshot.read_bytes() if snapshot.exists() else None) == damage
        snapshot.write_bytes(real)
    inode = snapshot.stat().st_ino
    assert applied(planned(root))["exit_code"] == 0
    assert snapshot.stat().st_ino == inode


@pytest.mark.parametrize("ahead_ms", [600_000, 2**63 - 1])
def test_before_its_moment_nothing_is_rolled(tmp_path: Path, ahead_ms: int) -> None:
    root = unpacked("rolling-4.3.1", tmp_path)
    segments = pa.Table.from_batches(
        [inventory_units([unit]) for unit in list_units([root])], schema=SEGMENTS
    )
    now_ms = min(time.time_ns() // 1_000_000 + ahead_ms, 2**63 - 1)
    made, _ = plan_roll(segments, Policy(), RollOptions(now_ms))
    before = contents(root)
    rows = [
        row
        for work in partition_works(made, run_of(made))
        for row in apply_partition(work).to_pylist()
    ]
    assert rows and all(
        "ahead of the clock" in row["error"] for row in rows if row["outcome"] == "refused"
    )
    assert contents(root) == before


@pytest.mark.parametrize("change", ["appended", "killed", "snapshot", "rolled"])
def test_what_changed_since_is_refused(tmp_path: Path, change: str) -> None:
    root = unpacked("rolling-4.3.1", tmp_path)
    made = planned(root)
    partition = next(p for p in topics(root) if last_log(p).stat().st_size)
    if change == "appended":
        with last_log(partition).open("ab") as file:
            file.write(last_log(partition).read_bytes())
    elif change == "killed":
        (root / paths.CLEAN_SHUTDOWN).unlink()
    elif change == "rolled":
        end = next(i for i in made.items.to_pylist() if i["partition_dir"] == partition.name)[
            "base_offset"
        ]
        (partition / paths.segment_file(end, paths.LOG)).write_bytes(b"")
    else:
        last_log(partition).unlink()
    before = contents(root)
    works = [
        work for work in partition_works(made, run_of(made)) if work.partition_dir == partition.name
    ]
    rows = [row for work in works for row in apply_partition(work).to_pylist()]
    assert {row["outcome"] for row in rows} == {"refused"}
    assert contents(root) == before


def test_damage_is_left_to_a_rebuild(tmp_path: Path) -> None:
    root = unpacked("rolling-4.3.1", tmp_path)
    partition = next(p for p in topics(root) if last_log(p).with_suffix(".index").stat().st_size)
    last_log(partition).with_suffix(".index").unlink()
    blocked = [item for item in planned(root).items.to_pylist() if item["action"] == "blocked"]
    assert [(item["partition_dir"], "plan rebuild" in item["reason"]) for item in blocked] == [
        (partition.name, True)
    ]
    assert damaged(verified(root, deep=True)).num_rows == 1
