"""What a retention's plan may take, and what becomes of a partition that is not as it was planned, or was made anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

from kafkats.config.policy import Policy
from kafkats.errors import Changed, CorruptPlan
from kafkats.flow import apply
from kafkats.flow.apply import apply_partition, partition_works, summarize
from kafkats.flow.ending import end_partition, undoable
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.plans.attempt import finish_run
from kafkats.plans.facts import ACTIONS, SEGMENTS
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import begin_run, directories, read_run, run_of, wrote_in
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild
from kafkats.retention.plan import RetainOptions, plan_retain
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, inventoried, undone
from tests.golden import case

NOW = 1_700_000_000_000
DAY = Policy.model_validate({
    "topics": {"time-*": {"cleanup.policy": "delete", "retention.ms": 86_400_000}}
})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return case("retention-4.3.1").unpack("before", tmp_path / "data")


def planned(root: Path, policy: Policy = DAY, **options: Any) -> Plan:
    segments = inventoried(root)
    return plan_retain(segments, policy, RetainOptions(NOW, **options))[0]


def applied(made: Plan) -> list[dict[str, Any]]:
    return list(applied_rows(made).to_pylist())


def logs(partition: Path) -> list[int]:
    return sorted(int(log.stem) for log in partition.glob("*.log"))


def test_a_log_dirs_own_checkpoint_is_one_file(root: Path) -> None:
    starts = root / "log-start-offset-checkpoint"
    starts.write_text("0\n3\ntime-some 0 20\ntime-all 0 20\nsize 0 50\n")
    made, before = planned(root), contents(root)
    told = [item["reason"] for item in made.items.to_pylist() if item["file"] == starts.name]
    assert len(told) == 1 and "time-all-0 begins at" in told[0] and "and 1 more do" in told[0]
    assert {row["outcome"] for row in applied(made)} == {"done"}
    assert starts.read_text() == "0\n1\nsize 0 50\n"
    assert {row["outcome"] for row in undone(made, wrote=True)} == {"undone"}
    assert contents(root) == before


def two_runs(root: Path, *, epochs: bool = False) -> tuple[Plan, Plan]:
    """The first deletes the oldest segment of time-some-0, the second what else has expired."""
    shutil.rmtree(root / "time-all-0")
    if not epochs:
        (root / "time-some-0" / "leader-epoch-checkpoint").unlink()
    first = planned(root, free_bytes=1)
    assert {row["outcome"] for row in applied(first)} == {"done"}
    second = planned(root)
    assert {row["outcome"] for row in applied(second)} == {"done"}
    return first, second


@pytest.mark.parametrize("epochs", [False, True])
def test_what_comes_back_joins_the_log(root: Path, epochs: bool) -> None:
    before = logs(root / "time-some-0")
    first, second = two_runs(root, epochs=epochs)
    left = logs(root / "time-some-0")
    (row,) = undone(first, wrote=True)
    assert row["outcome"] == "refused" and f"undo run {second.run_id} first" in row["error"]
    assert logs(root / "time-some-0") == left
    assert not undoable(run_of(first), str(root), "time-some-0", wrote=True)
    assert [row["outcome"] for made in (second, first) for row in undone(made, wrote=True)] == [
        "undone",
        "undone",
    ]
    assert logs(root / "time-some-0") == before


def test_nothing_comes_back_before_what_was_purged(root: Path) -> None:
    first, second = two_runs(root)
    assert end_partition(run_of(second), "purge", str(root), "time-some-0")["outcome"] == "purged"
    left = logs(root / "time-some-0")
    (row,) = undone(first, wrote=True)
    assert row["outcome"] == "refused" and "there is no way back" in row["error"]
    assert logs(root / "time-some-0") == left


def test_nothing_comes_back_where_a_broker_deleted_more(root: Path) -> None:
    first, second = two_runs(root)
    assert {row["outcome"] for row in undone(second, wrote=True)} == {"undone"}
    oldest = min((root / "time-some-0").glob("*.log"))
    oldest.unlink()
    (row,) = undone(first, wrote=True)
    assert (
        row["outcome"] == "refused"
        and oldest.name in row["error"]
        and row["error"].endswith("gone since")
    )


@pytest.mark.parametrize("how", ["another directory", "another topic"])
def test_nothing_comes_back_into_a_topic_made_anew(root: Path, how: str) -> None:
    for epochs in root.glob("time-*/leader-epoch-checkpoint"):
        epochs.unlink()
    made = planned(root)
    assert {row["outcome"] for row in applied(made)} == {"done"}
    for partition in root.glob("time-*"):
        if how == "another directory":
            partition.rename(root / "old")
            shutil.copytree(root / "old", partition)
            shutil.rmtree(root / "old")
        else:
            (partition / "partition.metadata").write_text(
                "version: 0\ntopic_id: ThisIsNotTheSameTopicA"
            )
    before = contents(root)
    assert {row["outcome"] for row in undone(made, wrote=True)} == {"refused"}
    assert {row["outcome"] for row in applied(made)} == {"refused"}, "not told to be done already"
    now = contents(root)
    assert {name: now[name] for name in now if ".kafkats" not in name} == before


def test_nothing_comes_back_where_the_topic_is_gone(root: Path) -> None:
    made = planned(root)
    assert {row["outcome"] for row in applied(made)} == {"done"}
    for partition in root.glob("time-*"):
        shutil.rmtree(partition)
    assert {row["outcome"] for row in undone(made, wrote=True)} == {"refused"}
    assert not undoable(run_of(made), str(root), "time-some-0", wrote=True)
    assert not list(root.glob("time-*"))


LAST = Policy.model_validate({
    "topics": {"time-some": {"cleanup.policy": "delete", "retention.ms": 1}}
})


def resealed(
    made: Plan, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], **options: Any
) -> Plan:
    """A plan of other items: with a digest that holds, so that only what they say can give them away."""
    items = change([
        item for item in made.items.to_pylist() if item["partition_dir"] == "time-some-0"
    ])
    header = made.header["options"] | options
    return make_plan(
        made.operation, header, {}, pa.Table.from_pylist(items, schema=made.items.schema)
    )


def refused(root: Path, made: Plan) -> str:
    """Why it is, with nothing changed."""
    before = contents(root)
    try:
        rows = applied(made)
    except CorruptPlan as e:
        return str(e)
    assert {row["outcome"] for row in rows} <= {"failed", "refused"}
    assert contents(root) == before | {
        name: now for name, now in contents(root).items() if ".kafkats" in name
    }
    return str(rows[0]["error"])


def base(items: list[dict[str, Any]], number: int) -> int:
    return sorted({int(item["base_offset"]) for item in items if item["action"] == "remove"})[
        number
    ]


Items = list[dict[str, Any]]
TAMPERED: dict[str, tuple[Callable[[Items], Items], str]] = {
    "only indexes": (lambda items: [i for i in items if not i["file"].endswith((".log", "checkpoint"))], "only a part"),
    "a family but for its index": (
        lambda items: [i for i in items if not (i["file"].endswith(".index") and i["base_offset"] == base(items, 0))],
        "deletes its segment, but not this file",
    ),
    "a hole": (
        lambda items: [i for i in items if i["base_offset"] != base(items, 1) or i["action"] != "remove"],
        "keeps it and deletes younger segments",
    ),
    "a hole behind a decoy": (
        lambda items: [i for i in items if i["base_offset"] != base(items, 1) or i["file"].endswith(".index")],
        "only a part of segment",
    ),
    "epochs from elsewhere": (
        lambda items: [i | ({"base_offset": 9999} if i["action"] == "update" else {}) for i in items],
        "not at 9999",
    ),
    "less than it says": (
        lambda items: [i for i in items if i["base_offset"] != base(items, -1)],
        "the log would begin at",
    ),
    "another segment follows": (
        lambda items: [i | ({} if i["action"] == "remove" and i["base_offset"] != base(items, -1) else {
            "next_base_offset": 5000 if i["action"] == "remove" else -1,
            "base_offset": i["base_offset"] if i["action"] == "remove" else 5000}) for i in items],
        "first kept segment should be 5000",
    ),
    "an empty log": (
        lambda items: [*items, items[0] | {"action": "add", "before": None, "file": "00000000000000005000.log", "base_offset": 5000}],
        "must add an empty segment",
    ),
    "the last one, and nothing for it": (
        lambda items: [i | ({"next_base_offset": -1} if i["base_offset"] == base(items, -1) else {}) for i in items],
        "must add an empty segment",
    ),
    "only checkpoints": (lambda items: [i for i in items if i["action"] == "update"], "deletes no segment"),
    "a file twice": (lambda items: [*items, items[0]], "twice"),
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED)
def test_a_sealed_plan_that_is_not_sound(root: Path, how: str) -> None:
    change, why = TAMPERED[how]
    assert why in refused(root, resealed(planned(root), change))
    assert {row["outcome"] for row in applied(resealed(planned(root), lambda items: items))} == {
        "done"
    }


TAMPERED_LAST: dict[str, tuple[Callable[[Items], Items], str]] = {
    "no new segment": (lambda items: [i for i in items if i["action"] != "add"], "must add an empty segment"),
    "a new segment without a log": (
        lambda items: [i for i in items if i["action"] != "add" or i["file"].endswith("index")], "without its log"),
    "a new segment elsewhere": (
        lambda items: [i if i["action"] == "remove" else i | {
            "base_offset": 5000,
            "file": i["file"] if i["action"] == "update" else "00000000000000005000" + i["file"][20:]} for i in items],
        "the log ends at"),
}  # fmt: skip


@pytest.mark.parametrize("how", TAMPERED_LAST)
def test_a_sealed_plan_that_takes_the_last_segment_is_not_sound(root: Path, how: str) -> None:
    change, why = TAMPERED_LAST[how]
    assert why in refused(root, resealed(planned(root, LAST, last_segment=True), change))


def test_the_last_segment_goes_only_while_the_stop_is_known_to_be_clean(root: Path) -> None:
    made = planned(root, LAST, last_segment=True)
    (root / ".kafka_cleanshutdown").rename(root.parent / "marker")
    assert "kafka_cleanshutdown is gone" in refused(root, made)
    (root.parent / "marker").rename(root / ".kafka_cleanshutdown")
    before = logs(root / "time-some-0")
    assert {row["outcome"] for row in applied(made)} == {"done"}
    (only,) = logs(root / "time-some-0")
    assert only > max(before)


@pytest.mark.parametrize("which", ["the last", "the first"])
def test_what_was_to_stay_is_there(root: Path, which: str) -> None:
    made = planned(root)
    gone = {
        item["base_offset"]
        for item in made.items.to_pylist()
        if item["partition_dir"] == "time-some-0"
    }
    partition = root / "time-some-0"
    stays = [number for number in logs(partition) if number not in gone] or [max(gone)]
    for path in partition.glob(f"{stays[-1 if which == 'the last' else 0]:020d}.*"):
        path.unlink()
    assert "make a new plan" in refused(root, resealed(made, lambda items: items))


@pytest.mark.parametrize("moment", ["1700000000000", None, [], 1.5, True])
def test_the_moment_is_a_number(root: Path, moment: Any) -> None:
    assert "now_ms" in refused(root, resealed(planned(root), lambda items: items, now_ms=moment))


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm") as place:
        if os.stat(place).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("one file system only")
        yield Path(place)


def test_segments_are_deleted_and_come_back_with_the_work_area_elsewhere(
    root: Path, elsewhere: Path
) -> None:
    made, before = planned(root), contents(root)
    run = run_of(made, place=elsewhere)
    for work in partition_works(made, run):
        assert apply_partition(work)["error"].to_pylist() == [""] * len(work.items)
    assert contents(root) != before
    for where in directories(run):
        assert end_partition(run, "undo", *where, wrote=True)["error"] == ""
    assert contents(root) == before


def test_what_was_staged_beside_the_live_files_goes(
    root: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (root / "time-some-0").glob("*.timeindex"):
        index.unlink()
    found = [
        verify_unit(unit, VerifyOptions(deep=True)) for unit in list_units([root / "time-some-0"])
    ]
    segments = pa.Table.from_batches(found, SEGMENTS)
    made, before = plan_rebuild(segments, RebuildOptions()), contents(root)
    (work,) = partition_works(made, run_of(made, place=elsewhere))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def refused(*_: object, **__: object) -> None:
        raise Changed("changed since it was looked at")

    monkeypatch.setattr(apply, "commit", killed)
    monkeypatch.setattr(apply, "_clear_staging", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        apply_partition(work)
    assert contents(root).keys() > before.keys(), "a killed attempt leaves what it has staged"
    monkeypatch.undo()
    monkeypatch.setattr(apply, "commit", refused)
    assert apply_partition(work)["outcome"][0].as_py() == "refused"
    assert contents(root) == before
    monkeypatch.undo()
    assert apply_partition(work)["outcome"][0].as_py() == "done"


def test_a_checkpoint_that_needs_nothing_is_no_change(root: Path, tmp_path: Path) -> None:
    starts = root / "log-start-offset-checkpoint"
    starts.write_text("0\n1\ntime-some 0 20\n")
    made = planned(root)
    starts.write_text("0\n0\n")
    folder = tmp_path / "run"
    begin_run(run_of(made), folder)
    rows = applied(made)
    (nothing,) = {row["outcome"] for row in rows if row["file"] == starts.name}
    summary = summarize(pa.Table.from_pylist(rows, schema=ACTIONS))
    assert nothing == "nothing" and summary["exit_code"] == 0
    finish_run(folder, pa.Table.from_pylist(rows, schema=ACTIONS), summary)
    again = pa.Table.from_pylist(applied(made), schema=ACTIONS)
    assert "nothing was changed" in summarize(again)["note"]
    finish_run(folder, again, summarize(again))
    written = wrote_in(folder)
    ended = [
        end_partition(read_run(folder), "undo", *where, wrote=where in written)
        for where in directories(read_run(folder))
    ]
    assert sorted(row["outcome"] for row in ended) == ["nothing", "undone", "undone"]
