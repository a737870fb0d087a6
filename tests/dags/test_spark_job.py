"""The operator against the pinned provider: what it does with a job's lines, and how a job's failure reads."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTimeout
from kafkats_airflow import sentences
from kafkats_airflow.failing import FAILURE, Held
from kafkats_airflow.jobs.spark_job import JOBS, KafkatsJobOperator, SparkUiLink

CONTEXTS: list[dict[str, Any]] = []
"""Of the jobs that ran."""


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
    return KafkatsJobOperator(
        task_id=name, job=name, conn_id="spark_default", application_args=["rebuild", 7]
    )


def commands(monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int = 0) -> list[list[str]]:
    """The commands of all submits from now on, each of which prints `lines`."""
    submitted: list[list[str]] = []

    def start(command: list[str], **_: Any) -> Process:
        submitted.append(command)
        return Process([line + "\n" for line in lines], code)

    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", start)
    return submitted


def run(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], code: int = 0
) -> tuple[Any, dict[str, Any], list[str]]:
    submitted = commands(monkeypatch, lines, code)
    context: dict[str, Any] = {"ti": Instance(), "task_state_store": Store()}
    try:
        return job().execute(context), context, submitted[0]
    finally:
        CONTEXTS.append(context)


def test_the_private_method_is_still_there() -> None:
    assert callable(SparkSubmitHook._process_spark_submit_log)


def test_pyspark_and_its_client_are_one_version() -> None:
    """Both install into pyspark/: of different versions, one would overwrite the other."""
    import pyspark

    assert version("pyspark") == version("pyspark-client") == pyspark.__version__


def test_result_progress_and_link(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "stage": "verify",
        "units": 1,
        "of_units": 2,
        "bytes": 5,
        "of_bytes": 9,
        "bytes_per_second": 3,
    }
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


def test_a_second_submit_of_a_task_has_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a plan that takes over the reservation of a run which is over."""
    submitted = commands(monkeypatch, ['KAFKATS_RESULT {"digest":"abc"}'])
    operator, context = job(), {"ti": Instance(), "task_state_store": Store()}
    operator.execute(context)
    operator.application_args = ["rebuild", 7, "--take-over", "airflow a b"]
    operator.execute(context)
    first, second = (command[command.index(str(JOBS / "plan.py")) :] for command in submitted)
    assert second == [*first, "--take-over", "airflow a b"]


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
def test_our_error_fails_the_task_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, *, retryable: bool
) -> None:
    line = json.dumps({
        "error": "/data: held by a broker",
        "kind": "Locked",
        "retryable": retryable,
    })
    with pytest.raises(
        AirflowException,
        match=r"^/data: held by a broker; stop what holds it, or wait for it, then clear the task;"
        r" another try can help$",
    ) as raised:
        run(monkeypatch, [f"KAFKATS_RESULT {line}"], code=3)
    assert isinstance(raised.value, AirflowFailException) is not retryable
    assert CONTEXTS[-1]["ti"].pushed[FAILURE] == str(raised.value)


def test_who_holds_a_log_directory_is_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    holder = {"log_dir": "/data", "holder": "airflow a b until c", "until_ms": 5}
    error = {"error": "/data: reserved", "kind": "Reserved", "retryable": False}
    with pytest.raises(Held) as raised:
        run(monkeypatch, [f"KAFKATS_RESULT {json.dumps({**error, 'holders': [holder]})}"], code=3)
    assert [one._asdict() for one in raised.value.holders] == [holder]


def test_findings_that_end_a_job_fail_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "files": 30,
        "equal": 28,
        "not_equal": ["/data/a-0/x.timeindex", "/data/a-0/y.index"],
        "report": "/r",
    }
    with pytest.raises(AirflowFailException) as raised:
        run(monkeypatch, [f"KAFKATS_RESULT {json.dumps(found)}"], code=1)
    assert str(raised.value) == (
        "plan: 2 of 30 files not as planned: /data/a-0/x.timeindex (and 1 more); see /r and this task's log, and undo the"
        " run if that is not explained"
    )


def test_what_was_refused_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "run": "/r/run-1",
        "outcomes": {"done": 68, "refused": 12},
        "partitions": 9,
        "left_partitions": 2,
    }
    found |= {"errors": ["/data/a-0: held by a broker", "/data/b-0: changed since the plan"]}
    with pytest.raises(AirflowFailException) as raised:
        run(monkeypatch, [f"KAFKATS_RESULT {json.dumps(found)}"], code=3)
    assert str(raised.value) == (
        "plan: 12 refused of 80 files in 2 of 9 partitions: /data/a-0: held by a broker (and 1 more); clear the run to make a new plan"
        " of the rest; Undo on the page of the run puts back what was done"
    )


def test_an_unknown_connection_submits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.subprocess.Popen", None)
    wrong = KafkatsJobOperator(task_id="plan", job="plan", conn_id="host_nine", application_args=[])
    with pytest.raises(
        AirflowFailException,
        match=r"^Airflow has no connection 'host_nine', which the policy",
    ):
        wrong.execute({"ti": Instance()})


def test_a_crash_of_spark_itself_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowException, match="OutOfMemoryError") as raised:
        run(monkeypatch, ["java.lang.OutOfMemoryError: Java heap space"], code=137)
    assert not isinstance(raised.value, AirflowFailException)


def test_no_result_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowFailException, match="client deploy mode"):
        run(monkeypatch, ["all quiet"])


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {"stage": "plan", "units": 12, "of_units": 30, "bytes": 1288490189, "of_bytes": 4 * 2**30,
             "bytes_per_second": 310 * 2**20, "seconds_left": 9, "failed_tasks": 0},
            "plan: 12 of 30 units, 1.2 GiB of 4.0 GiB, 310.0 MiB/s, about 9 s left",
        ),
        (
            {"stage": "verify", "units": 0, "of_units": 2, "bytes": 0, "of_bytes": 900, "bytes_per_second": 0,
             "seconds_left": None, "failed_tasks": 0},
            "verify: 0 of 2 units, 0 B of 900 B",
        ),
        (
            {"stage": "apply", "units": 1, "of_units": 9, "bytes": 2**40, "of_bytes": 9 * 2**40, "bytes_per_second": 2**26,
             "seconds_left": 131072, "failed_tasks": 3},
            "apply: 1 of 9 units, 1.0 TiB of 9.0 TiB, 64.0 MiB/s, about 36 h left, 3 tasks repeated",
        ),
        (
            {"stage": "undo", "units": 9, "of_units": 9, "bytes": 9, "of_bytes": 9, "bytes_per_second": 3,
             "seconds_left": 0, "failed_tasks": 0},
            "undo: 9 of 9 units",
        ),
    ],
)  # fmt: skip
def test_progress_in_units_of_people(said: dict[str, Any], line: str) -> None:
    assert sentences.of_progress(said) == line


HANGING = """
import os, sys, threading, time
sys.path.insert(0, {jobs!r})
from fanout import end_with_the_jvm, started

def hang_in(executor):
    def hang(rows):
        open(os.path.join({folder!r}, f"worker-{{os.getpid()}}"), "w").close()
        time.sleep(600)
        yield from rows
    threading.Thread(target=lambda: executor.spark.sparkContext.parallelize(range(2), 2).mapPartitions(hang).collect(), daemon=True).start()
    open(os.path.join({folder!r}, f"driver-{{os.getpid()}}"), "w").close()
    open(os.path.join({folder!r}, f"jvm-{{os.getppid()}}"), "w").close()
    time.sleep(600)  # in Python, where nothing hears of the JVM

end_with_the_jvm()
with started("hang", {{}}) as executor:
    hang_in(executor)
"""


def pids(folder: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in folder.iterdir():
        name, _, pid = path.name.partition("-")
        found.setdefault(name, []).append(int(pid))
    return found


def hanging(tmp_path: Path) -> tuple[KafkatsJobOperator, Path]:
    folder = tmp_path / "pids"
    folder.mkdir()
    script = tmp_path / "hang.py"
    script.write_text(HANGING.format(jobs=str(JOBS), folder=str(folder)))
    operator = KafkatsJobOperator(
        task_id="plan", job="plan", conn_id="spark_default", application_args=[]
    )
    operator.application = str(script)
    return operator, folder


def wait_for(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def alive(folder: Path) -> list[int]:
    every = [pid for some in pids(folder).values() for pid in some]
    return [
        pid
        for pid in every
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.slow(3)
def test_after_the_time_limit_the_driver_and_its_python_are_dead(tmp_path: Path) -> None:
    """A real spark-submit that hangs, in the driver and on its workers."""
    operator, folder = hanging(tmp_path)
    operator.execution_timeout = timedelta(minutes=90)
    context: dict[str, Any] = {"ti": Instance(), "task_state_store": Store()}

    def alarm(*_: Any) -> None:
        raise AirflowTaskTimeout("Timeout")

    def when_all_hang() -> None:
        if wait_for(lambda: len(pids(folder).get("worker", [])) == 2, 120):
            os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, alarm)
    threading.Thread(target=when_all_hang, daemon=True).start()
    try:
        with pytest.raises(
            AirflowTaskTimeout, match=r"^plan: not done within 90 min: its driver was killed"
        ):
            operator.execute(context)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert {name: len(some) for name, some in pids(folder).items()} == {
        "worker": 2,
        "driver": 1,
        "jvm": 1,
    }
    assert alive(folder) == []
    assert context["ti"].pushed[FAILURE].startswith("plan: not done within 90 min")


@pytest.mark.slow(4)
def test_a_driver_ends_with_its_jvm(tmp_path: Path) -> None:
    """Whoever kills only the submit, such as a cluster's own limits, leaves no driver that goes on writing."""
    operator, folder = hanging(tmp_path)

    def when_all_hang() -> None:
        if wait_for(lambda: len(pids(folder).get("worker", [])) == 2, 120):
            os.kill(pids(folder)["jvm"][0], signal.SIGKILL)

    killing = threading.Thread(target=when_all_hang, daemon=True)
    killing.start()
    submit = operator._get_hook().submit
    with pytest.raises(AirflowException):
        submit(operator.application)
    killing.join()
    assert wait_for(lambda: not alive(folder), 30)
