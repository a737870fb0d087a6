"""Retain: what is decided and vetoed by tables; then the runs of real brokers, done again by plan and apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.config.policy import Policy
from kafkats.errors import CorruptPlan, UsageError
from kafkats.findings import Finding
from kafkats.flow.apply import apply_partition, partition_works, rounds, summarize
from kafkats.plans.facts import ACTIONS, SEGMENTS, directory_row, finding_rows
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units, refuse_parts
from kafkats.retention.plan import RETENTION, RetainOptions, plan_retain
from kafkats.retention.proof import not_kept
from kafkats.retention.summary import by_topic, summary_rows
from tests.builders.directories import contents
from tests.builders.operations import inventoried, undone
from tests.golden import Case, case, cases

NOW = 1_000_000
RETAIN = {"cleanup.policy": "delete", "retention.ms": 1000}


def file(size: int, mtime_ms: int = NOW) -> dict[str, int]:
    return {"size": size, "mtime_ns": mtime_ms * 1_000_000, "ctime_ns": 2, "inode": 3}


def segment(
    base: int, largest: int, following: int = -1, *found: Finding, **columns: Any
) -> dict[str, Any]:
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "directory_ctime_ns": 1,
        "topic": "orders",
        "base_offset": base,
        "next_base_offset": following,
        "last_offset": (base + 10 if following < 0 else following) - 1,
        "max_timestamp": largest,
        "first_timestamp": largest,
        "clean": True,
        "recovery": False,
        "log": file(90),
        "index": file(6),
        "timeindex": file(4),
        "log_start_offset": -1,
        "high_watermark": 20,
        "worst": "damage" if found else "",
        "findings": finding_rows(found),
    } | columns


def partition(*largest: int, **columns: Any) -> list[dict[str, Any]]:
    """Segments of ten offsets and 100 bytes each."""
    last = len(largest) - 1
    columns = {"high_watermark": 10 * len(largest)} | columns
    return [
        segment(10 * n, t, -1 if n == last else 10 * n + 10, **columns)
        for n, t in enumerate(largest)
    ]


def decided(
    rows: list[dict[str, Any]],
    settings: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Plan, list[dict[str, Any]]]:
    given = {"topics": {"orders": RETAIN if settings is None else settings}} | (more or {})
    made, verdicts = plan_retain(
        pa.Table.from_pylist(rows, schema=SEGMENTS),
        Policy.model_validate(given),
        RetainOptions(NOW, **options),
    )
    return made, verdicts.to_pylist()


def gone(made: Plan) -> list[int]:
    return sorted({
        i["base_offset"]
        for i in made.items.to_pylist()
        if i["file"].endswith(".log") and i["action"] == "remove"
    })


OLD, FRESH = NOW - 1001, NOW - 1000


@pytest.mark.parametrize(
    ("rows", "settings", "options", "expected", "veto"),
    [
        (partition(OLD, OLD, FRESH), RETAIN, {}, [0, 10], ""),
        (partition(OLD, FRESH, OLD), RETAIN, {}, [0], ""),
        (partition(OLD, OLD, OLD), RETAIN, {}, [0, 10], "the last segment stays"),
        (partition(OLD, OLD, OLD), RETAIN, {"last_segment": True}, [0, 10, 20], ""),
        (partition(OLD, OLD, OLD, high_watermark=31), RETAIN, {"last_segment": True}, [0, 10], "lies below the high watermark"),
        (partition(OLD, OLD, OLD, log_start_offset=31), RETAIN, {}, [], "log start offset lies above its log end"),
        ([*partition(OLD, OLD)[:1], segment(10, OLD, -1, Finding("zero-tail", "x.log", "zeros"))], RETAIN | {"retention.bytes": 0},
         {"last_segment": True}, [0], "its log end is not known"),
        (partition(OLD, OLD, OLD, clean=False), RETAIN, {"last_segment": True}, [0, 10], "only after a clean stop"),
        (partition(OLD, OLD, OLD, FRESH), RETAIN | {"kafkats.keep.segments": 3}, {}, [0], "the last 3 segments stay"),
        (partition(OLD, OLD, FRESH), RETAIN | {"kafkats.legal.hold": True}, {}, [], "legal hold"),
        (partition(OLD, OLD, FRESH), RETAIN | {"remote.storage.enable": True}, {}, [], "remote.storage.enable"),
        (partition(OLD, OLD, FRESH), RETAIN | {"cleanup.policy": "compact"}, {}, [], ""),
        (partition(OLD, OLD, FRESH), RETAIN | {"cleanup.policy": "compact"}, {"before_ms": NOW}, [], "only compaction"),
        (partition(OLD, OLD, FRESH), {"retention.ms": 1000}, {}, [], "cleanup.policy is not given"),
        (partition(OLD, OLD, FRESH, topic="__orders"), RETAIN, {}, [], ""),
        (partition(OLD, OLD, FRESH), RETAIN | {"kafkats.guard.max.share": 0.4}, {}, [0], "over the guard: more than 40%"),
        (partition(OLD, OLD, FRESH), RETAIN | {"kafkats.guard.max.share": 0.4}, {"over_guard": True}, [0, 10], ""),
        (partition(OLD, OLD, OLD, FRESH), RETAIN | {"kafkats.guard.max.share": 0.5}, {}, [0, 10], "more than 50%"),
        (partition(OLD, OLD, FRESH), RETAIN | {"kafkats.guard.max.bytes": 150}, {}, [0], "more than 150 bytes"),
        (partition(OLD, OLD, OLD, FRESH), RETAIN | {"kafkats.guard.max.bytes": 200}, {}, [0, 10], "more than 200 bytes"),
        (partition(OLD, OLD, FRESH, high_watermark=10), RETAIN, {}, [0], ""),
        (partition(OLD, OLD, FRESH, high_watermark=-1), RETAIN, {}, [], ""),
        (partition(OLD, OLD, FRESH, high_watermark=-1), RETAIN, {"rule": "0.10.1"}, [0, 10], ""),
        (partition(OLD, OLD, FRESH, recovery=True), RETAIN, {}, [], "recovers this segment first"),
        (partition(FRESH, FRESH, FRESH), RETAIN, {"before_ms": NOW}, [0, 10], "the last segment stays"),
        (partition(FRESH, FRESH, FRESH), RETAIN, {"before_ms": FRESH}, [], ""),
        (partition(OLD, OLD, OLD, FRESH), RETAIN, {"free_bytes": 150}, [0, 10], "not needed"),
        (partition(-1, OLD, FRESH, log=file(90, OLD)), RETAIN, {}, [0, 10], ""),
        (partition(-1, OLD, FRESH), RETAIN, {}, [], ""),
        ([*partition(OLD, OLD)[:1], segment(10, OLD, last_offset=None)], RETAIN, {"last_segment": True}, [0], "its log end is not known"),
        ([*partition(OLD, OLD)[:1], segment(10, OLD, last_offset=9, log=file(0))], RETAIN, {"last_segment": True}, [0], ""),
    ],
)  # fmt: skip
def test_what_goes(
    rows: list[dict[str, Any]],
    settings: dict[str, Any],
    options: dict[str, Any],
    expected: list[int],
    veto: str,
) -> None:
    made, verdicts = decided(rows, settings, **options)
    assert gone(made) == expected
    vetoes = [v["veto"] for v in verdicts if v["veto"]]
    assert bool(vetoes) == bool(veto) and all(veto in one for one in vetoes)


@pytest.mark.parametrize(
    ("given", "kafka", "ours", "veto"),
    [
        ({"topics": {"*": {}}, "defaults": RETAIN}, [0, 10], [], "cleanup.policy is not given for this topic"),
        ({"topics": {"*": {"cleanup.policy": "delete", "retention.bytes": 10000}}, "defaults": {"retention.ms": 1000}},
         [0, 10], [], "retention.ms not given for this topic"),
        ({"topics": {"*": RETAIN}, "defaults": {"retention.bytes": 150}}, [0, 10], [0, 10], "retention.bytes not given for this topic"),
        ({"topics": {"orders": {"cleanup.policy": "compact"}}, "defaults": RETAIN}, [], [], ""),
    ],
)  # fmt: skip
def test_what_a_broker_deletes_by_settings_that_do_not_count_for_us(
    given: dict[str, Any], kafka: list[int], ours: list[int], veto: str
) -> None:
    facts = pa.Table.from_pylist(partition(OLD, OLD, FRESH), schema=SEGMENTS)
    made, table = plan_retain(facts, Policy.model_validate(given), RetainOptions(NOW))
    verdicts = table.to_pylist()
    assert [
        row["base_offset"] for row in verdicts if row["deletes"] and row["base_offset"] < 20
    ] == kafka
    assert gone(made) == ours
    assert all(
        veto in row["veto"] or row["base_offset"] in ours for row in verdicts if row["deletes"]
    )


@pytest.mark.parametrize(
    ("settings", "week", "until"),
    [
        (RETAIN, 200, None),
        (RETAIN | {"kafkats.legal.hold": True}, 0, None),
        (RETAIN | {"kafkats.keep.segments": 2}, 100, None),
        (RETAIN | {"kafkats.keep.segments": 4}, 0, None),
    ],
)
def test_the_board_counts_as_later_only_what_time_brings(
    settings: dict[str, Any], week: int, until: None
) -> None:
    _, verdicts = decided(partition(FRESH, FRESH, FRESH), settings)
    (row,) = summary_rows(pa.Table.from_pylist(verdicts, schema=RETENTION), NOW)
    assert (row["now_bytes"], row["day_bytes"], row["week_bytes"]) == (0, week, week)
    assert row["why"].startswith("expires in")


def test_what_is_believed_of_a_timestamp_does_not_stand_for_it() -> None:
    """Else the proof after an apply would miss the segment that it was."""
    now = 1_700_000_000_000
    micros = now * 1000
    rows = [
        segment(0, now - 2000, 10),
        segment(10, micros, 20, log=file(90, now - 5)),
        segment(20, now),
    ]
    given = Policy.model_validate({
        "topics": {"orders": RETAIN | {"kafkats.implausible.timestamps": "mtime"}}
    })
    _, verdicts = plan_retain(
        pa.Table.from_pylist(rows, schema=SEGMENTS), given, RetainOptions(now)
    )
    assert verdicts["largest_timestamp"].to_pylist() == [now - 2000, micros, now]
    assert verdicts["counted_from"].to_pylist() == [now - 2000, now - 5, now]
    assert not_kept(verdicts, pa.Table.from_pylist(rows[1:], schema=SEGMENTS)) == {}


def test_epochs_of_a_newer_broker_follow_an_older_rule_too() -> None:
    made, _ = decided(partition(OLD, FRESH), rule="0.10.1")
    assert "leader-epoch-checkpoint" not in made.items["file"].to_pylist()
    made, _ = decided(partition(OLD, FRESH, snapshot=file(10)), rule="0.10.1")
    assert "leader-epoch-checkpoint" in made.items["file"].to_pylist()


def test_an_empty_segment_has_the_files_that_the_last_one_had() -> None:
    made, _ = decided(partition(OLD, OLD, timeindex=None), last_segment=True)
    assert [i["file"] for i in made.items.to_pylist() if i["action"] == "add"] == [
        "00000000000000000020.index", "00000000000000000020.log"
    ]  # fmt: skip


def test_where_there_is_no_segment_nothing_goes() -> None:
    made, verdicts = decided([])
    assert (
        made.items.num_rows,
        verdicts,
        summary_rows(pa.Table.from_pylist(verdicts, schema=RETENTION), NOW),
    ) == (0, [], [])


def test_whole_families_go_and_nothing_else() -> None:
    rows = partition(OLD, FRESH, snapshot=file(10))
    made, _ = decided(rows)
    assert [(i["action"], i["file"]) for i in made.items.to_pylist()] == [
        ("remove", "00000000000000000000.index"),
        ("remove", "00000000000000000000.log"),
        ("remove", "00000000000000000000.snapshot"),
        ("remove", "00000000000000000000.timeindex"),
        ("update", "leader-epoch-checkpoint"),
    ]
    assert made.header["totals"]["freed_bytes"] == 110


def test_nothing_goes_where_a_broker_has_begun_to_replace_segments() -> None:
    swap = Finding("transient", "00000000000000000000.log.swap", "an unfinished swap")
    rows = [directory_row("/data", "orders-0", (swap,)), *partition(OLD, FRESH)]
    made, verdicts = decided(rows)
    assert gone(made) == []
    assert verdicts[0]["deletes"] and "begun to replace segments" in verdicts[0]["veto"]


LINK = Finding(
    "stray", "00000000000000000030.log", "a symbolic link: Kafka follows it, kafkats does not"
)


@pytest.mark.parametrize("last_segment", [True, False])
def test_nothing_goes_where_a_log_was_not_looked_at(last_segment: bool) -> None:
    rows = [directory_row("/data", "orders-0", (LINK,)), *partition(OLD, OLD, OLD)]
    made, verdicts = decided(rows, last_segment=last_segment)
    assert gone(made) == []
    assert (
        verdicts[0]["deletes"]
        and verdicts[0]["veto"] == f"{LINK.file} was not looked at: {LINK.reason}"
    )
    beside = [
        directory_row("/data", "orders-1", (LINK,)),
        directory_row("/data", "orders-0", (LINK._replace(file="x"),)),
    ]
    assert gone(decided([*beside, *partition(OLD, OLD, OLD)], last_segment=True)[0]) == [0, 10, 20]


def test_nothing_goes_where_the_last_log_could_not_be_read() -> None:
    unread = Finding("unreadable", "00000000000000000020.log", "Input/output error")
    rows = [
        *partition(OLD, OLD),
        segment(20, OLD, -1, unread, last_offset=None, max_timestamp=None),
    ]
    rows[1]["next_base_offset"] = 20
    made, verdicts = decided(rows, RETAIN | {"retention.bytes": 0}, last_segment=True)
    assert gone(made) == [] and "Input/output error" in verdicts[0]["veto"]
    assert verdicts[2]["end_offset"] == 20, "as far as is known"


def test_a_wrong_index_is_not_believed() -> None:
    wrong = Finding("below-maximum", "00000000000000000000.timeindex", "too small")
    rows = [segment(0, OLD, 10, wrong), segment(10, OLD, 20), segment(20, FRESH)]
    made, verdicts = decided(rows)
    assert gone(made) == []
    assert "plan rebuild" in verdicts[0]["reason"] and verdicts[1]["blocked_by"] == 0
    assert gone(decided(rows, {"cleanup.policy": "delete", "retention.bytes": 90})[0]) == [0, 10], (
        "sizes are sizes"
    )


def test_the_guard_of_a_run_keeps_the_youngest() -> None:
    rows = partition(100, 300, FRESH) + partition(200, 400, FRESH, partition_dir="orders-1")
    made, _ = decided(rows, more={"guard": {"max.bytes": 300}})
    went = sorted(
        (i["partition_dir"], i["base_offset"])
        for i in made.items.to_pylist()
        if i["file"].endswith(".log")
    )
    assert went == [("orders-0", 0), ("orders-0", 10), ("orders-1", 0)]


def test_the_board_names_the_pin() -> None:
    rows = partition(NOW + 5000, OLD, OLD, FRESH, offset_of_max_timestamp=7)
    _, verdicts = plan_retain(
        pa.Table.from_pylist(rows, schema=SEGMENTS),
        Policy.model_validate({"topics": {"orders": RETAIN}}),
        RetainOptions(NOW),
    )
    (row,) = summary_rows(verdicts, NOW)
    assert (row["kept_by"], row["pinned_bytes"], row["now_bytes"], row["until_ms"]) == (
        0,
        200,
        0,
        NOW + 6001,
    )
    assert row["kept_offset"] == 7


def test_the_board_by_topic() -> None:
    rows = partition(OLD, OLD, FRESH) + partition(OLD, FRESH, partition_dir="orders-1")
    rows += partition(FRESH, partition_dir="other-0", topic="other")
    table = summary_rows(pa.Table.from_pylist(decided(rows)[1], schema=RETENTION), NOW)
    orders, other = by_topic(table)
    of_orders = [row for row in table if row["topic"] == "orders"]
    assert (orders["topic"], orders["partitions"], orders["segments"]) == ("orders", 2, 5)
    assert orders["now_bytes"] == sum(row["now_bytes"] for row in of_orders) == 300
    assert (other["topic"], other["partitions"], other["now_bytes"]) == ("other", 1, 0)


MTIME = 1_700_000_000_000


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("report", []), ("mtime", [0, 10]), ("clamp", [0, 10]), ("ignore", [0, 10])],
)
def test_a_timestamp_in_microseconds_pins_unless_the_policy_says_how_to_take_it(
    tmp_path: Path, policy: str, expected: list[int]
) -> None:
    rows = partition(MTIME * 1000, MTIME, MTIME + 10**9, log_dir=str(tmp_path), log=file(90, MTIME))
    (tmp_path / "orders-0").mkdir()
    entries = [(MTIME - 5, 1), (MTIME * 1000, 9)]
    data = b"".join(t.to_bytes(8, "big") + o.to_bytes(4, "big") for t, o in entries)
    (tmp_path / "orders-0" / "00000000000000000000.timeindex").write_bytes(data)
    settings = {"topics": {"orders": RETAIN | {"kafkats.implausible.timestamps": policy}}}
    made, verdicts = plan_retain(
        pa.Table.from_pylist(rows, schema=SEGMENTS),
        Policy.model_validate(settings),
        RetainOptions(MTIME + 2000),
    )
    assert gone(made) == expected
    assert verdicts["unit"].to_pylist()[0] == "us"
    (row,) = summary_rows(verdicts, MTIME + 2000)
    assert ("microseconds" in row["why"]) == (policy == "report")


def test_an_unknown_rule() -> None:
    with pytest.raises(UsageError, match="unknown rule"):
        decided(partition(OLD), rule="5.0")


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../x.log"},
        {"file": "00000000000000000001.log"},
        {"file": "leader-epoch-checkpoint"},
        {"action": "replace"},
        {"action": "add", "before": None, "file": "00000000000000000000.snapshot"},
        {"partition_dir": "."},
        {"action": "update", "before": None, "file": "replication-offset-checkpoint"},
    ],
)
def test_a_sealed_plan_of_something_else_is_not_worked_on(wrong: dict[str, object]) -> None:
    good, _ = decided(partition(OLD, FRESH))
    assert partition_works(good, run_of(good))
    items = pa.Table.from_pylist([good.items.to_pylist()[0] | wrong], schema=good.items.schema)
    bad = make_plan(good.operation, {}, {}, items)
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))


# What real brokers deleted.


def rule_of(name: str) -> str:
    version = tuple(int(part) for part in case(name).kafka.split(".")[:2])
    if version >= (3, 0):
        return "3.0"
    if version >= (0, 11):
        return "0.11"
    return "0.10.1" if version >= (0, 10) else "0.8"


def policy_for(found: Case) -> Policy:
    topics: dict[str, Any] = {"start-offset": {"cleanup.policy": "delete", "retention.ms": -1}}
    for name, told in found.info["retention"].items():
        if isinstance(told["limits"], dict):
            topics[name.rsplit("-", 1)[0]] = {"cleanup.policy": "delete"} | told["limits"]
    return Policy.model_validate({"topics": topics})


def moment(found: Case) -> int:
    """When the broker looked: a time of its own log, all of whose runs lie within seconds."""
    import datetime as dt

    lines = [line for told in found.info["retention"].values() for line in told["why"]]
    times = [line[1:24].replace(",", ".") for line in lines if line.startswith("[")]
    return int(dt.datetime.fromisoformat(max(times) + "+00:00").timestamp() * 1000)


def plan_for(root: Path, found: Case) -> Plan:
    segments = inventoried(root)
    options = RetainOptions(moment(found), rule_of(found.name), last_segment=True)
    return plan_retain(segments, policy_for(found), options)[0]


@pytest.mark.parametrize("found", [c for c in cases() if c.kind == "retention"], ids=repr)
def test_the_same_segments_as_the_broker(tmp_path: Path, found: Case) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    root = found.unpack("before", tmp_path / "before")
    after = found.unpack("after", tmp_path / "after")
    before = contents(root)
    made = plan_for(root, found)
    works = [work for together in rounds(partition_works(made, run_of(made))) for work in together]
    done = pa.Table.from_batches([apply_partition(work) for work in works], schema=ACTIONS)
    assert summarize(done)["exit_code"] == 0
    for name, told in found.info["retention"].items():
        if isinstance(told["limits"], dict):  # else records were deleted by a client meanwhile
            logs = sorted(int(p.name.partition(".")[0]) for p in (root / name).glob("*.log"))
            assert logs == told["segments_after"], name
            ours = {
                p.name: p.read_bytes()
                for p in (root / name).iterdir()
                if p.suffix in (".log", ".index", ".timeindex")
            }
            theirs = {p.name: p.read_bytes() for p in (after / name).iterdir() if p.name in ours}
            assert {name: ours[name] for name in theirs} == theirs, name
            assert not any(ours[name] for name in ours.keys() - theirs.keys()), (
                "a broker makes empty indexes when it needs them"
            )
    assert {row["outcome"] for row in undone(made)} == {"undone"}
    assert contents(root) == before


@pytest.mark.parametrize("came", ["an older segment", "a swap"])
def test_only_the_oldest_segments_go(tmp_path: Path, came: str) -> None:
    root = case("retention-4.3.1").unpack("before", tmp_path)
    made = plan_for(root, case("retention-4.3.1"))
    work = next(
        work
        for work in partition_works(made, run_of(made))
        if work.partition_dir.startswith("time")
    )
    log = (
        root
        / work.partition_dir
        / min(item["file"] for item in work.items if item["file"].endswith(".log"))
    )
    if came == "a swap":
        log.with_name(log.name + ".swap").touch()
    else:
        work = work._replace(
            items=tuple(item for item in work.items if item["base_offset"] != int(log.stem))
        )
        assert any(item["action"] == "remove" for item in work.items)
    before = contents(root)
    assert set(apply_partition(work)["outcome"].to_pylist()) == {"refused"}
    assert {
        name: found for name, found in contents(root).items() if ".kafkats" not in name
    } == before


def test_nothing_goes_before_the_time_that_was_decided_for(tmp_path: Path) -> None:
    root = case("retention-4.3.1").unpack("before", tmp_path)
    made = plan_for(root, case("retention-4.3.1"))
    work, *_ = partition_works(made, run_of(made))
    ahead = work._replace(options=work.options | {"now_ms": 1_700_000_000_000_000})
    assert "ahead of the clock" in apply_partition(ahead)["error"][0].as_py()
    assert apply_partition(work)["outcome"][0].as_py() == "done"


def test_segments_named_one_by_one_are_no_partition(tmp_path: Path) -> None:
    root = case("retention-4.3.1").unpack("before", tmp_path)
    logs = sorted((root / "time-all-0").glob("*.log"))
    refuse_parts(list_units([root]))
    refuse_parts(list_units([logs[0].parent, logs[0]]))
    with pytest.raises(UsageError, match="name the directory"):
        refuse_parts(list_units(logs[1:3]))


def test_a_link_in_the_place_of_the_last_log(tmp_path: Path) -> None:
    root = case("retention-4.3.1").unpack("before", tmp_path)
    last = max((root / "time-all-0").glob("*.log"))
    last.symlink_to(last.rename(tmp_path / "elsewhere.log"))
    made = plan_for(root, case("retention-4.3.1"))
    places = {item["partition_dir"] for item in made.items.to_pylist()}
    assert "time-all-0" not in places and "time-some-0" in places
    assert [
        veto
        for veto in made.header["totals"]["vetoes"]
        if last.name in veto and "symbolic link" in veto
    ]


def test_the_log_start_of_a_root_follows(tmp_path: Path) -> None:
    root = case("retention-4.3.1").unpack("before", tmp_path)
    (root / "log-start-offset-checkpoint").write_text(
        "0\n3\ntime-some 0 40\nsize 0 50\nother 3 7\n"
    )
    (root / "other-3").mkdir()
    (root / "other-3" / "00000000000000000000.log").touch()
    made = plan_for(root, case("retention-4.3.1"))
    together = rounds(partition_works(made, run_of(made)))
    assert [work.partition_dir for work in together[-1]] == ["."]
    for work in (work for some in together for work in some):
        assert set(apply_partition(work)["outcome"].to_pylist()) <= {"done"}
    kept = (root / "log-start-offset-checkpoint").read_text().splitlines()
    assert sorted(kept[2:]) == ["other 3 7", "size 0 50"], (
        "size begins at 34, and below 50 nothing is served"
    )
