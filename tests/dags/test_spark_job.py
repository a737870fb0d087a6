"""The operator against the pinned provider: what it does with a job's lines, and how a job's failure reads."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from kafkats_airflow.spark_job import JOBS, KafkatsJobOperator, SparkUiLink


class Store(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Instance:
    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


class Process:
    """spark-submit as the hook sees it."""

    def __init__(self, lines: list[str], code: int) -> None:
        self.stdout = iter(lines)
        self.code = code

    def wait(self) -> int:
        return self.code

    def poll(self) -> int:
        return self.code


def job(name: str = "plan") -> KafkatsJobOperator:
    return KafkatsJobOperator(task_id=name, job=name, conn_id="spark_default", application_args=["rebuild", 7])


def run(monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int = 0) -> tuple[Any, dict[str, Any], list[str]]:
    submitted: list[list[str]] = []

    def start(command: list[str], **_: Any) -> Process:
        submitted.append(command)
        return Process([line + "\n" for line in lines], code)

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", start)
    context: dict[str, Any] = {"ti": Instance(), "task_state_store": Store()}
    return job().execute(context), context, submitted[0]


def test_the_private_method_is_still_there() -> None:
    assert callable(SparkSubmitHook._process_spark_submit_log)


def test_pyspark_and_its_client_are_one_version() -> None:
    """Both install into pyspark/: of different versions, one would overwrite the other."""
    import pyspark

    assert version("pyspark") == version("pyspark-client") == pyspark.__version__


def test_result_progress_and_link(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"stage": "verify", "units": 1, "of_units": 2, "bytes": 5, "of_bytes": 9, "bytes_per_second": 3}
    said |= {"seconds_left": 1, "failed_tasks": 0}
    lines = [
        "26/11/21 WARN something",
        'KAFKATS_PROGRESS {"stage":"started","ui":"http://127.0.0.1:4040"}',
        f"KAFKATS_PROGRESS {json.dumps(said)}",
        'KAFKATS_RESULT {"digest":"abc"}',
    ]
    result, context, command = run(monkeypatch, lines)
    assert result == {"digest": "abc"}
    assert context["ti"].pushed == {SparkUiLink.xcom_key: "http://127.0.0.1:4040"}
    assert context["task_state_store"]["progress"] == said
    assert command[-3:] == [str(JOBS / "plan.py"), "rebuild", "7"]
    assert (JOBS / "plan.py").is_file()


def test_other_lines_still_reach_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real = SparkSubmitHook._process_spark_submit_log
    monkeypatch.setattr(
        SparkSubmitHook,
        "_process_spark_submit_log",
        lambda self, lines: real(self, (seen.append(x) or x for x in lines)),
    )
    run(monkeypatch, ["a line", "KAFKATS_RESULT {}", "KAFKATS_PROGRESSIVE jazz"])
    assert [line.strip() for line in seen] == ["a line", "KAFKATS_PROGRESSIVE jazz"]


@pytest.mark.parametrize("retryable", [True, False])
def test_our_error_fails_the_task_in_its_own_words(monkeypatch: pytest.MonkeyPatch, *, retryable: bool) -> None:
    line = json.dumps({"error": "/data: held by a broker", "kind": "Locked", "retryable": retryable})
    with pytest.raises(AirflowException, match=r"^Locked: /data: held by a broker$") as raised:
        run(monkeypatch, [f"KAFKATS_RESULT {line}"], code=3)
    assert isinstance(raised.value, AirflowFailException) is not retryable


def test_findings_that_end_a_job_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="not_equal"):
        run(monkeypatch, ['KAFKATS_RESULT {"not_equal":["/data/a-0/x.timeindex"]}'], code=1)


def test_a_crash_of_spark_itself_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowException, match="OutOfMemoryError") as raised:
        run(monkeypatch, ["java.lang.OutOfMemoryError: Java heap space"], code=137)
    assert not isinstance(raised.value, AirflowFailException)


def test_no_result_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="client deploy mode"):
        run(monkeypatch, ["all quiet"])
