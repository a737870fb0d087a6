"""A retention that is decided in parts is the one that is decided at once, with limits of the run, too."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkats.clock import now_ms
from kafkats.errors import CorruptPlan
from kafkats.execution.local import LocalExecutor
from kafkats.flow import parting, run
from kafkats.flow.applying import Pieces
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName, partition_name
from kafkats.plans import deciding, parts
from kafkats.plans.parts import PlanInParts, open_plan
from kafkats.plans.plan import Plan
from kafkats.request import Request
from kafkats.result import Result
from kafkats.retention.looking import NO_LIMITS
from tests.golden import case

MOMENT = now_ms()
LIMIT = {"cleanup.policy": "delete", "retention.ms": 1, "retention.bytes": -1}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two log directories of a stopped broker, with logs that begin above their first segment."""
    found = []
    for name in ("a", "b"):
        root = tmp_path_factory.mktemp(name) / "data"
        root.mkdir()
        case("matrix-4.3.1-v2").unpack("data", root)
        if name == "b":
            (root / "meta.properties").unlink()
        found.append(root)
    return found


def ask(verb: str, **fields: Any) -> Result:
    asked = {"verb": verb, "made_ms": MOMENT, **fields}
    with LocalExecutor(1) as executor:
        result = run(Request.model_validate(asked), executor)
    assert result.error is None, result.error
    return result


def plan(
    roots: list[Path], folder: Path, limits: dict[str, Any] | None = None, **options: Any
) -> Result:
    topics = {path.name.rpartition("-")[0]: LIMIT for path in roots[0].glob("*-*")}
    place = {"output": folder, "report": folder.with_suffix(".report")}
    return ask(
        "plan",
        operation="retain",
        log_dirs=[{"path": root} for root in roots],
        policy={"topics": list(topics.items()), **(limits or {})},
        options={"PlanFolder": place} | options,
    )


def in_parts(monkeypatch: pytest.MonkeyPatch, *, rows: int = 100_000) -> None:
    monkeypatch.setattr(parting, "LARGE", 10)
    monkeypatch.setattr(parting, "PART_SEGMENTS", 5)
    monkeypatch.setattr(parting, "TABLE_ROWS", rows)


def elsewhere(*args: Any, **named: Any) -> pa.RecordBatch:
    """Hand over as a task that does not see the driver's folder."""
    with pytest.MonkeyPatch.context() as only:
        only.setattr(deciding, "exists", lambda *_: False)
        return deciding.hand_over(*args, **named)


LIMITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"guard": {"max.share": 0.4}}, {}),
    ({"guard": {"max.bytes": 20_000}}, {"free_bytes": 9_000, "last_segment": True}),
]


@pytest.mark.slow(9)
@pytest.mark.parametrize(("limits", "options"), LIMITS)
def test_it_is_the_same_plan(
    roots: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, Any],
    options: dict[str, Any],
) -> None:
    folders = [tmp_path / name for name in ("whole", "parts", "remote", "inline")]
    more = [{"Beyond": {"beyond_guard": one.with_suffix(".beyond")}} for one in folders]
    results = [plan(roots, folders[0], limits, Retain=options, **more[0])]
    in_parts(monkeypatch)
    results.append(plan(roots, folders[1], limits, Retain=options, **more[1]))
    with monkeypatch.context() as only:
        only.setattr(parting, "hand_over", elsewhere)  # only tasks do not see the driver's folder
        results.append(plan(roots, folders[2], limits, Retain=options, **more[2]))
    monkeypatch.setattr(deciding, "exists", lambda *_: False)  # nor does the driver
    results.append(plan(roots[::-1], folders[3], limits, Retain=options, **more[3]))
    whole = results[0]
    assert whole.plan is not None and whole.plan.totals["files"] and whole.beyond is not None
    vetoes = {"over the run's guard", "not needed for the bytes asked for"}
    assert vetoes & set(whole.plan.totals["vetoes"])
    for result, folder in zip(results, folders, strict=True):
        assert result.plan is not None and result.plan.digest == whole.plan.digest
        assert result.beyond is not None and result.beyond.digest == whole.beyond.digest
        assert result.more == whole.more and result.remarks == whole.remarks
        opened = open_plan(folder)
        assert isinstance(opened, Plan)
        assert opened.items.num_rows == whole.plan.totals["files"] + whole.plan.totals["blocked"]
    for name in ("/retention.parquet", "/suspects.parquet", ".report/segments.parquet"):
        first, *others = [pq.read_table(f"{folder}{name}") for folder in folders[:3]]
        assert all(first.equals(other) for other in others)
    assert sorted(p.name for p in folders[1].iterdir()) == sorted(
        p.name for p in folders[0].iterdir()
    )


def test_both_say_that_no_retention_settings_were_given(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = plan(roots, tmp_path / "whole", {"topics": []})
    in_parts(monkeypatch)
    result = plan(roots, tmp_path / "parts", {"topics": []})
    assert result.remarks == whole.remarks == [NO_LIMITS]


def test_a_large_one_changes_the_log_directory_last_and_is_proved_and_undone(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "disk" / "data"
    shutil.copytree(roots[0], root)
    start = root / "log-start-offset-checkpoint"
    base = {path.parent.name: int(path.stem) for path in sorted(root.glob("*/*.log"))[::-1]}
    names = [PartitionName(*partition_name(name)[:2], "") for name in base]
    start.write_bytes(encode_offsets({name: base[str(name)] + 1 for name in names}))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    in_parts(monkeypatch, rows=20)
    monkeypatch.setattr(parts, "PIECE_ROWS", 30)
    made = plan([root], tmp_path / "plan")
    large = open_plan(tmp_path / "plan")
    assert isinstance(large, PlanInParts) and made.plan is not None
    first, *_, last = large.pieces()
    check = Pieces()
    check(last)
    with pytest.raises(CorruptPlan, match="own files too early"):
        check(first)
    pieces = [piece.items.to_pylist() for piece in large.pieces()]
    own = [row for row in pieces[-1] if row["partition_dir"] == "."]
    assert len(pieces) > 2 and len(own) == len(pieces[-1]) == 1
    assert sum(map(len, pieces)) == made.plan.totals["files"]

    asked = {"folder": tmp_path / "plan", "digest": made.plan.digest}
    ran = ask("apply", plan=asked).runs[0]
    assert ran.outcomes == {"done": sum(map(len, pieces))}
    assert ran.proof is not None and ran.proof.equal == ran.proof.files == ran.files
    assert start.read_bytes() != before[start]
    assert ask("undo", runs=[{"folder": tmp_path / "plan.run"}]).exit_code == 0
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert {path: after.get(path) for path in before} == before
