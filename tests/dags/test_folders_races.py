"""Runs that meet: at one volume, at one minute, after one was killed; and runs as earlier versions laid them out."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.execution_time.supervisor import set_supervisor_comms
from click.testing import CliRunner
from kafkats_airflow.airflow_versions import Question
from kafkats_airflow.runs import folders

from kafkats.cli import cli
from kafkats.logdir.reservation import read_reservation, reservation_area, reserve
from kafkats.reserving.plans import Wish, planning
from tests.crash.real import fork
from tests.dags.runs import (
    DAMAGED,
    HOUR_MS,
    REBUILD,
    REBUILT,
    data,
    holder,
    now_ms,
    places,
    rebuild,
    report,
    retain,
    states,
)
from tests.retained import RETAIN

DAG = "rebuild_time_indexes"


@pytest.fixture
def while_asked(
    monkeypatch: pytest.MonkeyPatch, answering: dict[str, Any]
) -> Callable[[Callable[[], object]], None]:
    """Do something while the first question is open, before it is answered."""

    def do(act: Callable[[], object]) -> None:
        answer, pending = Question.execute, [act]

        def execute(self: Any, context: Any) -> Any:
            while pending:
                with set_supervisor_comms(None):
                    pending.pop()()
            return answer(self, context)

        monkeypatch.setattr(Question, "execute", execute)

    return do


def another(bag: Any, root: Path, day: int = 2, **params: Any) -> Any:
    """A run beside one without a logical date, which dag.test would delete."""
    conf = REBUILD | places(root) | params
    return bag.dags[DAG].test(run_conf=conf, logical_date=dt.datetime(2026, 1, day, tzinfo=dt.UTC))


# Two runs, one volume


@pytest.mark.slow(3)
def test_of_two_runs_the_second_ends_at_once_and_names_the_first(
    bag: Any,
    damaged: Path,
    here: list[str],
    answering: dict[str, Any],
    while_asked: Any,
    errors: list[BaseException],
) -> None:
    answering["says"] = "Approve"
    second: list[Any] = []
    while_asked(lambda: second.append(another(bag, damaged, need_approval=False)))
    first = rebuild(bag, damaged)
    assert (str(second[0].state), states(second[0])["plan"], states(second[0])["apply"]) == (
        "failed", "failed", "upstream_failed",
    )  # fmt: skip
    assert f"reserved by airflow {DAG} {first.run_id} until" in str(errors[0])
    assert len(answering["asked"]) == 1, "nobody is asked about the second"
    assert (str(first.state), holder(damaged)) == ("success", "")
    assert [(damaged / path).exists() for path in DAMAGED] == [True, True]
    said = [
        json.loads(path.read_text())
        for path in (damaged.parents[1] / "reports").glob("*/*/report.json")
    ]
    assert sorted(one["outcome"] for one in said) == ["not finished", "rebuilt and proved"]
    [told] = [one["failures"][0] for one in said if one["failures"]]
    assert first.run_id in told


@pytest.mark.slow(3)
def test_a_question_whose_deadline_has_passed_releases(
    bag: Any, damaged: Path, here: list[str], answering: dict[str, Any], while_asked: Any
) -> None:
    """What Airflow's trigger gives then: the default, by nobody."""
    held: list[str] = []
    while_asked(lambda: held.append(holder(damaged)))
    task = bag.dags[DAG].get_task("approve")
    answering |= {"says": task.defaults[0], "by": None}
    before = data(damaged)
    run = rebuild(bag, damaged)
    assert held == [f"airflow {DAG} {run.run_id}"]
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rejected")
    assert (here, holder(damaged)) == (["plan", "release"], "")
    assert data(damaged) == before
    record = json.loads(Path(report(damaged)["report"], "approval.json").read_text())
    assert (record["by"], record["digests"]) == ("nobody", [])
    second = another(bag, damaged, need_approval=False)
    assert str(second.state) == "success"


@pytest.mark.slow(2)
def test_volumes_of_others_are_left_out_and_the_rest_goes_on(
    bag: Any, damaged: Path, here: list[str], tmp_path: Path
) -> None:
    (theirs := tmp_path / "other" / "data").mkdir(parents=True)
    REBUILT.unpack("data", theirs)
    for path in DAMAGED:
        (theirs / path).unlink()
    reserve(reservation_area(theirs), "ada@host plan", now_ms() + HOUR_MS, now_ms=now_ms())
    before, policy = data(theirs), tmp_path / "two.yaml"
    volumes = [
        {"broker": str(n), "path": str(root), "owner_stopped": True}
        for n, root in enumerate((theirs, damaged))
    ]
    policy.write_text(yaml.safe_dump({"volumes": volumes}))
    run = rebuild(bag, damaged, policy=str(policy), need_approval=False)
    assert str(run.state) == "success"
    said = report(damaged)
    assert said["outcome"] == "rebuilt and proved, 1 volume left out: reserved by ada@host plan"
    assert said["volumes"] == [str(damaged)] and (damaged / DAMAGED[0]).exists()
    assert (data(theirs), holder(theirs), holder(damaged)) == (before, "ada@host plan", "")


# A worker that was killed


@pytest.mark.slow(2)
def test_what_a_killed_worker_has_reserved_expires(
    bag: Any,
    damaged: Path,
    here: list[str],
    errors: list[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its DAG run is still said to run, so nothing but the end of its reservation lets others in."""
    from kafkats_airflow.jobs import plan_job

    name, until_ms = f"airflow {DAG} killed", now_ms() + HOUR_MS

    def looking() -> None:
        with planning([str(damaged)], Wish(name, until_ms)):
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.WTERMSIG(os.waitpid(fork(looking), 0)[1]) == signal.SIGKILL
    assert holder(damaged) == name
    monkeypatch.setattr(plan_job, "is_active", lambda *_: True)
    run = rebuild(bag, damaged, need_approval=False)
    assert (str(run.state), holder(damaged)) == ("failed", name)
    assert f"reserved by {name} until" in str(errors[0])

    later = lambda: until_ms + 1  # noqa: E731
    for module in ("plans", "record"):
        monkeypatch.setattr(f"kafkats.reserving.{module}.now_ms", later)
    run = rebuild(bag, damaged, need_approval=False)
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rebuilt and proved")
    assert any(
        f"{name} until" in one and "had expired" in one for one in report(damaged)["remarks"]
    )
    assert holder(damaged) == ""


@pytest.mark.slow(1)
def test_a_run_enters_what_its_own_killed_worker_has_reserved(
    bag: Any, damaged: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.dagrun import DagRun

    monkeypatch.setattr(DagRun, "generate_run_id", staticmethod(lambda **_: "mine"))
    reserve(reservation_area(damaged), f"airflow {DAG} mine", now_ms() + HOUR_MS, now_ms=now_ms())
    run = rebuild(bag, damaged, need_approval=False)
    assert (run.run_id, str(run.state), here) == ("mine", "success", ["plan", "apply", "verify"])
    assert read_reservation(reservation_area(damaged)) is None


# Two runs, one minute


@pytest.mark.slow(3)
def test_runs_of_one_minute_keep_their_own_reports(
    bag: Any, volume: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two DAGs with one run id, and two run ids that look the same to a file system."""
    from airflow.models.dagrun import DagRun

    folder = volume.parents[1] / "reports"

    def ran(dag: str, run_id: str, day: int) -> Any:
        conf = RETAIN | places(volume) | {"dry_run": True}
        conf |= {"generation": "4.1"} if dag == "roll_segments" else {}
        conf = {name: value for name, value in conf.items() if name in bag.dags[dag].params}
        with monkeypatch.context() as patch:
            patch.setattr(DagRun, "generate_run_id", staticmethod(lambda **_: run_id))
            then = dt.datetime(2026, 1, day, tzinfo=dt.UTC)
            run = bag.dags[dag].test(run_conf=conf, logical_date=then)
        assert (run.run_id, str(run.state)) == (run_id, "success")
        return run

    wanted = [
        ("apply_retention", "a+b", 1),
        ("roll_segments", "a+b", 1),
        ("roll_segments", "a:b", 2),
    ]
    for one in wanted:
        ran(*one)
    found = {path: json.loads(path.read_text()) for path in folder.glob("*/*/report.json")}
    assert sorted((path.parent.parent.name, "retention" if "over_guard" in said else "roll") for path, said in found.items()) == [
        ("apply_retention", "retention"), ("roll_segments", "roll"), ("roll_segments", "roll"),
    ]  # fmt: skip
    assert all(said["report"] == str(path.parent) for path, said in found.items())
    assert sorted(one for one in os.listdir(folder) if not one.startswith(".")) == [
        "apply_retention",
        "roll_segments",
    ], "none leaves the folder"


# Runs of earlier versions: FOLDER/<run id>/...


@pytest.fixture
def old_layout(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    def run(act: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(
                folders,
                "run_folder",
                lambda folder, dag_id, run_id: Path(folder, folders.readable(run_id)),
            )
            return act()

    return run


@pytest.mark.slow(5)
def test_a_run_of_an_earlier_version_is_undone_and_another_one_purged(
    bag: Any, volume: Path, here: list[str], old_layout: Any
) -> None:
    folder = volume.parents[1] / "reports"
    before = set(data(volume))
    old_layout(lambda: retain(bag, volume))
    [first] = folder.glob("*/*/run-*")
    assert len(first.relative_to(folder).parts) == 3 and set(data(volume)) != before
    assert CliRunner().invoke(cli, ["undo", str(first)]).exit_code == 0
    assert set(data(volume)) - {".lock"} == before - {".lock"}

    old_layout(lambda: retain(bag, volume))
    [second] = set(folder.glob("*/*/run-*")) - {first}
    here.clear()
    run = retain(bag, volume, undo_days=0)
    assert str(run.state) == "success", states(run)
    found = (folder / "apply_retention").glob("*/report.json")
    [said] = [json.loads(path.read_text()) for path in found]
    assert (here[-1], set(said["purged"])) == ("purge", {str(first), str(second)})
    assert said["purged_bytes"] > 0
    assert (second / "purge.json").exists()
