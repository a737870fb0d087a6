"""An apply by request: what it did is in the result, also beside an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.flow import applying
from kafkats.plans.plan import ITEMS, make_plan, read_plan, write_plan
from tests.flow.conftest import Scene


def test_a_plan_is_applied_and_proved(scene: Scene) -> None:
    result = scene.apply()
    [ran] = result.runs
    assert (result.ended, result.exit_code, result.error) == ("fine", 0, None)
    assert (ran.folder, ran.digest, ran.outcomes) == (str(scene.ran), scene.digest, {"done": 1})
    assert ran.proof is not None and (ran.proof.files, ran.proof.not_equal) == (1, [])
    assert (ran.partitions, ran.left_partitions, ran.already) == (1, 0, False)
    assert scene.lost.is_file() and [one.path for one in result.log_dirs] == [scene.root]
    again = scene.apply(options={"Apply": {"prove": False}})
    assert again.runs[0].already and again.runs[0].proof is None
    assert again.summary()["note"].startswith("this plan had been applied before")


@pytest.mark.parametrize(
    ("place", "said"),
    [("disk/data/inside", "lies in the log directory"), ("none", "does not exist")],
)
def test_a_place_that_does_not_fit_is_refused_before_the_run_begins(
    scene: Scene, tmp_path: Path, place: str, said: str
) -> None:
    if place != "none":
        (tmp_path / place).mkdir()
    result = scene.apply(options={"WorkArea": {"place": str(tmp_path / place)}})
    assert result.error is not None and said in result.error.reason
    assert (result.exit_code, scene.ran.exists()) == (2, False)
    assert scene.apply().ended == "fine", "the plan can still be applied"


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"plan": None}, "UsageError", "needs a plan and its digest"),
        ({"plan": {"folder": "/none", "digest": "1" * 64}}, "CorruptPlan", ""),
    ],
)
def test_no_plan(scene: Scene, fields: dict[str, object], kind: str, said: str) -> None:
    result = scene.apply(**fields)
    assert result.error is not None and result.error.kind == kind and said in result.error.reason
    assert (result.ended, result.runs, scene.lost.exists()) == ("failed", [], False)


def test_totals_that_are_no_numbers_are_refused(scene: Scene) -> None:
    made = read_plan(scene.plan)
    totals: Any = made.header["totals"] | {"write_bytes": "x"}
    again = make_plan("rebuild", made.header["options"], totals, made.items)
    write_plan(again, scene.plan)
    result = scene.apply(plan={"folder": scene.plan, "digest": again.digest})
    assert result.error is not None and "its totals are not" in result.error.reason
    assert (result.error.kind, scene.lost.exists()) == ("CorruptPlan", False)


@pytest.mark.parametrize("linked", [False, True])
def test_two_names_of_a_log_directory_are_refused(
    scene: Scene, tmp_path: Path, linked: bool
) -> None:
    """The second file would never be built: the partition is done by the first."""
    made = read_plan(scene.plan)
    (tmp_path / "link").symlink_to(scene.root)
    name = str(tmp_path / "link") if linked else f"{scene.root.parent}/./data"
    items = made.items.set_column(0, ITEMS.field(0), pa.array([name]))
    both = pa.concat_tables([made.items, items])
    again = make_plan("rebuild", made.header["options"], made.header["totals"], both)
    write_plan(again, scene.plan)
    result = scene.apply(plan={"folder": scene.plan, "digest": again.digest})
    assert result.error is not None and "two names" in result.error.reason
    assert (result.exit_code, scene.lost.exists()) == (2, False)


def test_another_digest_is_refused(scene: Scene) -> None:
    result = scene.apply(plan={"folder": scene.plan, "digest": "0" * 64})
    assert result.error is not None and result.error.family == "Refused"
    assert (result.exit_code, scene.lost.exists()) == (3, False)


def test_a_record_that_approves_nothing(scene: Scene) -> None:
    result = scene.apply(approval={"record": scene.plan / "approval.json"})
    assert result.error is not None and (result.exit_code, scene.lost.exists()) == (3, False)


def test_what_was_done_stands_beside_an_error(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats.errors import DiskFull

    def full(*_: object) -> None:
        raise DiskFull("no space", path="/runs", numbers={"free_bytes": 0})

    monkeypatch.setattr(applying, "finish_run", full)
    result = scene.apply()
    assert result.error is not None and result.error.retryable
    assert (result.error.kind, result.error.numbers) == ("DiskFull", {"free_bytes": 0})
    assert (result.exit_code, result.runs[0].outcomes) == (2, {"done": 1})
    assert result.did_something and result.summary()["files"] == 1
