"""A purge by request: what ended too recently is left alone, by the request's clock."""

from __future__ import annotations

import shutil

from kafkats.plans.run import ended_ms
from tests.flow.conftest import Scene

DAY_MS = 86_400_000


def test_a_run_is_purged_when_it_is_due(scene: Scene) -> None:
    scene.apply()
    runs, ended = [{"folder": scene.ran}], ended_ms(scene.ran)
    early = scene.ask(
        "purge",
        runs=runs,
        made_ms=ended + DAY_MS - 1,
        options={"Purge": {"older_than": "1d"}},
    )
    assert [run.not_due for run in early.runs] == [True]
    assert early.summary()["not_due"] == [str(scene.ran)] and early.summary()["runs"] == []
    due = scene.ask(
        "purge", runs=runs, made_ms=ended + DAY_MS, options={"Purge": {"older_than": DAY_MS}}
    )
    assert [(run.not_due, run.errors) for run in due.runs] == [(False, [])]
    assert due.summary()["runs"] == [str(scene.ran)] and due.exit_code == 0
    undone = scene.ask("undo", runs=runs)
    assert undone.exit_code == 3 and undone.runs[0].errors
    assert scene.lost.is_file()


def test_what_is_purged_or_abandoned_needs_no_work_area(scene: Scene) -> None:
    scene.apply()
    runs = [{"folder": scene.ran}]
    for abandon in (True, False):
        shutil.rmtree(scene.root.parent / ".kafkats")
        result = scene.ask("purge", runs=runs, options={"Purge": {"abandon": abandon}})
        assert (result.exit_code, result.runs[0].errors) == (0, [])
        (scene.root.parent / ".kafkats").mkdir()


def test_an_operation_that_is_not_known(scene: Scene) -> None:
    scene.apply()
    scene.change_run(operation="renew", run_id=f"renew-{scene.digest[:16]}")
    result = scene.ask("purge", runs=[{"folder": scene.ran}])
    assert result.error is not None and result.error.kind == "CorruptPlan"
    assert not (scene.ran / "purge.json").exists()
