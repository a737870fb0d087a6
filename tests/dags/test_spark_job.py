"""The operator: what it does with the files and the end of a job, and how a job's failure reads."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk.exceptions import AirflowTaskTimeout
from kafkats_airflow import sentences, shipped
from kafkats_airflow.failing import FAILURE, Held
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator, SparkUiLink
from kafkats_airflow.shipped import JOBS

from kafkats.errors import Holder, KafkatsError, Locked, Reserved, UsageError
from kafkats.progress import Progress, Teller
from kafkats.request import read_request
from kafkats.result import Proved, Ran, Result, write_result

PLUGIN = Path(__file__).parents[2] / "plugins" / "kafkats_airflow"
CONTEXTS: list[dict[str, Any]] = []
"""Of the jobs that ran."""


class Store(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Instance:
    task_id, map_index, try_number = "release", 0, 2

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def context_in(folder: Path) -> dict[str, Any]:
    """The context of a task whose run has this folder."""
    return {
        "ti": Instance(), "task_state_store": Store(), "params": {"folder": str(folder)}, "run_id": "r 1",
        "dag": SimpleNamespace(dag_id="some_dag"),
        "dag_run": SimpleNamespace(run_type="manual", triggering_user_name="ada"),
    }  # fmt: skip


def job(conn_id: str = "spark_default", **more: Any) -> KafkatsJobOperator:
    given = {"request": {"log_dirs": ["/data"]}} | more
    return KafkatsJobOperator(task_id="release", job="release", conn_id=conn_id, **given)


Told = Callable[[Result], object] | None
Job = Callable[..., Any]


@pytest.fixture
def commands() -> list[list[str]]:
    """The commands of all submits."""
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, commands: list[list[str]]) -> Job:
    """Runs a job whose driver writes a result, after `told` has filled it; without `told` none."""

    def run(told: Told, lines: list[str] | None = None, code: int = 0, **fields: Any) -> Any:
        class Process:
            """spark-submit as the hook sees it."""

            stdout = iter(line + "\n" for line in lines or [])

            def wait(self) -> int:
                return code

            def poll(self) -> int:
                return code

        def start(command: list[str], **_: Any) -> Process:
            commands.append(command)
            path = {name: Path(command[command.index(f"--{name}") + 1]) for name in FILES}
            teller = Teller(path["progress"])
            teller.tell(fields)
            teller.write()
            if told is not None:
                result = Result.begun(read_request(path["request"]))
                told(result)
                write_result(path["result"], result)
            return Process()

        hook = "airflow.providers.apache.spark.hooks.spark_submit"
        monkeypatch.setattr(f"{hook}.subprocess.Popen", start)
        CONTEXTS.append(context_in(tmp_path))
        return job().execute(CONTEXTS[-1])

    return run


FILES = ("request", "result", "progress")


def fine(_: Result) -> None: ...


def fails(error: KafkatsError) -> Told:
    return lambda result: result.fail(error)


def test_no_private_name_of_the_provider_is_used() -> None:
    private = re.compile(r"hook\._|_get_hook|_submit_sp|_process_spark_submit_log|\._conn_id")
    for path in PLUGIN.rglob("*.py"):
        assert not private.search(path.read_text()), path


def test_pyspark_and_its_client_are_one_version() -> None:
    """Both install into pyspark/: of different versions, one would overwrite the other."""
    import pyspark

    assert version("pyspark") == version("pyspark-client") == pyspark.__version__


def test_result_progress_and_link(run: Job, tmp_path: Path, commands: list[list[str]]) -> None:
    said = {"stage": "release", "units": 1, "of_units": 2, "bytes": 5, "of_bytes": 9}
    told = run(fine, **said, ui="http://127.0.0.1:4040")
    context, [command] = CONTEXTS[-1], commands
    assert told == {"released": [], "kept": [], "free": [], "failed": [], "rates": {}}
    assert context["ti"].pushed == {SparkUiLink.xcom_key: "http://127.0.0.1:4040"}
    assert said.items() <= context["task_state_store"]["progress"].items()
    [folder] = tmp_path.glob("some_dag/*/jobs/release-0-2")
    words = [word for name in FILES for word in (f"--{name}", str(folder / f"{name}.json"))]
    assert command[-7:] == [str(JOBS / "release.py"), *words]
    for name in FILES:
        assert stat.S_IMODE((folder / f"{name}.json").stat().st_mode) == 0o600
    request = read_request(folder / "request.json")
    assert (request.id, request.verb) == ("some_dag/r 1/release/0", "release")


@pytest.mark.parametrize("retryable", [True, False])
def test_our_error_fails_the_task_in_its_own_words(run: Job, *, retryable: bool) -> None:
    error = Locked("held by a broker", path="/data")
    assert error.retryable
    with pytest.raises(
        AirflowException,
        match=r"^/data: held by a broker; stop what holds it, or wait for it, then clear the task;"
        r" another try can help$"
        if retryable
        else r"^/data: reserved",
    ) as raised:
        run(fails(error if retryable else Reserved("reserved", path="/data")), code=3)
    assert isinstance(raised.value, AirflowFailException) is not retryable
    assert CONTEXTS[-1]["ti"].pushed[FAILURE] == str(raised.value)


def test_a_job_of_another_version_says_what_it_cannot_do(run: Job) -> None:
    def told(result: Result) -> None:
        result.request = ""
        result.fail(UsageError("mood: Extra inputs are not permitted", path="/r/request.json"))

    with pytest.raises(AirflowFailException, match=r"^/r/request\.json: mood: Extra inputs"):
        run(told, code=2)


def test_who_holds_a_log_directory_is_a_field(run: Job) -> None:
    holder = Holder("/data", "airflow a b until c", 5)
    with pytest.raises(Held) as raised:
        run(fails(Reserved("reserved", path="/data", holders=[holder])), code=3)
    assert raised.value.holders == (holder,)


def test_findings_that_end_a_job_fail_the_task(run: Job) -> None:
    def told(result: Result) -> None:
        wrong = ["/data/a-0/x.timeindex", "/data/a-0/y.index"]
        result.verb, result.found = "verify", {"report": "/r"}
        result.proof = Proved(files=30, equal=28, not_equal=wrong)
        result.end_with(1)

    with pytest.raises(AirflowFailException) as raised:
        run(told, code=1)
    assert str(raised.value) == (
        "release: 2 of 30 files not as planned: /data/a-0/x.timeindex (and 1 more); see /r and this task's log, and undo the"
        " run if that is not explained"
    )


def test_what_was_refused_and_why(run: Job) -> None:
    def told(result: Result) -> None:
        errors = ["/data/a-0: held by a broker", "/data/b-0: changed since the plan"]
        outcomes = {"done": 68, "refused": 12}
        result.verb = "apply"
        result.runs = [Ran(folder="/r/run-1", outcomes=outcomes, partitions=9, left_partitions=2)]
        result.runs[0].errors = errors
        result.end_with(3)

    with pytest.raises(AirflowFailException) as raised:
        run(told, code=3)
    assert str(raised.value) == (
        "release: 12 refused of 80 files in 2 of 9 partitions: /data/a-0: held by a broker (and 1 more); clear the run to make a new plan"
        " of the rest; Undo on the page of the run puts back what was done"
    )


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (None, "^Airflow has no connection 'host_nine', which the policy"),
        ({"deploy-mode": "cluster"}, "^the connection 'host_nine' has deploy mode cluster"),
    ],
)
def test_a_connection_of_which_nothing_is_submitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: Any, said: str
) -> None:
    monkeypatch.setattr(KafkatsJobOperator, "submitting", None)
    if extra:
        conn = {"conn_type": "spark", "host": "local", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_HOST_NINE", json.dumps(conn))
    with pytest.raises(AirflowFailException, match=said):
        job("host_nine").execute(context_in(tmp_path))
    assert not list(tmp_path.rglob("request.json"))


def test_what_an_earlier_version_asked_for_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="earlier version of kafkats; clear the first"):
        job(request=None, application_args=["/data"]).execute(context_in(tmp_path))


def test_a_crash_of_spark_itself_may_be_tried_again(run: Job) -> None:
    with pytest.raises(AirflowException, match="OutOfMemoryError") as raised:
        run(None, ["java.lang.OutOfMemoryError: Java heap space"], code=137)
    assert not isinstance(raised.value, AirflowFailException)


def test_no_result_is_a_failure(run: Job) -> None:
    with pytest.raises(AirflowException, match="its driver ended without a result"):
        run(None, ["all quiet"])


def test_what_was_done_before_spark_crashed_is_done(run: Job) -> None:
    """The result is there, and the JVM dies while it stops."""
    assert run(fine, ["java.lang.Error"], code=134)["rates"] == {}


def test_the_result_of_another_request_is_none(run: Job) -> None:
    def other(result: Result) -> None:
        result.request = "some_dag/r 0/release/0"

    with pytest.raises(AirflowException, match="its driver ended without a result"):
        run(other)


def test_a_second_submit_of_a_try_takes_no_result_of_the_first(run: Job, tmp_path: Path) -> None:
    run(fine)
    with pytest.raises(AirflowException, match="its driver ended without a result"):
        run(None, code=1)


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
    found = Progress(pid=1, session=1, host="h", began_ms=1, **said)
    assert sentences.of_progress(found) == line


HANGING = """
from fanout import end_with_the_jvm, started
import json, os, sys, threading, time
from kafkats.progress import telling
from pathlib import Path

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
with telling(Path(sys.argv[-1])) as teller, started("hang", {{}}, teller.tell) as executor:
    hang_in(executor)
"""


def pids(folder: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in folder.iterdir():
        name, _, pid = path.name.partition("-")
        found.setdefault(name, []).append(int(pid))
    return found


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the processes of a job that hangs."""
    (folder := tmp_path / "pids").mkdir()
    (tmp_path / "release.py").write_text(HANGING.format(folder=str(folder)))
    monkeypatch.setattr(shipped, "JOBS", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(JOBS), prepend=os.pathsep)
    return folder


def all_hang(folder: Path) -> bool:
    return wait_for(lambda: len(pids(folder).get("worker", [])) == 2, 120)


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
def test_after_the_time_limit_the_driver_and_its_python_are_dead(
    tmp_path: Path, hanging: Path
) -> None:
    """A real spark-submit that hangs, in the driver and on its workers."""
    operator, context = job(execution_timeout=timedelta(minutes=90)), context_in(tmp_path)

    def alarm(*_: Any) -> None:
        raise AirflowTaskTimeout("Timeout")

    def when_all_hang() -> None:
        if all_hang(hanging):
            os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, alarm)
    threading.Thread(target=when_all_hang, daemon=True).start()
    try:
        with pytest.raises(
            AirflowTaskTimeout, match=r"^release: not done within 90 min: its driver was killed"
        ):
            operator.execute(context)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert {name: len(some) for name, some in pids(hanging).items()} == {
        "worker": 2,
        "driver": 1,
        "jvm": 1,
    }
    assert alive(hanging) == []
    assert context["ti"].pushed[FAILURE].startswith("release: not done within 90 min")
    assert "ui" in context["task_state_store"]["progress"]


@pytest.mark.slow(4)
@pytest.mark.parametrize("killed", ["jvm", "driver"])
def test_the_others_end_with_a_process_that_is_killed(
    tmp_path: Path, hanging: Path, killed: str
) -> None:
    """Whoever kills only the submit, such as a cluster's own limits, leaves no driver that goes on writing."""

    def when_all_hang() -> None:
        if all_hang(hanging):
            os.kill(pids(hanging)[killed][0], signal.SIGKILL)

    killing = threading.Thread(target=when_all_hang, daemon=True)
    killing.start()
    with pytest.raises(AirflowException, match="ended without a result") as raised:
        job().execute(context_in(tmp_path))
    killing.join()
    assert not isinstance(raised.value, AirflowFailException)
    assert alive(hanging) == []


@pytest.mark.slow(4)
def test_a_driver_ends_with_its_jvm(tmp_path: Path, hanging: Path) -> None:
    """Also where no task looks after it."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    def when_all_hang() -> None:
        if all_hang(hanging):
            os.kill(pids(hanging)["jvm"][0], signal.SIGKILL)

    killing = threading.Thread(target=when_all_hang, daemon=True)
    killing.start()
    words = ["--progress", str(tmp_path / "progress.json")]
    hook = SparkSubmitHook(conn_id="spark_default", application_args=words)
    with pytest.raises(AirflowException):
        hook.submit(str(tmp_path / "release.py"))
    killing.join()
    assert wait_for(lambda: not alive(hanging), 30)
