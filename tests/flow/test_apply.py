"""One partition of a plan, by two attempts at a time, as Spark makes them by speculation."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.errors import Fenced, Locked
from kafkats.execution.executor import attempt
from kafkats.flow import apply
from kafkats.logdir.changeset import Outcome, commit
from kafkats.logdir.lease import Lease, is_fenced
from kafkats.plans.run import PartitionWork, run_of
from kafkats.plans.units import list_units
from kafkats.rebuild.plan import RebuildOptions, plan_rebuild
from tests.builders.operations import verified
from tests.golden import case

LOST = "none-ct-0/00000000000000000043.timeindex"


@pytest.fixture
def work(tmp_path: Path) -> PartitionWork:
    """The work of rebuilding a file of one partition."""
    (root := tmp_path / "data").mkdir()
    case("matrix-4.3.1-v2").unpack("data", root)
    (root / LOST).unlink()
    plan = plan_rebuild(verified(root), RebuildOptions())
    (work,) = apply.partition_works(plan, run_of(plan))
    return work


def overtake(
    work: PartitionWork, monkeypatch: pytest.MonkeyPatch, *, dies: bool = False
) -> list[pa.RecordBatch]:
    """Let a newer attempt claim the partition just before the next commit. It commits when that one
    knows that it is fenced, unless it `dies`. Return its rows, which come later.
    """
    claimed, fenced, rows = threading.Event(), threading.Event(), list[pa.RecordBatch]()

    def newer_commit(*args: Any, **more: Any) -> Outcome:
        claimed.set()
        if dies:
            raise Fenced("killed")
        assert fenced.wait(30)
        return commit(*args, **more)

    def older_commit(*args: Any, **more: Any) -> Outcome:
        monkeypatch.setattr(apply, "commit", newer_commit)
        threading.Thread(target=lambda: rows.append(apply.apply_partition(work))).start()
        assert claimed.wait(30)
        return commit(*args, **more)

    def known(lease: Lease) -> bool:
        found = is_fenced(lease)
        fenced.set()
        return found

    monkeypatch.setattr(apply, "commit", older_commit)
    monkeypatch.setattr(apply, "is_fenced", known)
    return rows


def test_an_attempt_that_is_overtaken_answers_what_the_newer_one_did(
    work: PartitionWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = overtake(work, monkeypatch)
    with attempt(last=False):
        rows = apply.apply_partition(work).to_pylist()
    assert [(row["outcome"], row["error"]) for row in rows] == [("already", "")]
    assert Path(work.log_dir, LOST).is_file()
    area = Path(work.log_dir).parent / ".kafkats/data/none-ct-0/runs" / work.run_id
    assert not list(area.glob("staging-*")), "neither attempt has left a file"
    assert len(newer) <= 1 and len(list(list_units([work.log_dir]))) > 1


def test_it_is_tried_again_where_the_newer_one_has_changed_nothing(
    work: PartitionWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "_NEWER_S", 0.1)
    overtake(work, monkeypatch, dies=True)
    with attempt(last=False), pytest.raises(Locked, match="newer attempt"):
        apply.apply_partition(work)
    assert not Path(work.log_dir, LOST).exists()
    monkeypatch.setattr(apply, "commit", commit)
    rows = apply.apply_partition(work).to_pylist()
    assert [(row["outcome"], row["error"]) for row in rows] == [("done", "")]
