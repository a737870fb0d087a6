"""Reservations by DAG runs: another run's is respected, that of a run which is over is taken over, and none is left behind."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from kafkats.logdir.reservation import reservation_area, reserve
from tests.dags.runs import HOUR_MS, REBUILD, data, holder, now_ms, places, rebuild, report, states


def other_run(bag: Any, root: Path) -> Any:
    """One that has failed; dag.test deletes an earlier run without a logical date."""
    conf = REBUILD | places(root) | {"topics": "none-*"}
    then = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return bag.dags["rebuild_time_indexes"].test(
        run_conf=conf, logical_date=then, mark_success_pattern="approve"
    )


@pytest.mark.slow(1)
@pytest.mark.parametrize("over", ["deleted", "failed"])
def test_the_reservation_of_a_run_that_is_over_is_taken_over(
    bag: Any, damaged: Path, here: list[str], over: str
) -> None:
    run_id = "gone"
    if over == "failed":
        run_id = other_run(bag, damaged).run_id
    here.clear()
    reserve(
        reservation_area(damaged),
        f"airflow rebuild_time_indexes {run_id}",
        now_ms() + HOUR_MS,
        now_ms=now_ms(),
    )
    run = rebuild(bag, damaged, need_approval=False)
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rebuilt and proved")
    assert here == ["plan", "plan", "apply", "verify"]
    assert holder(damaged) == ""


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@pytest.mark.parametrize("volumes", [[], ["1"]])
def test_what_somebody_else_holds_is_refused_at_once_by_name(
    bag: Any, damaged: Path, here: list[str], errors: list[BaseException], volumes: list[str]
) -> None:
    reserve(reservation_area(damaged), "ada@host plan", now_ms() + HOUR_MS, now_ms=now_ms())
    before = data(damaged)
    run = rebuild(bag, damaged, need_approval=False, volumes=volumes)
    assert (str(run.state), states(run)["plan"]) == ("failed", "failed")
    assert "reserved by ada@host plan until" in str(errors[0])
    assert (data(damaged) == before) and holder(damaged) == "ada@host plan"
    run = rebuild(bag, damaged, dry_run=True)
    assert str(run.state) == "success", "a dry run needs no reservation"
    assert any("reserved by ada@host plan until" in remark for remark in report(damaged)["remarks"])


@pytest.mark.slow(2)
def test_a_run_that_is_active_keeps_its_reservation(
    bag: Any, damaged: Path, here: list[str], errors: list[BaseException]
) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    first = other_run(bag, damaged)
    with create_session() as session:
        session.get(DagRun, first.id).state = DagRunState.RUNNING
    name = f"airflow rebuild_time_indexes {first.run_id}"
    reserve(reservation_area(damaged), name, now_ms() + HOUR_MS, now_ms=now_ms())
    errors.clear()
    run = rebuild(bag, damaged, need_approval=False)
    assert (str(run.state), states(run)["plan"]) == ("failed", "failed")
    assert f"reserved by {name} until" in str(errors[0])
    with create_session() as session:
        session.get(DagRun, first.id).state = DagRunState.FAILED


@pytest.mark.slow(2)
@pytest.mark.parametrize("says", ["Reject", "mark success"])
def test_a_no_and_a_failure_release(
    bag: Any, damaged: Path, here: list[str], answering: dict[str, Any], says: str
) -> None:
    answering["says"] = says
    run = rebuild(bag, damaged, mark="approve" if says == "mark success" else None)
    assert str(run.state) == ("success" if says == "Reject" else "failed")
    assert (states(run)["release"], here[-1], holder(damaged)) == ("success", "release", "")


def test_a_report_names_the_volumes_that_were_left_out() -> None:
    from kafkats_airflow.reports.common import left_out

    one = {"log_dir": "/a", "holder": "airflow apply_retention r1", "until_ms": 1}
    assert left_out([{"totals": {}}, {"reserved": []}]) == ""
    assert left_out([{"reserved": [one, one | {"log_dir": "/b"}]}]) == (
        ", 2 volumes left out: reserved by airflow apply_retention r1"
    )
