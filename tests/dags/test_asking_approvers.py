"""Only approvers let anything be written, where a deployment names them: every DAG that writes, with the real jobs in one Spark session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow import deployment, settings
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats.config.approvers import read_approvers
from kafkats.errors import Refused
from kafkats.plans.approval import Approval, write_approval
from kafkats.plans.plan import read_plan
from tests.golden import tree
from tests.spark_jobs.words import job

ALICE = {"id": "alice", "name": "alice"}
MALLORY = {"id": "mallory", "name": "mallory"}
TOPICS = {
    "apply_retention": "{'time-*': {cleanup.policy: delete, retention.ms: 1, kafkats.guard.max.share: 0.3}}",
    "roll_segments": "{'time-*': {segment.ms: 60000}}",
    "rebuild_time_indexes": "{}",
}
YES = {
    "apply_retention": "Keep to the guard",
    "roll_segments": "Approve",
    "rebuild_time_indexes": "Approve",
}
WRITING = sorted(TOPICS)


@pytest.fixture
def run(
    bag: Any, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: list[str]
) -> Callable[..., Any]:
    """Runs a DAG by hand, writing, where alice and bob approve."""
    monkeypatch.setenv("KAFKATS_APPROVERS", "alice,2:bob")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    monkeypatch.setenv("KAFKATS_POLICY", f"{tmp_path}/policy.yaml")
    monkeypatch.setenv("KAFKATS_FOLDER", f"{tmp_path}/f")
    for name, value in {
        "HARDENED": True, "APPROVERS": read_approvers("alice,2:bob"), "POLICY": f"{tmp_path}/policy.yaml", "FOLDER": f"{tmp_path}/f",
    }.items():  # fmt: skip
        monkeypatch.setattr(settings, name, value)

    execute = KafkatsJobOperator.execute

    def checked(self: KafkatsJobOperator, context: Any) -> Any:
        in_our_words(deployment.check_request)(
            self.connection, self.asked(context), deployment.place_of(context)
        )
        return execute(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", checked)

    def run(dag: str, **more: Any) -> Any:
        volumes = f"[{{broker: '1', path: {volume}, owner_stopped: true}}]"
        (tmp_path / "policy.yaml").write_text(f"volumes: {volumes}\ntopics: {TOPICS[dag]}\n")
        if dag == "rebuild_time_indexes":
            (volume / "time-all-0" / "00000000000000000000.timeindex").write_bytes(b"")
        conf = bag.defaults[dag] | {
            "policy": settings.POLICY,
            "folder": settings.FOLDER,
            "dry_run": False,
            "need_approval": False,
        }
        if dag != "rebuild_time_indexes":
            conf["as_of"] = "2026-11-01T00:00:00Z" if dag == "roll_segments" else None
        test = {name: more.pop(name) for name in ("mark_success_pattern",) if name in more}
        return bag.dags[dag].test(run_conf=conf | more, logical_date=None, **test)

    return run


def state(run: Any, task: str) -> set[str]:
    return {str(ti.state) for ti in run.get_task_instances() if ti.task_id == task}


def failure(run: Any, task: str) -> str:
    return str(
        next(ti for ti in run.get_task_instances() if ti.task_id == task).xcom_pull(
            task_ids=task, key="failure"
        )
    )


@pytest.mark.examples(1)
@pytest.mark.parametrize("dag", WRITING)
def test_an_approver_is_asked_whatever_the_params_say(
    run: Callable[..., Any], answering: dict[str, Any], dag: str, volume: Path, tmp_path: Path
) -> None:
    before = tree(volume)
    answering |= {"says": YES[dag], "by": ALICE}
    ended = run(dag)
    assert str(ended.state) == "success"
    [asked] = answering["asked"]
    assert "Delete over the guard" not in asked["options"]
    assert tree(volume) != before, "something was written"
    [record] = (tmp_path / "f" / dag).glob("*/approval.json")
    assert json.loads(record.read_text())["by"] == "alice"


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@pytest.mark.parametrize("dag", WRITING)
def test_an_answer_of_somebody_else_writes_nothing(
    run: Callable[..., Any], answering: dict[str, Any], dag: str, volume: Path, here: list[str]
) -> None:
    answering |= {"says": YES[dag], "by": MALLORY}
    run_before = tree(volume)
    ended = run(dag)
    assert str(ended.state) == "failed"
    assert failure(ended, "approve").startswith("'mallory' answered, who is not an approver")
    assert "apply" not in here
    if dag != "rebuild_time_indexes":  # which the fixture has damaged
        assert tree(volume) == run_before


@pytest.mark.slow(1)
@pytest.mark.parametrize("dag", WRITING)
def test_marking_the_approval_as_a_success_writes_nothing(
    run: Callable[..., Any], dag: str, volume: Path
) -> None:
    before = tree(volume)
    ended = run(dag, mark_success_pattern="approve")
    assert state(ended, "apply") <= {"failed", "skipped", "upstream_failed"}
    if dag != "rebuild_time_indexes":
        assert tree(volume) == before


@pytest.mark.slow(1)
@pytest.mark.examples(1)
@pytest.mark.parametrize("by", ["mallory", "", "nobody", None])
def test_the_job_itself_wants_the_record_of_an_approver(
    run: Callable[..., Any],
    answering: dict[str, Any],
    executor: Any,
    volume: Path,
    tmp_path: Path,
    by: str | None,
) -> None:
    """A record that somebody else's answer left, or a run that asked nobody."""
    answering |= {"says": "Reject", "by": ALICE}
    run("roll_segments")
    before = tree(volume)
    [plan] = [path.parent for path in (tmp_path / "f").rglob("plan.json")]
    words = [
        str(plan),
        "--digest",
        read_plan(plan).digest,
        "--run",
        str(plan.with_name("run-1")),
        "--owner-stopped",
    ]
    if by is not None:
        record = tmp_path / "f" / "approval.json"
        write_approval(record, Approval("Approve", (read_plan(plan).digest,), by, "", 1))
        words += ["--approval", str(record)]
    with pytest.raises(Refused, match=r"KAFKATS_APPROVERS"):
        job(executor, "apply", *words)
    assert tree(volume) == before


@pytest.mark.slow(2)
def test_no_job_applies_what_goes_over_a_guard(
    run: Callable[..., Any], answering: dict[str, Any], executor: Any, volume: Path, tmp_path: Path
) -> None:
    """Not even with the record of an approver: the question showed it as one within the guards."""
    answering |= {"says": "Delete nothing", "by": ALICE}
    run("apply_retention")
    before = tree(volume)
    plans = {path.parent: read_plan(path.parent) for path in (tmp_path / "f").rglob("plan.json")}
    [(folder, plan)] = [
        (path, plan) for path, plan in plans.items() if plan.header["options"]["over_guard"]
    ]
    record = tmp_path / "f" / "approval.json"
    write_approval(record, Approval("Keep to the guard", (plan.digest,), "alice", "", 1))
    words = [
        str(folder),
        "--digest",
        plan.digest,
        "--run",
        str(folder.with_name("run-1")),
        "--owner-stopped",
    ]
    with pytest.raises(Refused, match="over the guards"):
        job(executor, "apply", *words, "--approval", record)
    assert tree(volume) == before


@pytest.mark.slow(2)
def test_no_answer_writes_nothing(
    run: Callable[..., Any], answering: dict[str, Any], volume: Path
) -> None:
    before = tree(volume)
    answering |= {"says": "Delete nothing", "by": None}
    assert str(run("apply_retention").state) == "success"
    assert tree(volume) == before


@pytest.mark.slow(8)
@pytest.mark.parametrize("dag", ["apply_retention", "roll_segments"])
def test_old_files_stay_for_the_floor(
    run: Callable[..., Any], answering: dict[str, Any], dag: str, tmp_path: Path, here: list[str]
) -> None:
    answering |= {"says": YES[dag], "by": ALICE}
    run(dag)
    [ended] = (tmp_path / "f" / dag).glob("*/*/run-*/report.json")
    assert failure(run(dag, undo_days=0), "applications").startswith("undo_days: 0 is below 7")
    run(dag)
    assert "purge" not in here
    week_ago = time.time() - 7 * 86400 - 60
    os.utime(ended, (week_ago, week_ago))
    assert state(run(dag), "purge") == {"success"}
    assert "purge" in here


@pytest.mark.slow(2)
def test_clearing_asks_again(
    run: Callable[..., Any], answering: dict[str, Any], again: Callable[..., Any], volume: Path
) -> None:
    """The yes of an approver to one run, which is then cleared, is none to what is planned next."""
    answering |= {"says": "Reject", "by": ALICE}
    before = tree(volume)
    ended = run("roll_segments")
    answering |= {"says": "Approve", "by": MALLORY}
    ended = again(ended)
    assert len(answering["asked"]) == 2
    assert failure(ended, "approve").startswith("'mallory' answered")
    assert tree(volume) == before
