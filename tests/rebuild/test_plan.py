"""Rebuild: the plan by tables, and plan, apply, undo on directories of real brokers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.errors import CorruptPlan, Refused, UsageError
from kafkats.findings import Finding
from kafkats.flow.apply import partition_works, summarize
from kafkats.flow.ending import end_partition
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.facts import SEGMENTS, finding_rows
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import directories, run_of
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, verified
from tests.golden import case

FILE = {"size": 100, "mtime_ns": 1, "ctime_ns": 2, "inode": 3}


def row(base: int = 0, *findings: Finding, **columns: Any) -> dict[str, Any]:
    """A healthy segment of orders-0, with what `columns` say instead."""
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "topic": "orders",
        "base_offset": base,
        "next_base_offset": -1,
        "clean": True,
        "recovery": False,
        "log": FILE,
        "index": FILE,
        "timeindex": FILE,
        "valid_bytes": 100,
        "stop": "",
        "offset_index": "equal",
        "time_index": "equal",
        "rule": "last-offset",
        "rebuilt_index_bytes": 8,
        "rebuilt_index_sha256": "i",
        "rebuilt_timeindex_bytes": 12,
        "rebuilt_timeindex_sha256": "t",
        "settings_from": "given",
        "worst": "damage" if findings else "",
        "findings": finding_rows(findings),
    } | columns


def missing_time_index(base: int = 0, **columns: Any) -> dict[str, Any]:
    file = f"{base:020d}.timeindex"
    return row(
        base,
        Finding("missing-index", file, "gone"),
        time_index="missing",
        timeindex=None,
        **columns,
    )


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SEGMENTS)


def actions(plan: Plan) -> list[tuple[str, str]]:
    return [(item["action"], item["file"]) for item in plan.items.to_pylist()]


BAD = Finding("not-in-log", "00000000000000000000.index", "misleads")
TORN = Finding("bad-crc", "00000000000000000000.log", "bad", 60)
UNDECODABLE = Finding("undecodable", "00000000000000000000.log", "no gzip header", 60)


@pytest.mark.parametrize(
    ("segments", "options", "expected"),
    [
        ([row()], {}, []),
        ([row(offset_index="sound", time_index="sound")], {}, []),
        ([row(offset_index="sound")], {"all": True}, [("replace", "00000000000000000000.index")]),
        ([row(0, BAD, offset_index="defective")], {}, [("replace", "00000000000000000000.index")]),
        ([missing_time_index()], {}, [("add", "00000000000000000000.timeindex")]),
        # Missing, but nothing would be in it: nobody misses it.
        ([row(time_index="missing", timeindex=None)], {}, []),
        ([missing_time_index(topic="other", partition_dir="other-0")], {"topics": "ord*"}, []),
        ([missing_time_index()], {"topics": "ord*"}, [("add", "00000000000000000000.timeindex")]),
        ([missing_time_index()], {"only_after_unclean_stop": True}, []),
        ([missing_time_index(clean=False)], {"only_after_unclean_stop": True}, [("add", "00000000000000000000.timeindex")]),
        ([row(0, BAD, TORN, offset_index="defective", stop="bad-crc")], {}, [("blocked", "00000000000000000000.index")]),
        ([row(0, BAD, TORN, offset_index="defective", stop="bad-crc")], {"valid_prefix": True}, [("replace", "00000000000000000000.index")]),
        ([row(0, BAD, offset_index="defective", blocked="index-full: full")], {"valid_prefix": True}, [("blocked", "00000000000000000000.index")]),
    ],
)  # fmt: skip
def test_what_is_planned(
    segments: list[dict[str, Any]], options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert actions(plan_rebuild(table(*segments), RebuildOptions(**options))) == expected


def test_a_corrupt_log_says_what_recovery_would_cut() -> None:
    broken = row(0, BAD, TORN, offset_index="defective", stop="bad-crc", valid_bytes=60)
    elsewhere = row(70, partition_dir="orders-1")
    plan = plan_rebuild(table(broken, row(50), row(60), elsewhere), RebuildOptions())
    reason = plan.items["reason"][0].as_py()
    assert "byte 60 (bad-crc)" in reason
    assert "cut 40 bytes and delete 2 later segments (200 bytes)" in reason
    alone = plan_rebuild(table(broken, elsewhere), RebuildOptions()).items["reason"][0].as_py()
    assert alone.endswith("would cut 40 bytes"), "it deletes nothing"


def test_totals_say_what_the_broker_redoes_by_itself() -> None:
    plan = plan_rebuild(
        table(missing_time_index(clean=False), row(50, recovery=True)), RebuildOptions()
    )
    totals = plan.header["totals"]
    assert (totals["files"], totals["segments"], totals["read_bytes"], totals["write_bytes"]) == (
        1,
        1,
        100,
        12,
    )
    assert (totals["recovery_segments"], totals["recovery_bytes"]) == (1, 100)


def test_a_rule_that_misleads_brokers_must_be_asked_for_twice() -> None:
    with pytest.raises(Refused, match="mislead"):
        plan_rebuild(table(row()), RebuildOptions(rule="kip33"))
    plan_rebuild(table(row()), RebuildOptions(rule="kip33", not_for_a_broker=True))
    with pytest.raises(UsageError, match="unknown rule"):
        plan_rebuild(table(row()), RebuildOptions(rule="best"))


# On directories that real brokers wrote.
REAL = "matrix-4.3.1-v2"


def policy(name: str) -> Policy:
    """The settings that the case's topics were written with."""
    topics = {
        topic: TopicSettings.model_validate({
            "index.interval.bytes": case(name).interval(f"{topic}-0")
        })
        for topic in case(name).info["topics"]
    }
    return Policy(topics=topics)


def look(root: Path, name: str = REAL) -> pa.Table:
    return verified(root, policy=policy(name))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "kafka").mkdir()
    return case(REAL).unpack("data", tmp_path / "kafka")


def damage(root: Path) -> None:
    """What a hard failure and the folk cures for it leave."""
    for number, index in enumerate(sorted(root.glob("[a-z]*/*.timeindex"))):
        if index.stat().st_size < 24:
            continue
        match number % 4:
            case 0:
                index.unlink()
            case 1:
                os.truncate(index, 0)
            case 2:
                os.truncate(index, 4096 * 12)
            case 3:
                os.truncate(index, index.stat().st_size - 12)


def test_damaged_indexes_come_back_to_the_byte_and_undo_is_identity(root: Path) -> None:
    healthy = contents(root, but=())
    damage(root)
    damaged = contents(root, but=())
    assert damaged != healthy
    plan = plan_rebuild(look(root), RebuildOptions())
    assert contents(root, but=()) == damaged, "planning changed something"
    assert plan.items.num_rows >= 20
    assert summarize(applied_rows(plan))["outcomes"] == {"done": plan.items.num_rows}
    repaired = contents(root, but=())
    assert {name: data for name, (data, _, _) in repaired.items() if name != ".lock"} == {
        name: data for name, (data, _, _) in healthy.items() if name != ".lock"
    }
    untouched = (
        set(healthy)
        - {f"{i['partition_dir']}/{i['file']}" for i in plan.items.to_pylist()}
        - {".lock"}
    )
    assert {name: repaired[name] for name in untouched} == {
        name: healthy[name] for name in untouched
    }
    again = summarize(applied_rows(plan))
    assert again["outcomes"] == {"already": plan.items.num_rows}
    assert "nothing was changed" in again["note"]
    item = plan.items.to_pylist()[0]
    path = root / item["partition_dir"] / item["file"]
    path.rename(path.with_suffix(".away"))
    assert summarize(applied_rows(plan))["exit_code"] != 0, "a file that is gone is not done"
    path.with_suffix(".away").rename(path)
    assert plan_rebuild(look(root), RebuildOptions()).items.num_rows == 0
    run = run_of(plan)
    for where in directories(run):
        assert end_partition(run, "undo", *where)["outcome"] == "undone"
    assert {k: v for k, v in contents(root, but=()).items() if k != ".lock"} == {
        k: v for k, v in damaged.items() if k != ".lock"
    }


def test_what_changed_since_planning_is_refused(root: Path) -> None:
    damage(root)
    plan = plan_rebuild(look(root), RebuildOptions())
    item = plan.items.to_pylist()[0]
    log = root / item["partition_dir"] / f"{item['base_offset']:020d}.log"
    os.utime(log)
    before = contents(root, but=())
    summary = summarize(applied_rows(plan))
    assert summary["outcomes"]["refused"] >= 1
    assert summary["exit_code"] == 3
    assert any(str(log) in error and "changed" in error for error in summary["errors"])
    changed = {name for name, now in contents(root, but=()).items() if now != before.get(name)}
    assert not any(name.startswith(item["partition_dir"]) for name in changed)


def test_nothing_is_planned_for_a_healthy_directory(root: Path) -> None:
    assert plan_rebuild(look(root), RebuildOptions()).items.num_rows == 0


def test_everything_is_planned_on_request(root: Path, tmp_path: Path) -> None:
    """A follower's indexes are sound; --all rewrites them to what a rebuild gives."""
    (tmp_path / "follower").mkdir()
    follower = case("follower-2.8.2").unpack("follower", tmp_path / "follower")
    assert plan_rebuild(look(follower, "follower-2.8.2"), RebuildOptions()).items.num_rows == 0
    plan = plan_rebuild(look(follower, "follower-2.8.2"), RebuildOptions(all=True))
    assert plan.items.num_rows > 0
    applied_rows(plan)
    states = look(follower, "follower-2.8.2").to_pydict()
    assert set(states["offset_index"]) | set(states["time_index"]) <= {"equal", None, "missing"}


def test_the_text_of_kip33_asked_for_twice_is_written(tmp_path: Path) -> None:
    """Segments without timestamps get the one entry of their mtime, the same when applied as when planned."""
    (tmp_path / "kafka").mkdir()
    root = case("matrix-2.8.2-v0").unpack("data", tmp_path / "kafka")
    policy = Policy(defaults=TopicSettings.model_validate({"index.interval.bytes": 500}))
    options = VerifyOptions(rule="kip33", policy=policy)
    segments = pa.Table.from_batches([verify_unit(u, options) for u in list_units([root])])
    plan = plan_rebuild(segments, RebuildOptions(rule="kip33", not_for_a_broker=True, all=True))
    assert plan.items.num_rows
    assert set(summarize(applied_rows(plan))["outcomes"]) == {"done"}
    written = [
        root / i["partition_dir"] / i["file"]
        for i in plan.items.to_pylist()
        if i["file"].endswith(".timeindex")
    ]
    for path in written:
        mtime_ms = path.with_suffix(".log").stat().st_mtime_ns // 1_000_000
        assert int.from_bytes(path.read_bytes()[-12:-4], "big") == mtime_ms


def test_the_torn_tail_beside_a_clean_marker_is_the_worst(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    root = case("torn-append-4.3.1").unpack("before", tmp_path / "kafka")
    segments = look(root, "torn-append-4.3.1").to_pylist()
    kinds = {f["kind"] for s in segments for f in s["findings"]}
    assert "torn-tail-marked-clean" in kinds
    (root / ".kafka_cleanshutdown").unlink()
    kinds = {f["kind"] for s in look(root, "torn-append-4.3.1").to_pylist() for f in s["findings"]}
    assert "torn-tail-marked-clean" not in kinds
    assert "torn-tail" in kinds


def test_a_few_zeros_beside_a_clean_marker_are_as_bad(root: Path) -> None:
    """Too few for a batch's header: a broker loads them without a word, and appends behind them."""
    (root / ".kafka_cleanshutdown").touch()
    log = max(root.glob("none-ct-0/*.log"))
    os.truncate(log, log.stat().st_size + 11)
    kinds = {f["kind"] for s in look(root).to_pylist() for f in s["findings"]}
    assert "torn-tail-marked-clean" in kinds


def test_kip33_for_reading_needs_asking_twice_and_keeps_its_mtime_entry(tmp_path: Path) -> None:
    root = case("matrix-0.8.2.2-v0").unpack("data", tmp_path)
    options = VerifyOptions(rule="kip33", policy=policy("matrix-0.8.2.2-v0"))
    rows = [verify_unit(unit, options) for unit in list_units([root])]
    segments = pa.Table.from_batches(rows, schema=SEGMENTS)
    with pytest.raises(Refused):
        plan_rebuild(segments, RebuildOptions(rule="kip33"))
    plan = plan_rebuild(segments, RebuildOptions(rule="kip33", not_for_a_broker=True))
    assert summarize(applied_rows(plan))["errors"] == []
    for item in plan.items.to_pylist():
        if item["file"].endswith(".timeindex"):
            mtime_ms = item["log"]["mtime_ns"] // 1_000_000
            entry = (root / item["partition_dir"] / item["file"]).read_bytes()
            relative = item["next_base_offset"] - item["base_offset"]
            assert entry == mtime_ms.to_bytes(8, "big") + relative.to_bytes(4, "big")
    assert sum(item["file"].endswith(".timeindex") for item in plan.items.to_pylist()) > 0


def test_a_copied_partition_can_be_repaired(root: Path, tmp_path: Path) -> None:
    source = next(p for p in sorted(root.iterdir()) if p.name == "none-ct-0")
    copy = tmp_path / "copies" / source.name
    shutil.copytree(source, copy)
    wanted = next(p for p in sorted(copy.glob("*.timeindex")) if p.stat().st_size)
    content = wanted.read_bytes()
    wanted.unlink()
    plan = plan_rebuild(look(copy), RebuildOptions())
    assert actions(plan) == [("add", wanted.name)]
    assert summarize(applied_rows(plan))["outcomes"] == {"done": 1}
    assert wanted.read_bytes() == content


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../../x.index"},
        {"file": "/tmp/00000000000000000000.index"},
        {"file": "00000000000000000000.log"},
        {"base_offset": -1},
        {"partition_dir": "../orders-0"},
        {"action": "remove"},
        {"rule": "mine"},
        {"index_interval_bytes": -1},
        {"segment_index_bytes": 0},
    ],
)
def test_a_sealed_plan_of_something_else_is_not_worked_on(
    root: Path, wrong: dict[str, object]
) -> None:
    damage(root)
    good = plan_rebuild(look(root), RebuildOptions())
    assert partition_works(good, run_of(good))
    items = pa.Table.from_pylist(
        [item | wrong for item in good.items.to_pylist()], schema=good.items.schema
    )
    bad = make_plan(good.operation, {}, {}, items)
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))
    other = make_plan("retire", {}, {}, good.items)
    with pytest.raises(CorruptPlan, match="retire"):
        partition_works(other, run_of(other))


def test_an_index_that_is_a_link_is_left_to_people(root: Path, tmp_path: Path) -> None:
    index = next(p for p in sorted(root.glob("none-ct-0/*.timeindex")) if p.stat().st_size)
    index.rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(b"")
    plan = plan_rebuild(look(root), RebuildOptions())
    assert actions(plan) == [("blocked", index.name)]
    assert "symbolic link" in plan.items["reason"][0].as_py()


def test_aborted_transactions_are_looked_at(tmp_path: Path) -> None:
    name = "transactions-4.3.1"
    root = case(name).unpack("data", tmp_path)
    healthy = {
        f["kind"]
        for s in look(root, name).to_pylist()
        for f in s["findings"]
        if f["file"].endswith(".txnindex")
    }
    assert not healthy
    index = next(p for p in sorted(root.rglob("*.txnindex")) if p.stat().st_size)
    content = index.read_bytes()
    for wrong, kind in (
        (content[:-1], "unreadable"),
        (b"\0\x01" + content[2:], "unreadable"),
        (content[:18] + b"\xff" * 8 + content[26:], "below-base"),
    ):
        index.write_bytes(wrong)
        found = [
            f
            for s in look(root, name).to_pylist()
            for f in s["findings"]
            if f["file"] == index.name
        ]
        assert [f["kind"] for f in found] == [kind]
