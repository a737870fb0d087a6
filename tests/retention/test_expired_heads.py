"""Retention inside segments, on directories of real brokers: what is planned, what is left, and what keeps a head."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.errors import CorruptPlan
from kafkats.flow.apply import apply_partition, partition_works
from kafkats.flow.ending import end_partition
from kafkats.formats import dispatch
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.checkpoints import read_epochs
from kafkats.logdir.producers import snapshot_at
from kafkats.plans.facts import SEGMENTS, damaged
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.proof import wrong_in_directory
from kafkats.plans.run import directories, run_of
from kafkats.plans.units import Unit, list_units
from kafkats.retention.expired_heads import Target, look_at, plan_inside, targets
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.proof import not_kept, reasons_of
from kafkats.retention.summary import summary_rows
from kafkats.split.parts import PARTS
from tests.builders.directories import contents, unpacked
from tests.builders.operations import applied, inventoried

MINUTE = 60_000
T0 = 1_600_000_010_000
NOW = T0 + MINUTE
OPTIONS = RetainOptions(NOW)
CASES = [
    ("rolling-4.3.1", T0, 3),
    ("rolling-2.8.2", T0, 3),
    ("rolling-0.10.2.2", T0, 3),
    ("transactions-4.3.1", T0 + 195_237_243_000, 1),
    ("matrix-2.8.2-v1", T0 + 50_000, 4),
    ("retention-4.3.1", T0 + 130_000, 3),
]
"""A directory, the time before which all has expired, and how many heads that are at least."""


def policy(**more: Any) -> Policy:
    given = {"cleanup.policy": "delete", "retention.ms": MINUTE} | more.pop("settings", {})
    return Policy.model_validate({"topics": {"*": given, "__*": given}} | more)


def checked(units: Sequence[Unit]) -> pa.Table:
    return pa.Table.from_batches(
        [verify_unit(unit, VerifyOptions(deep=True)) for unit in units], SEGMENTS
    )


def looked(found: Sequence[Target]) -> pa.Table:
    return pa.Table.from_batches([look_at(one) for one in found], PARTS)


def planned(
    root: Path, given: Policy | None = None, options: RetainOptions = OPTIONS
) -> tuple[Plan, pa.Table]:
    units = list(list_units([root]))
    return plan_inside(
        units, inventoried(root), given or policy(), options, look=looked, verify=checked
    )


def batches(partition: Path) -> list[tuple[int, int, bytes]]:
    """First offset, largest timestamp and bytes of each batch, by the plain decoders."""
    found = []
    for log in sorted(partition.glob("*.log")):
        data = log.read_bytes()
        for batch in dispatch.batches(data):
            raw = data[batch.position : batch.position + batch.size]
            found.append((dispatch.first_offset(data, batch), batch.max_timestamp, raw))
    return found


def left(before: list[tuple[int, int, bytes]], limit: int) -> list[tuple[int, int, bytes]]:
    """From the first batch on that has not expired. Where none has, all: nothing is deleted of what is wholly expired here."""
    fresh = [n for n, (_, timestamp, _) in enumerate(before) if timestamp >= limit]
    return before[fresh[0] :] if fresh else []


def everything_known(root: Path) -> None:
    """A high watermark at the log end for all partitions, as the broker's checkpoint would say after a clean stop."""
    rows = []
    for partition in sorted(p for p in root.iterdir() if p.is_dir()):
        ends = [
            b.last_offset + 1
            for log in partition.glob("*.log")
            for b in dispatch.batches(log.read_bytes())
        ]
        if ends:
            topic, number = partition.name.rsplit("-", 1)
            rows.append(f"{topic} {number} {max(ends)}")
    (root / "replication-offset-checkpoint").write_text("\n".join(["0", str(len(rows)), *rows, ""]))


@pytest.mark.slow(1)
@pytest.mark.parametrize(("name", "limit", "least"), CASES, ids=[one[0] for one in CASES])
def test_what_is_left_begins_with_the_first_batch_that_has_not_expired(
    name: str, limit: int, least: int, tmp_path: Path
) -> None:
    root = unpacked(name, tmp_path)
    everything_known(root)
    options = RetainOptions(limit + MINUTE)
    before, files = {p.name: batches(p) for p in root.iterdir() if p.is_dir()}, contents(root)
    whole, _ = plan_retain(inventoried(root), policy(), options)
    made, verdicts = planned(root, policy(), options)
    totals = made.header["totals"]
    assert totals["heads"] >= least and totals["blocked"] == 0
    assert totals["segments"] == whole.header["totals"]["segments"] + totals["heads"]
    assert totals["freed_bytes"] > whole.header["totals"]["freed_bytes"]
    assert totals["kafka_bytes"] == whole.header["totals"]["kafka_bytes"], "a broker would not"
    changed = {
        row["partition_dir"] for row in made.items.to_pylist() if row["file"].endswith(paths.LOG)
    }
    producers = {p: snapshots_of(root / p, tmp_path / "bare") for p in changed}
    assert applied(made)["exit_code"] == 0

    for partition in changed:
        now, logs = (
            batches(root / partition),
            sorted(int(p.stem) for p in (root / partition).glob("*.log")),
        )
        assert now == left(before[partition], limit) or last_stays(before[partition], now, limit), (
            partition
        )
        assert logs[0] == (now[0][0] if now else logs[0]), "the log starts there"
        if (epochs := root / partition / paths.LEADER_EPOCH).exists():
            assert [entry.start_offset for entry in read_epochs(epochs)][:1] in ([], [logs[0]])
        new = root / partition / paths.segment_file(logs[0], paths.SNAPSHOT)
        if f"{partition}/{new.name}" not in files and new.exists():
            assert new.read_bytes() == producers[partition](logs[0])
    assert damaged(checked(list(list_units([root])))).num_rows == 0
    assert not [
        row
        for rows in by_directory(made)
        for row in wrong_in_directory(rows, reasons_of=reasons_of).to_pylist()
    ]
    touched = [unit for unit in list_units([root]) if unit.partition_dir in changed]
    assert not_kept(verdicts, pa.Table.from_batches([inventory_units(touched)], SEGMENTS)) == {}
    assert not planned(root, policy(), options)[0].items.num_rows, "nothing is left to do"
    assert set(applied(made)["outcomes"]) == {"already"}
    undo(made)
    assert contents(root) == files


def last_stays(
    before: list[tuple[int, int, bytes]], now: list[tuple[int, int, bytes]], limit: int
) -> bool:
    """Where all has expired, segments go but the last."""
    return not left(before, limit) and now == before[len(before) - len(now) :]


def snapshots_of(partition: Path, to: Path) -> Callable[[int], bytes]:
    """The snapshot for an offset, of a copy of the logs as they are now, from the first batch on."""
    bare = to / partition.name
    bare.mkdir(parents=True)
    for log in partition.glob("*.log"):
        shutil.copy2(log, bare)
    return lambda offset: snapshot_at(bare, offset)


def undo(made: Plan) -> None:
    for where in directories(run_of(made)):
        assert end_partition(run_of(made), "undo", *where)["outcome"] in ("undone", "nothing")


def by_directory(made: Plan) -> list[list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in made.items.to_pylist():
        found.setdefault(row["partition_dir"], []).append(row)
    return list(found.values())


# What keeps a head.


@pytest.fixture
def rolling(tmp_path: Path) -> Path:
    root = unpacked("rolling-4.3.1", tmp_path)
    everything_known(root)
    return root


GUARDED = {"kafkats.guard.max.share": 0.01}


@pytest.mark.parametrize(
    ("given", "options", "veto"),
    [
        (policy(settings=GUARDED), OPTIONS, "over the guard: more than 1% of the partition"),
        (policy(guard={"max.bytes": 1}), OPTIONS, "over the run's guard"),
    ],
)
def test_what_keeps_a_segment_keeps_a_head(
    rolling: Path, given: Policy, options: RetainOptions, veto: str
) -> None:
    made, verdicts = planned(rolling, given, options)
    whole, told = plan_retain(inventoried(rolling), given, options)
    assert not made.items.num_rows and made.header["totals"]["heads"] == 0
    vetoes = made.header["totals"]["vetoes"]
    assert set(vetoes) - {"the last segment stays"} == {veto}
    assert sum(vetoes.values()) > sum(whole.header["totals"]["vetoes"].values())
    assert verdicts.drop_columns(["veto"]) == told.drop_columns(["veto"]), (
        "all segments are there, and stay whole"
    )
    if options.free_bytes is None:
        lifted = planned(rolling, given, RetainOptions(NOW, over_guard=True))[0]
        assert lifted.header["totals"]["heads"] > 2


def test_a_head_that_stays_does_not_count_as_a_segment_that_stays(tmp_path: Path) -> None:
    """Two have to: with its head apart the last one would be two."""
    rolling = unpacked("retention-4.3.1", tmp_path)
    everything_known(rolling)
    given = policy(settings={"kafkats.keep.segments": 2})
    made, _ = planned(rolling, given, RetainOptions(T0 + 130_000 + MINUTE))
    left: dict[str, set[int]] = {}
    for unit in list_units([rolling]):
        if unit.base_offset >= 0:
            left.setdefault(unit.partition_dir, set()).add(unit.base_offset)
    enough = {partition for partition, bases in left.items() if len(bases) > 1}
    for row in made.items.to_pylist():
        if row["file"].endswith(paths.LOG):
            (
                left[row["partition_dir"]].add
                if row["action"] == "add"
                else left[row["partition_dir"]].discard
            )(row["base_offset"])
    assert made.items.num_rows and enough
    assert all(len(left[partition]) >= 2 for partition in enough)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (policy(settings={"kafkats.legal.hold": True}), OPTIONS),
        (policy(settings={"retention.ms": -1}), OPTIONS),
        (Policy(), OPTIONS),
        (policy(), RetainOptions(NOW, before_ms=1_500_000_000_000)),
        (policy(), RetainOptions(1_500_000_000_000)),
    ],
)
def test_nobody_looks_where_nothing_may_go(
    rolling: Path, given: Policy, options: RetainOptions
) -> None:
    verdicts = plan_retain(inventoried(rolling), given, options)[1]
    units = list(list_units([rolling]))
    assert not looked(targets(units, verdicts, given, options)).num_rows


def test_before_is_the_limit_where_it_is_given(rolling: Path) -> None:
    made, _ = planned(
        rolling, policy(settings={"retention.ms": -1}), RetainOptions(NOW, before_ms=T0)
    )
    assert made.header["totals"]["heads"] > 2


def test_an_active_segment_is_cut_only_after_a_clean_stop(tmp_path: Path) -> None:
    rolling = unpacked("retention-4.3.1", tmp_path)
    options = RetainOptions(T0 + 130_000 + MINUTE)
    with_marker = planned(rolling, policy(), options)[0]
    (rolling / paths.CLEAN_SHUTDOWN).unlink()
    assert (
        planned(rolling, policy(), options)[0].header["totals"]["heads"]
        < with_marker.header["totals"]["heads"]
    )
    before = contents(rolling)
    works = [
        work for work in partition_works(with_marker, run_of(with_marker)) if work.partition_dir
    ]
    active = [
        work for work in works if any(i["log"] and i["next_base_offset"] < 0 for i in work.items)
    ]
    outcomes = [row["outcome"] for work in active for row in apply_partition(work).to_pylist()]
    assert set(outcomes) == {"refused"}
    assert contents(rolling) == before


def test_a_corrupt_log_is_blocked_and_the_others_go(rolling: Path) -> None:
    good, _ = planned(rolling)
    [*_, item] = (
        row for row in good.items.to_pylist() if row["log"] and row["file"].endswith(".log")
    )
    start = item["log"]["size"] - item["after_bytes"]
    old = next(r for r in good.items.to_pylist() if r["before"] == item["log"])
    log = rolling / item["partition_dir"] / old["file"]
    stat = log.stat()
    data = bytearray(log.read_bytes())
    data[start + 70] ^= 1
    log.write_bytes(data)
    made, verdicts = planned(rolling)
    [blocked] = (row for row in made.items.to_pylist() if row["action"] == "blocked")
    assert (blocked["partition_dir"], blocked["file"]) == (item["partition_dir"], old["file"])
    assert "the log is corrupt at byte" in blocked["reason"]
    totals = made.header["totals"]
    assert (totals["blocked"], totals["heads"]) == (1, good.header["totals"]["heads"] - 1)
    assert old["base_offset"] in verdicts["base_offset"].to_pylist()
    assert stat.st_size == len(data)
    assert applied(made)["exit_code"] == 0
    assert log.read_bytes() == data


def test_a_log_that_changed_since_is_refused(rolling: Path) -> None:
    made, _ = planned(rolling)
    item = next(
        row
        for row in made.items.to_pylist()
        if row["file"].endswith(".log") and row["action"] == "remove"
    )
    log = rolling / item["partition_dir"] / item["file"]
    log.write_bytes(log.read_bytes())
    work = next(
        w for w in partition_works(made, run_of(made)) if w.partition_dir == item["partition_dir"]
    )
    before = contents(rolling)
    assert {row["outcome"] for row in apply_partition(work).to_pylist()} == {"refused"}
    assert contents(rolling) == before


@pytest.mark.parametrize("wrong", [{"file": "../x.log"}, {"rule": "mine"}, {"after_bytes": 10**9}])
def test_a_sealed_plan_of_something_else_is_not_worked_on(
    rolling: Path, wrong: dict[str, object]
) -> None:
    made, _ = planned(rolling)
    items = [
        row | (wrong if row["log"] and row["file"].endswith(".log") else {})
        for row in made.items.to_pylist()
    ]
    bad = make_plan(made.operation, {}, {}, pa.Table.from_pylist(items, schema=made.items.schema))
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))


def test_the_rest_of_a_log_that_stays_is_no_plan(rolling: Path) -> None:
    made, _ = planned(rolling)
    items = [row for row in made.items.to_pylist() if row["action"] != "remove"]
    bad = make_plan(
        made.operation,
        made.header["options"],
        {},
        pa.Table.from_pylist(items, schema=made.items.schema),
    )
    before = contents(rolling)
    with pytest.raises(CorruptPlan, match="adds the rest of a log that it does not delete"):
        for work in partition_works(bad, run_of(bad)):
            if (rows := apply_partition(work).to_pylist()) and rows[0]["outcome"] == "failed":
                raise CorruptPlan(rows[0]["error"])
    assert contents(rolling) == before


@pytest.mark.parametrize(
    ("keeps", "columns", "why"),
    [
        (lambda row: row["log"] is None or not row["file"].endswith(".log"), {}, "without its log"),
        (lambda row: True, {"next_base_offset": 9999}, "first kept segment should be 9999"),
        (lambda row: True, {"next_base_offset": -1}, "first kept segment should be none"),
        (
            lambda row: row["action"] != "add" or not row["file"].endswith(".snapshot"),
            {"log": None},
            "must add an empty segment",
        ),
    ],
)
def test_a_rest_that_does_not_fit(
    rolling: Path, keeps: Callable[[dict[str, Any]], bool], columns: dict[str, Any], why: str
) -> None:
    made, _ = planned(rolling)
    items = [
        row | (columns if row["action"] == "add" else {})
        for row in made.items.to_pylist()
        if keeps(row)
    ]
    table = pa.Table.from_pylist(items, schema=made.items.schema)
    bad = make_plan(made.operation, made.header["options"], {}, table)
    before = contents(rolling)
    cut = {row["partition_dir"] for row in items if row["action"] == "add"}
    errors: list[str] = []
    try:
        works = [work for work in partition_works(bad, run_of(bad)) if work.partition_dir in cut]
        errors += [row["error"] for work in works for row in apply_partition(work).to_pylist()]
    except CorruptPlan as e:
        errors.append(str(e))
    assert errors and all(why in error for error in errors), errors
    assert contents(rolling) == before


def test_the_board_tells_of_heads(rolling: Path) -> None:
    made, verdicts = planned(rolling)
    rows = summary_rows(verdicts, NOW)
    assert sum(row["now_bytes"] for row in rows) == made.header["totals"]["freed_bytes"]
    told = [
        row for row in verdicts.to_pylist() if row["reason"].startswith("the head of its segment")
    ]
    assert len(told) == made.header["totals"]["heads"]
    assert all(row["largest_timestamp"] < T0 and row["evidence"] == "timestamp" for row in told)


@pytest.mark.parametrize(
    ("rule", "matched"),
    [("0.10.1", "first-offset"), ("0.11", "first-offset"), ("3.0", "last-offset")],
)
def test_the_rest_has_the_indexes_of_its_brokers_recovery(
    tmp_path: Path, rule: str, matched: str
) -> None:
    """0.11 to 2.8 delete alike, but only from 2.0 on do entries have the last offset: the segment's own index tells."""
    root = unpacked("rolling-1.1.1", tmp_path)
    everything_known(root)
    largest = sorted(
        t for t in inventoried(root)["max_timestamp"].to_pylist() if t is not None and t > 0
    )
    before_ms = largest[len(largest) // 2] - 3
    units = list(list_units([root]))
    made, _ = plan_inside(
        units,
        inventoried(root),
        policy(),
        RetainOptions(max(NOW, before_ms), rule, before_ms=before_ms),
        look=looked,
        verify=lambda some: pa.Table.from_batches(
            [verify_unit(unit, VerifyOptions()) for unit in some], SEGMENTS
        ),
    )
    rests = {
        (item["partition_dir"], item["base_offset"])
        for item in made.items.to_pylist()
        if item["action"] == "add" and item["file"].endswith(".index")
    }
    assert set(applied(made)["outcomes"]) == {"done"}

    def equal(by: str) -> list[bool]:
        cut = [
            unit for unit in list_units([root]) if (unit.partition_dir, unit.base_offset) in rests
        ]
        rows = [
            row for unit in cut for row in verify_unit(unit, VerifyOptions(rule=by)).to_pylist()
        ]
        return [all(f["kind"] != "other-rule" for f in row["findings"]) for row in rows]

    assert len(rests) == 5 and all(equal(matched))
    assert not all(equal({"first-offset": "last-offset", "last-offset": "first-offset"}[matched]))
