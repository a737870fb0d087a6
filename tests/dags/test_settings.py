"""What a deployment sets for all DAGs: time limits, the pool, and what happens when a value cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.definitions.mappedoperator import MappedOperator
from kafkats_airflow import settings
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.settings import TIMEOUTS, Timeouts, read_overdue, read_timeouts

from kafkats.errors import UsageError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        ("job=90m", {"job": timedelta(minutes=90)}),
        ("job=12h approval=24h canary=7d guards=12h", {}),
        (
            " approval=36h,  canary=14d ",
            {"approval": timedelta(hours=36), "canary": timedelta(days=14)},
        ),
    ],
)
def test_time_limits(text: str, given: dict[str, timedelta]) -> None:
    assert read_timeouts(text) == Timeouts(**given)


@pytest.mark.parametrize(
    "text",
    [
        "12h",
        "job=",
        "job=soon",
        "job=0s",
        "job=-1h",
        "jobs=1h",
        "job=1h job=2h",
        "canary=400d",
        "job=9999999999999w",
    ],
)
def test_wrong_time_limits_are_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"^KAFKATS_TIMEOUTS: "):
        read_timeouts(text)


@pytest.mark.parametrize(
    ("text", "given"),
    [("", timedelta(hours=36)), (" ", timedelta(hours=36)), ("2d", timedelta(days=2))],
)
def test_when_a_log_directory_is_overdue(text: str, given: timedelta) -> None:
    assert read_overdue(text) == given


@pytest.mark.parametrize("text", ["soon", "0s", "400d", "-1h", "36"])
def test_a_wrong_time_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"^KAFKATS_OVERDUE: "):
        read_overdue(text)


def test_every_submit_has_a_time_limit_and_a_pool_and_every_question_a_deadline(bag: Any) -> None:
    submits = questions = 0
    for dag in bag.dags.values():
        for task in dag.tasks:
            kind = task.operator_class if isinstance(task, MappedOperator) else type(task)
            if issubclass(kind, KafkatsJobOperator):
                submits += 1
                assert (task.execution_timeout, task.pool) == (TIMEOUTS.job, "default_pool"), (
                    task.task_id
                )
            if issubclass(kind, HITLOperator):
                questions += 1
                assert task.response_timeout in TIMEOUTS, task.task_id
    assert submits >= 16 and questions >= 4
    assert KafkatsJobOperator(task_id="plan", job="plan").execution_timeout == TIMEOUTS.job


LOOK = """
from kafkats_airflow import settings
from kafkats_airflow.dags import kafkats_dags
dags = kafkats_dags()
for dag in dags.values():
    for task in dag.tasks:
        if "Kafkats" in str(getattr(task, "operator_class", "")):
            print("submits:", task.pool, task.execution_timeout)
print("undo_days:", dags["apply_retention"].params["undo_days"])
print("wrong:", settings.WRONG)
"""


@pytest.mark.slow(12)
def test_settings_of_another_deployment() -> None:
    """A process of its own, as settings are read once. A wrong value breaks no import: tasks say what is wrong."""

    def look(**environment: str) -> list[str]:
        where = {"PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}"}
        command = [sys.executable, "-c", LOOK]
        ran = subprocess.run(
            command,
            env=os.environ | where | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.splitlines()

    def submits(lines: list[str]) -> set[str]:
        return {line.removeprefix("submits: ") for line in lines if line.startswith("submits: ")}

    assert submits(look(KAFKATS_TIMEOUTS="job=90m", KAFKATS_POOL="spark")) == {"spark 1:30:00"}
    for given, days in (
        ({}, 7),
        ({"KAFKATS_APPROVERS": "alice"}, 7),
        ({"KAFKATS_APPROVERS": "alice", "KAFKATS_UNDO_DAYS_FLOOR": "14"}, 14),
    ):
        assert f"undo_days: {days}" in look(**given), given
    said = look(KAFKATS_TIMEOUTS="job=ninety")
    assert submits(said) == {"default_pool 12:00:00"}
    assert said[-1].startswith(
        "wrong: KAFKATS_TIMEOUTS: job: 'ninety' is not a duration such as 90s"
    )


def test_a_wrong_setting_fails_every_task_in_our_words(
    bag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "WRONG", "KAFKATS_TIMEOUTS: job: 'ninety' is not a duration")
    run = bag.dags["build_lookup_tables"].test(run_conf={"policy": "/p"}, logical_date=None)
    assert str(run.state) == "failed"
    with pytest.raises(
        AirflowFailException,
        match=r"^KAFKATS_TIMEOUTS: job: 'ninety' is not a duration; trigger",
    ):
        KafkatsJobOperator(task_id="plan", job="plan").execute({
            "ti": SimpleNamespace(xcom_push=lambda *_: None)
        })
