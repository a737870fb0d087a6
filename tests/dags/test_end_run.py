"""end_run undoes and purges what a run of another DAG wrote, and only that."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow import settings
from kafkats_airflow.jobs import plan_job
from kafkats_airflow.tasks import end_run

from kafkats.clock import now_ms
from kafkats.config.approvers import read_approvers
from kafkats.logdir.reservation import reservation_area, reserve, writing
from tests.dags.runs import data, holder, places, rebuild, states
from tests.ui.folders import HOUR_MS, change, live

ALICE, MALLORY = {"id": "alice", "name": "alice"}, {"id": "mallory", "name": "mallory"}


@pytest.fixture
def rebuilt(bag: Any, damaged: Path, here: list[str]) -> tuple[Any, dict[str, Any]]:
    """A run that has rebuilt indexes, and the log directory before it."""
    before = files(damaged)
    run = rebuild(bag, damaged, need_approval=False)
    assert files(damaged) != before
    return run, before


@pytest.fixture
def end(bag: Any, damaged: Path, rebuilt: tuple[Any, Any]) -> Callable[..., Any]:
    """Runs end_run on that run."""

    def end(verb: str, **more: Any) -> Any:
        run, _ = rebuilt
        conf = bag.defaults["end_run"] | places(damaged) | {"verb": verb, "digest": shown(damaged)}
        conf |= {"of_dag": run.dag_id, "of_run": run.run_id, "need_approval": False} | more
        return bag.dags["end_run"].test(run_conf=conf, logical_date=None)

    return end


def files(root: Path) -> dict[str, Any]:
    """All files of the log directory, to the byte, inode and time; a lock that was made is no file of Kafka's."""
    return {
        path: facts
        for path, facts in data(root).items()
        if path != ".lock" and stat.S_ISREG(facts[2])
    }


def folder_of(damaged: Path, dag: str) -> Path:
    [found] = (damaged.parents[1] / "reports" / dag).iterdir()
    return found


def shown(damaged: Path) -> str:
    """The digest as a page shows it."""
    return end_run.digest_of(end_run.open_runs(folder_of(damaged, "rebuild_time_indexes")))[:16]


def report(damaged: Path) -> dict[str, Any]:
    return dict(json.loads((folder_of(damaged, "end_run") / "report.json").read_text()))


def overview(damaged: Path, dag: str = "end_run") -> dict[str, Any]:
    return dict(json.loads((folder_of(damaged, dag) / "overview.json").read_text()))


def failure(run: Any, task: str) -> str:
    [ti] = [ti for ti in run.get_task_instances() if ti.task_id == task]
    return str(ti.xcom_pull(task_ids=task, key="failure"))


@pytest.mark.long(2)
def test_an_undo_puts_everything_back(
    rebuilt: tuple[Any, Any],
    end: Callable[..., Any],
    damaged: Path,
    here: list[str],
    again: Callable[..., Any],
) -> None:
    _, before = rebuilt
    kept = overview(damaged, "rebuild_time_indexes")["undo"]
    assert [one["bytes"] for one in kept] == [{str(damaged): 0}], "it added files, replaced none"
    ended = end("undo")
    assert str(ended.state) == "success"
    assert files(damaged) == before
    said = report(damaged)
    assert (said["outcome"], said["files"]) == ("undone", 2)
    shown = overview(damaged)
    assert (shown["outcome"], shown["failed"], shown["volumes"]) == ("undone", False, [])
    assert shown["started"]["volumes"] == {str(damaged): "1"}, "the list of runs names them"
    assert states(ended)["purge"] == "skipped"
    again(ended)
    assert report(damaged)["outcome"] == "undone", "a cleared run ends what it was about at first"
    assert files(damaged) == before


@pytest.mark.slow(2)
def test_a_purge_frees_the_old_files_for_good(
    rebuilt: tuple[Any, Any], end: Callable[..., Any], damaged: Path
) -> None:
    digest, after = shown(damaged), files(damaged)
    ended = end("purge")
    assert str(ended.state) == "success"
    said = report(damaged)
    assert said["outcome"] == "purged"
    assert len(said["runs"]) == 1 and said["runs"][0].startswith(str(damaged.parents[1]))
    assert files(damaged) == after
    assert end_run.open_runs(folder_of(damaged, "rebuild_time_indexes")) == []
    late = end("undo", digest=digest)
    assert "nothing to end" in failure(late, "changes")
    assert files(damaged) == after


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"digest": "0" * 16}, "this run has other RUNs than were shown"),
        ({"digest": "0" * 7}, "digest: at least 8 digits"),
        ({"digest": None}, "digest: at least 8 digits"),
        ({"of_run": None}, "of_dag and of_run name"),
        ({"of_run": "manual__another"}, "nothing to end"),
    ],
)
def test_what_is_not_as_it_was_shown_is_left_alone(
    end: Callable[..., Any], damaged: Path, here: list[str], more: dict[str, Any], says: str
) -> None:
    after = files(damaged)
    ended = end("undo", **more)
    assert str(ended.state) == "failed"
    assert says in failure(ended, "changes")
    shown = overview(damaged)
    assert shown["failed"] and says in shown["why"], "the first task failed"
    assert files(damaged) == after and "undo" not in here


@pytest.fixture
def left(bag: Any, damaged: Path) -> Callable[[], Any]:
    """Runs end_run to release what a deleted run of another DAG has left reserved."""
    name, run = "rebuild_time_indexes", "manual__gone"
    folder = damaged.parents[1] / "reports" / name / run
    live(folder, now_ms(), started={"volumes": {str(damaged): "1"}})
    reserve(reservation_area(damaged), f"airflow {name} {run}", now_ms() + HOUR_MS, now_ms=now_ms())

    def end() -> Any:
        conf = bag.defaults["end_run"] | places(damaged) | {"verb": "release"}
        return bag.dags["end_run"].test(
            run_conf=conf | {"of_dag": name, "of_run": run}, logical_date=None
        )

    return end


def test_a_release_ends_the_reservation_of_a_run_that_is_over(
    left: Callable[[], Any], damaged: Path, here: list[str]
) -> None:
    before = files(damaged)
    ended = left()
    assert (str(ended.state), holder(damaged), here) == ("success", "", ["release"])
    said = report(damaged)
    assert (said["outcome"], said["runs"], said["volumes"]) == ("released", [], [str(damaged)])
    assert {states(ended)[one] for one in ("undo", "purge")} == {"skipped"}
    assert files(damaged) == before


def test_nothing_is_released_while_a_process_writes(
    left: Callable[[], Any], damaged: Path, here: list[str]
) -> None:
    with writing(reservation_area(damaged)):
        left()
    [told] = report(damaged)["failures"]
    assert told.startswith("release: ") and "and a process still writes for it" in told
    assert holder(damaged).endswith(" manual__gone")
    assert report(damaged)["outcome"] == "not finished"


@pytest.mark.slow(1)
@pytest.mark.parametrize("active", [[True], [False, True]])
def test_nothing_is_released_of_an_active_run(
    left: Callable[[], Any],
    damaged: Path,
    here: list[str],
    active: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked by the first task, and by that which releases."""
    told = iter(active)
    monkeypatch.setattr(plan_job, "is_active", lambda *_: next(told))
    assert str(left().state) == "failed"
    assert next(told, None) is None, "both have asked, or the first refused"
    assert "is queued or running" in overview(damaged)["why"]
    assert (holder(damaged).endswith(" manual__gone"), here) == (True, [])


@pytest.mark.parametrize("linked", ["dag", "run", "group"])
def test_no_link_leads_to_the_runs_of_another(tmp_path: Path, linked: str) -> None:
    other = tmp_path / "elsewhere" / "apply_retention" / "secret"
    change(other, "f" * 64, {"/data": 5}, None)
    folder = tmp_path / "reports" / "rebuild_time_indexes" / "mine"
    link, to = {
        "dag": (folder.parent, other.parent),
        "run": (folder, other),
        "group": (folder / "spark_default", other / "spark_default"),
    }[linked]
    link.parent.mkdir(parents=True)
    link.symlink_to(to)
    params = {
        "folder": str(tmp_path / "reports"), "of_dag": "rebuild_time_indexes", "verb": "purge",
        "of_run": "secret" if linked == "dag" else "mine", "digest": "f" * 64,
    }  # fmt: skip
    context = {"params": params, "dag": SimpleNamespace(dag_id="end_run"), "run_id": "r1"}
    with pytest.raises(Exception, match=r"a link|does not lie in the folder"):
        end_run.changing(context)  # type: ignore[arg-type]


@pytest.mark.slow(3)
def test_approvers_are_asked(
    end: Callable[..., Any],
    rebuilt: tuple[Any, Any],
    damaged: Path,
    answering: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a deployment names them, whatever `need_approval` says; and old files stay for the floor."""
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    where = places(damaged)
    for name, value in {
        "HARDENED": True, "APPROVERS": read_approvers("alice"),
        "POLICY": where["policy"], "FOLDER": where["folder"],
    }.items():  # fmt: skip
        monkeypatch.setattr(settings, name, value)
    after = files(damaged)
    young = end("purge")
    assert "this deployment keeps old files for 7 days" in failure(young, "changes")
    answering |= {"says": "Approve", "by": MALLORY}
    other = end("undo")
    assert failure(other, "approve").startswith("'mallory' answered")
    assert files(damaged) == after
    answering |= {"by": ALICE}
    assert str(end("undo").state) == "success"
    assert "is put back (2 files)" in answering["asked"][-1]["body"]
    assert files(damaged) == rebuilt[1]
