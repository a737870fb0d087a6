"""Plans that are decided in parts: the same plan as one that is decided at once, whoever does it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkats.errors import WorkerLost
from kafkats.execution.local import LocalExecutor
from kafkats.flow import apply as apply_module
from kafkats.flow import applying, parting, run
from kafkats.plans import deciding, parts
from kafkats.plans.facts import ACTIONS
from kafkats.plans.parts import PlanInParts, open_plan
from kafkats.plans.plan import Plan, read_plan
from kafkats.plans.run import read_actions
from kafkats.request import Request
from kafkats.result import Result
from tests.golden import case


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two log directories that lost their time indexes."""
    folder = tmp_path_factory.mktemp("disks")
    found = []
    for name in ("a", "b"):
        root = folder / name / "data"
        root.mkdir(parents=True)
        case("matrix-4.3.1-v2").unpack("data", root)
        if name == "b":
            (root / "meta.properties").unlink()
        for path in list(root.glob("*/*.timeindex"))[: 12 if name == "a" else None]:
            path.unlink()
        found.append(root)
    return found


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor(1) as one:
        yield one


def plan(roots: list[Path], folder: Path, executor: Any, **options: Any) -> Result:
    asked = {name: options.pop(name) for name in ("operation", "policy") if name in options}
    options = {"PlanFolder": {"output": folder, "report": folder.with_suffix(".report")}} | options
    request = Request.model_validate({
        "verb": "plan",
        "operation": "rebuild",
        **asked,
        "made_ms": 2_000_000_000_000,
        "log_dirs": [{"path": root} for root in roots],
        "options": options,
    })
    result = run(request, executor)
    assert result.error is None, result.error
    return result


def in_parts(monkeypatch: pytest.MonkeyPatch, *, rows: int, segments: int = 5) -> None:
    monkeypatch.setattr(parting, "LARGE", 10)
    monkeypatch.setattr(parting, "PART_SEGMENTS", segments)
    monkeypatch.setattr(parting, "TABLE_ROWS", rows)


def told(result: Result) -> dict[str, Any]:
    """The summary without what differs from plan to plan."""
    summary = result.summary()
    if summary.get("census"):
        summary["census"]["report"] = ""
    return {
        name: value
        for name, value in summary.items()
        if name not in ("plan", "seen", "seconds", "finished_ms", "digest", "began_ms", "ended_ms")
    } | {"seen": {**summary["seen"], "report": ""}}


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "options", [{}, {"Rebuild": {"all": True}}, {"Topics": {"topics": "none-*"}}]
)
def test_a_small_plan_is_the_same(
    roots: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executor: LocalExecutor,
    options: dict[str, Any],
) -> None:
    whole = plan(roots, tmp_path / "whole", executor, **options)
    in_parts(monkeypatch, rows=100_000)
    same = plan(roots, tmp_path / "parts", executor, **options)
    assert same.plan is not None and whole.plan is not None
    assert same.plan.digest == whole.plan.digest and told(same) == told(whole)
    assert isinstance(open_plan(tmp_path / "parts"), Plan)
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {
        p.name for p in (tmp_path / "whole").iterdir()
    }
    for name in ("parts/depths.parquet", "parts.report/segments.parquet"):
        other = pq.read_table(tmp_path / name.replace("parts", "whole", 1))
        assert pq.read_table(tmp_path / name).equals(other)


def test_a_large_plan_has_the_same_rows(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    whole = plan(roots, tmp_path / "whole", executor)
    in_parts(monkeypatch, rows=20)
    result = plan(roots, tmp_path / "large", executor)
    large = open_plan(tmp_path / "large")
    assert isinstance(large, PlanInParts) and len(large.parts) > 5
    assert result.plan is not None and result.plan.digest == large.digest
    rows = [row for piece in large.pieces() for row in piece.items.to_pylist()]
    assert rows == read_plan(tmp_path / "whole").items.to_pylist()
    assert {**large.header, "format": 1} == read_plan(tmp_path / "whole").header
    assert told(result) == told(whole)
    assert large.log_dirs() == [str(root) for root in roots]
    assert sorted(p.name for p in (tmp_path / "large").iterdir()) == [
        "depths.parquet",
        "parts",
        "plan.json",
        "volumes.json",
    ]


@pytest.mark.slow(8)
@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("roll", {"Roll": {"now": 3_000_000_000_000}}),
        ("migrate", {"Migrate": {"to_magic": 1, "accept_loss": ["all"]}}),
        ("split", {"Split": {"where": "rolled", "segment_bytes": 900}}),
    ],
)
def test_other_operations_decide_the_same_in_parts(
    roots: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executor: LocalExecutor,
    operation: str,
    options: dict[str, Any],
) -> None:
    small = {"segment.ms": 1, "segment.bytes": 900}
    asked: dict[str, Any] = {"operation": operation, "policy": {"defaults": small}, **options}
    whole = plan(roots, tmp_path / "whole", executor, **asked)
    in_parts(monkeypatch, rows=100_000)
    same = plan(roots, tmp_path / "parts", executor, **asked)
    assert same.plan is not None and whole.plan is not None and whole.plan.totals["files"]
    assert same.plan.digest == whole.plan.digest and same.exit_code == whole.exit_code
    assert told(same) == told(whole) and same.more == whole.more
    for path in (tmp_path / "whole").glob("*.parquet"):
        names = [name for name in pq.read_schema(path).names if name != "seconds"]
        other = pq.read_table(tmp_path / "parts" / path.name, columns=names)
        assert other.equals(pq.read_table(path, columns=names))


def test_a_loss_that_was_not_accepted_is_refused_with_that_of_all_parts(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    asked = {
        "verb": "plan",
        "operation": "migrate",
        "made_ms": 2_000_000_000_000,
        "log_dirs": [{"path": roots[0]}],
        "options": {"PlanFolder": {"output": tmp_path / "plan"}, "Migrate": {"to_magic": 1}},
    }
    whole = run(Request.model_validate(asked), executor).error
    in_parts(monkeypatch, rows=100_000)
    refused = run(Request.model_validate(asked), executor).error
    assert whole is not None and refused is not None and "would lose" in whole.reason
    assert refused.reason == whole.reason


@pytest.mark.slow(2)
def test_the_digest_does_not_depend_on_who_decides(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    in_parts(monkeypatch, rows=20)
    digests = {plan(roots, tmp_path / "one", executor).plan.digest}  # type: ignore[union-attr]
    with LocalExecutor(2) as two:  # worker processes: they get these groups, whatever their size
        monkeypatch.setattr(two, "_workers_for", lambda *_, **__: 2)
        digests.add(plan(roots, tmp_path / "two", two).plan.digest)  # type: ignore[union-attr]
    monkeypatch.setattr(deciding, "exists", lambda *_: False)  # tasks see no folder of the driver
    digests.add(plan(roots[::-1], tmp_path / "inline", executor).plan.digest)  # type: ignore[union-attr]
    assert len(digests) == 1
    names = [sorted(p.name for p in (tmp_path / n).rglob("*")) for n in ("one", "two", "inline")]
    assert names[0] == names[1] == names[2]


@pytest.mark.slow(2)
def test_full_depth_reads_the_segments_of_a_part_as_units(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    whole = plan(roots, tmp_path / "whole", executor, Rebuild={"depth": "full"})
    in_parts(monkeypatch, rows=100_000)
    same = plan(roots, tmp_path / "parts", executor, Rebuild={"depth": "full"})
    assert same.plan is not None and whole.plan is not None
    assert same.plan.digest == whole.plan.digest and told(same) == told(whole)


@pytest.mark.slow(2)
def test_what_a_killed_planning_left_is_cleared(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    in_parts(monkeypatch, rows=20)
    plan(roots, tmp_path / "plan", executor)
    shutil.copytree(tmp_path / "plan", tmp_path / "left")
    (tmp_path / "left" / "plan.json").unlink()
    (tmp_path / "left" / "deciding-0123456789ab").mkdir()
    plan(roots, tmp_path / "left", executor)
    assert sorted(p.name for p in (tmp_path / "left").rglob("*")) == sorted(
        p.name for p in (tmp_path / "plan").rglob("*")
    )


def test_only_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    """With --into a folder is that of several plans, and of processes that make them."""
    others = [tmp_path / name / "thesis" for name in ("deciding-factors", "deciding-cafe00cafe00")]
    linked = tmp_path / "deciding-ba9876543210"
    linked.symlink_to("deciding-factors")
    for left in (*others, tmp_path / "deciding-0123456789ab" / "driver"):
        left.parent.mkdir()
        left.touch()
    with deciding.scratch_in(tmp_path) as ours:
        assert set(tmp_path.iterdir()) == {linked, ours, *(path.parent for path in others)}
        with deciding.scratch_in(tmp_path) as other:
            assert ours.exists() and other != ours
    assert set(tmp_path.iterdir()) == {linked, *(path.parent for path in others)}
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("rows", [20, 100_000], ids=["large", "small"])
def test_a_table_that_changed_after_its_task_is_refused(
    roots: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executor: LocalExecutor,
    rows: int,
) -> None:
    def tampered(*args: Any, **named: Any) -> pa.RecordBatch:
        row = deciding.hand_over(*args, **named)
        for path in args[-1].glob("items-*"):
            table = pq.read_table(path)
            pq.write_table(table.slice(0, table.num_rows - 1), path)
        return row

    in_parts(monkeypatch, rows=rows)
    monkeypatch.setattr(parting, "hand_over", tampered)
    asked = {
        "verb": "plan",
        "operation": "rebuild",
        "made_ms": 2_000_000_000_000,
        "log_dirs": [{"path": root} for root in roots],
        "options": {"PlanFolder": {"output": tmp_path / "plan"}},
    }
    made = run(Request.model_validate(asked), executor)
    assert made.exit_code == 2 and made.error is not None
    assert made.error.kind == "CorruptPlan" and "after a task wrote it" in made.error.reason
    assert not (tmp_path / "plan" / "plan.json").exists()


def ask(verb: str, executor: Any, **fields: Any) -> Result:
    asked = {"verb": verb, "made_ms": 2_000_000_000_000, **fields}
    result = run(Request.model_validate(asked), executor)
    assert result.error is None, result.error
    return result


def without_time_indexes(folder: Path) -> Path:
    """Make a log directory whose time indexes are missing."""
    root = folder / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    for path in root.glob("*/*.timeindex"):
        path.unlink()
    return root


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan it in parts, and read several pieces of them."""
    in_parts(monkeypatch, rows=20, segments=2)
    monkeypatch.setattr(parts, "PIECE_ROWS", 10)


def test_a_large_plan_is_applied_resumed_proved_and_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor
) -> None:
    root = without_time_indexes(tmp_path)
    in_pieces(monkeypatch)
    made = plan([root], tmp_path / "plan", executor)
    large = open_plan(tmp_path / "plan")
    assert isinstance(large, PlanInParts) and made.plan is not None
    asked = {"folder": tmp_path / "plan", "digest": made.plan.digest}
    lost = [
        Path(row["log_dir"], row["partition_dir"], row["file"])
        for rows in large.tables(["log_dir", "partition_dir", "file"])
        for row in rows.to_pylist()
    ]

    there = sum(path.parent == lost[0].parent for path in lost)
    with monkeypatch.context() as patched:
        patched.setattr(applying, "apply_partition", _failing_at(lost[0].parent.name))
        first = ask("apply", executor, plan=asked)
    assert first.exit_code == 2 and first.runs[0].outcomes["failed"] == there
    again = ask("apply", executor, plan=asked)
    ran = again.runs[0]
    assert again.exit_code == 0 and ran.outcomes == {"already": len(lost) - there, "done": there}
    assert ran.files == len(lost) and ran.proof is not None and ran.proof.equal == len(lost)
    assert all(path.exists() for path in lost)
    report = read_actions(tmp_path / "plan.run")
    assert set(report["outcome"].to_pylist()) == {"done"} and report.num_rows == len(lost)
    assert not [*(tmp_path / "plan.run").glob("tmp*")]

    proof = ask(
        "verify",
        executor,
        log_dirs=[{"path": root}],
        options={"ProofOptions": {"of_run": [tmp_path / "plan.run"]}},
    ).proof
    assert proof is not None and (proof.files, proof.equal) == (len(lost), len(lost))
    assert ask("undo", executor, runs=[{"folder": tmp_path / "plan.run"}]).exit_code == 0
    assert not any(path.exists() for path in lost)

    made = plan([root], tmp_path / "again", executor)
    assert made.plan is not None
    asked = {"folder": tmp_path / "again", "digest": made.plan.digest}
    assert ask("apply", executor, plan=asked).exit_code == 0
    assert ask("purge", executor, runs=[{"folder": tmp_path / "again.run"}]).exit_code == 0
    assert all(path.exists() for path in lost)


@pytest.mark.parametrize("large", [False, True])
def test_what_was_done_before_an_error_is_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: LocalExecutor, large: bool
) -> None:
    root = without_time_indexes(tmp_path)
    if large:
        in_pieces(monkeypatch)
    made = plan([root], tmp_path / "plan", executor)
    assert made.plan is not None
    asked = {"folder": tmp_path / "plan", "digest": made.plan.digest}

    def breaks(number: int) -> Result:
        """Apply, and lose the worker at the apply's stage of this number."""
        numbers = iter(range(number))
        original = executor.map

        def at(stage: str, *args: Any, **named: Any) -> Any:
            if stage == "apply" and next(numbers, None) is None:
                raise WorkerLost("a worker is gone")
            return original(stage, *args, **named)

        with monkeypatch.context() as patched:
            patched.setattr(executor, "map", at)
            words = {"verb": "apply", "made_ms": 2_000_000_000_000, "plan": asked}
            return run(Request.model_validate(words), executor)

    first = breaks(int(large))
    assert first.error is not None and first.error.kind == "WorkerLost" and first.exit_code == 2
    (ran,) = first.runs
    report = read_actions(tmp_path / "plan.run")
    assert ran.files == report.num_rows and bool(ran.files) == large
    assert ran.outcomes == ({"done": ran.files} if large else {}) and ran.proof is None
    assert "a worker is gone" in ran.errors[0] and bool(ran.partitions) == large

    assert ask("apply", executor, plan=asked).exit_code == 0
    every = read_actions(tmp_path / "plan.run")
    assert set(every["outcome"].to_pylist()) == {"done"} and every.num_rows > report.num_rows
    assert breaks(0).exit_code == 2
    assert read_actions(tmp_path / "plan.run").equals(every)


def _failing_at(partition: str) -> Any:
    def fail(work: Any) -> Any:
        if work.partition_dir == partition:
            rows = apply_module.apply_partition(work._replace(log_dir="/none")).to_pylist()
            return pa.RecordBatch.from_pylist(
                [row | {"log_dir": work.log_dir, "outcome": "failed"} for row in rows],
                schema=ACTIONS,
            )
        return apply_module.apply_partition(work)

    return fail
