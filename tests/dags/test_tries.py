"""Runs that are cleared, on real directories with the real jobs: what every try wrote is named and proved, and nothing is written
without a yes to its digest, whatever becomes of the tasks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from kafkats_airflow.approvals.guards import NO, NOTHING, YES
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats.cli import cli
from tests.dags.runs import (
    DAMAGED,
    Again,
    data,
    places,
    policy,
    rebuild,
    refusing,
    report,
    retain,
    states,
)
from tests.retained import AS_OF, GOLDEN, RETAIN


@pytest.mark.slow(6)
def test_a_run_that_was_refused_in_part_and_cleared_names_and_proves_both_tries(
    bag: Any, volume: Path, here: list[str], again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data(volume)
    refusing(monkeypatch, volume, "time-all-0", "size-0")
    run = retain(bag, volume)
    assert (str(run.state), states(run)["apply"]) == ("failed", "failed")
    first = report(volume)
    assert first["outcome"] == "not finished" and len(first["runs"]) == 1
    moved = set(before) - set(data(volume))
    assert moved and not any(path.startswith(("time-all-0", "size-0/")) for path in moved)

    run = again(run)
    assert str(run.state) == "success", states(run)
    second = report(volume)
    assert second["outcome"] == "deleted and proved"
    assert len(second["runs"]) == 2 and second["runs"][0] == first["runs"][0]
    plans = [one["plan"] for said in (first, second) for one in said["plans"]]
    assert len(set(plans)) == 2 and all((Path(plan) / "plan.json").exists() for plan in plans), (
        "no plan replaced"
    )
    done = [
        row
        for row in pq.read_table(Path(second["report"], "actions.parquet")).to_pylist()
        if row["outcome"] == "done"
    ]
    assert {row["partition_dir"] for row in done} >= {"time-all-0", "size-0", "time-some-0"}
    assert second["files_proved"] == len(done) > second["files_planned"]
    proofs = [json.loads(Path(one, "proof.json").read_text())["files"] for one in second["runs"]]
    assert sum(proofs) == len(done) and all(proofs)

    here.clear()
    run = again(run)  # green, and cleared once more
    assert (str(run.state), here) == ("success", ["plan"])
    assert (report(volume)["outcome"], report(volume)["runs"]) == (
        "deleted and proved",
        second["runs"],
    )

    for one in reversed(second["runs"]):
        assert CliRunner().invoke(cli, ["undo", one]).exit_code == 0
    assert {
        path: facts for path, facts in data(volume).items() if path in before
    }.keys() == before.keys()
    assert all((Path(one) / "undone.json").exists() for one in second["runs"])


@pytest.mark.slow(4)
def test_what_an_earlier_try_wrote_is_proved_though_nothing_is_left_to_do(
    bag: Any, volume: Path, here: list[str], again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try's worker is lost after it has written; a file that comes back then is found out."""
    execute = KafkatsJobOperator.execute

    def lost(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        said = execute(self, context)
        if self.job == "apply":
            os.unlink(
                Path(said["run"], "report.parquet")
            )  # the driver was killed before it wrote these
            os.unlink(Path(said["run"], "report.json"))
            raise AirflowFailException("the worker was lost")
        return said

    from airflow.sdk.exceptions import AirflowFailException

    with monkeypatch.context() as patch:
        patch.setattr(KafkatsJobOperator, "execute", lost)
        run = retain(bag, volume)
    assert report(volume)["outcome"] == "not finished"
    here.clear()
    gone = sorted(set(GOLDEN.files("before")) - set(data(volume)))
    log = next(path for path in gone if path.endswith(".log"))
    (volume / log).write_bytes(b"back")
    run = again(run, "plan", "approve", "changes", "apply", "verify", "due", "purge", "report")
    assert (str(run.state), states(run)["verify"]) == ("failed", "failed")
    (volume / log).unlink()
    run = again(run)
    said = report(volume)
    assert (str(run.state), said["outcome"], len(said["runs"])) == (
        "success",
        "deleted and proved",
        1,
    )
    assert "apply" not in here and said["files_planned"] == 0 and said["files_proved"] > 60


@pytest.mark.slow(3)
def test_a_try_that_was_undone_is_named_and_not_proved(
    bag: Any, volume: Path, here: list[str], again: Again
) -> None:
    run = retain(bag, volume)
    [first] = report(volume)["runs"]
    assert CliRunner().invoke(cli, ["undo", first]).exit_code == 0
    run = again(run)
    said = report(volume)
    assert (str(run.state), said["outcome"]) == ("success", "deleted and proved")
    assert (len(said["runs"]), said["undone"]) == (2, [first])


# A yes is to a digest


def refused(run: Any, root: Path, before: dict[str, Any]) -> None:
    assert (str(run.state), states(run)["apply"]) == ("failed", "failed")
    assert data(root) == before, "nothing was written"
    assert report(root)["outcome"].startswith("not finished")


@pytest.mark.slow(3)
def test_marked_as_success_is_not_a_yes(
    bag: Any,
    damaged: Path,
    here: list[str],
    again: Again,
    answering: dict[str, Any],
    errors: list[Any],
) -> None:
    before = data(damaged)
    run = rebuild(bag, damaged, mark="approve")
    refused(run, damaged, before)
    [error] = errors
    assert "was not approved: there is no record of an answer" in str(error)
    answering["says"] = "Approve"
    run = again(run)
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rebuilt and proved")
    [asked] = answering["asked"]
    assert report(damaged)["plans"][0]["digest"][:16] in asked["body"]
    record = json.loads(Path(report(damaged)["report"], "approval.json").read_text())
    assert (record["option"], record["by"]) == ("Approve", "Ada")
    assert record["digests"] == [report(damaged)["plans"][0]["digest"]]


@pytest.mark.slow(2)
@pytest.mark.parametrize("dag", ["apply_retention", "roll_segments"])
def test_marked_as_success_is_no_yes_anywhere(
    bag: Any, volume: Path, here: list[str], dag: str
) -> None:
    before = data(volume)
    conf = RETAIN | places(volume) | {"as_of": AS_OF}
    if dag == "roll_segments":
        conf |= {
            "policy": policy(volume, topics={"time-*": {"segment.ms": 60_000}}),
            "generation": "4.1",
        }
        conf = {name: value for name, value in conf.items() if name in bag.dags[dag].params}
    run = bag.dags[dag].test(run_conf=conf, logical_date=None, mark_success_pattern="approve")
    refused(run, volume, before)


@pytest.mark.slow(4)
def test_a_new_plan_needs_a_new_answer(
    bag: Any, damaged: Path, here: list[str], again: Again, answering: dict[str, Any]
) -> None:
    answering["says"] = "Reject"
    run = rebuild(bag, damaged)
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rejected")
    before = data(damaged)
    again(run, "apply")
    assert data(damaged) == before, "a no holds when apply is cleared alone"

    answering["says"] = "Approve"
    run = again(run)
    assert report(damaged)["outcome"] == "rebuilt and proved"
    (damaged / DAMAGED[0]).unlink()
    before = data(damaged)
    run = again(run, "plan")
    assert data(damaged) == before, "plan cleared alone writes nothing"
    asked = len(answering["asked"])
    run = again(run, "changes", "apply", "verify", "report")
    assert len(answering["asked"]) == asked, "and nobody was asked"
    refused(run, damaged, before)
    run = again(run, "approve", "apply", "verify", "report")
    assert (str(run.state), report(damaged)["outcome"]) == ("success", "rebuilt and proved")
    assert len(answering["asked"]) == asked + 1


@pytest.mark.slow(4)
def test_an_answer_in_an_xcom_is_none(
    bag: Any, volume: Path, here: list[str], again: Again, answering: dict[str, Any]
) -> None:
    """Whoever may write XComs says that the guards may be passed."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    answering["says"] = NO
    guarded = {
        "time-all": {
            "cleanup.policy": "delete",
            "retention.ms": 86400000,
            "kafkats.guard.max.share": 0.3,
        }
    }
    run = retain(bag, volume, guarded, need_approval=True)
    assert report(volume)["outcome"] == "deleted and proved, 3 segments kept by a guard"
    before = data(volume)
    with create_session() as session:
        forged = {"chosen_options": [YES], "params_input": {}}
        XComModel.set(
            key="return_value", value=forged, task_id="approve", dag_id=run.dag_id, run_id=run.run_id, serialize=False,
            session=session,
        )  # fmt: skip
    run = again(run, "changes", "apply", "verify", "report")
    refused(run, volume, before)
    assert "approval.json" in os.listdir(Path(report(volume)["report"]))


@pytest.mark.slow(2)
def test_a_plan_of_another_run_is_not_asked_about_nor_applied(
    bag: Any, damaged: Path, here: list[str], again: Again, answering: dict[str, Any]
) -> None:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    answering["says"] = "Reject"
    other = rebuild(bag, damaged, topics="none-*")
    work = next(ti for ti in other.get_task_instances() if ti.task_id == "changes").xcom_pull(
        task_ids="changes"
    )
    run = rebuild(bag, damaged)
    before, asked = data(damaged), len(answering["asked"])
    with create_session() as session:
        XComModel.set(
            key="return_value", value=work, task_id="changes", dag_id=run.dag_id, run_id=run.run_id, serialize=False,
            session=session,
        )  # fmt: skip
    answering["says"] = "Approve"
    run = again(run, "approve", "apply", "verify", "report")
    assert (str(run.state), states(run)["approve"]) == ("failed", "failed")
    assert len(answering["asked"]) == asked and data(damaged) == before


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@pytest.mark.parametrize(("says", "left", "outcome"), [
    (NOTHING, [0, 34, 68, 102], "rejected"),
    (NO, [34, 68, 102], "deleted and proved, 3 segments kept by a guard"),
    (YES, [102], "deleted and proved"),
])  # fmt: skip
def test_retention_can_be_made_to_ask_about_everything(
    bag: Any, volume: Path, here: list[str], answering: dict[str, Any], monkeypatch: pytest.MonkeyPatch,
    says: str, left: list[int], outcome: str,
) -> None:  # fmt: skip
    guarded = {
        "time-all": {
            "cleanup.policy": "delete",
            "retention.ms": 86400000,
            "kafkats.guard.max.share": 0.3,
        }
    }
    answering["says"] = says
    monkeypatch.setattr(bag.dags["apply_retention"].get_task("approve"), "always", True)
    run = retain(bag, volume, guarded, need_approval=False)
    assert str(run.state) == "success", states(run)
    assert [asked["options"] for asked in answering["asked"]] == [[YES, NO, NOTHING]]
    assert sorted(int(log.name[:20]) for log in (volume / "time-all-0").glob("*.log")) == left
    assert report(volume)["outcome"] == outcome


@pytest.mark.slow(2)
def test_a_roll_asks_when_it_is_told_to(
    bag: Any, volume: Path, here: list[str], answering: dict[str, Any]
) -> None:
    conf = {
        "policy": policy(volume, topics={"time-*": {"segment.ms": 60_000}}),
        "folder": str(volume.parents[1] / "reports"),
    }
    conf |= {
        name: RETAIN[name] for name in ("volumes", "topics", "as_of", "undo_days", "dry_run")
    } | {"generation": "4.1"}
    before = data(volume)
    for says, outcome in (("Reject", "rejected"), ("Approve", "rolled and proved")):
        answering["says"] = says
        run = bag.dags["roll_segments"].test(
            run_conf=conf | {"need_approval": True}, logical_date=None
        )
        assert (str(run.state), report(volume)["outcome"]) == ("success", outcome)
        assert (data(volume) == before) == (says == "Reject")
    assert len(answering["asked"]) == 2
