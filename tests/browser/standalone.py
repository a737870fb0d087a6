"""A whole Airflow of its own, as `airflow standalone` starts it: scheduler, DAG processor, API server, triggerer.

It lives in one folder: database, logs, the password of `admin`. Nothing runs by the clock; runs are triggered and backfilled.
What spark-submit is given is kept, one JSON list per line, in `submitted`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil

from tests import patience
from tests.browser.without_spark import PLACE, PLANS
from tests.spark import java_options
from tools.ports import free_ports

ROOT: Final = Path(__file__).parents[2]
USER: Final = "admin"
PEOPLE: Final = {USER: "admin", "vera": "viewer", "ulla": "user"}
"""Who may sign in, with the role of each. All have the same password."""
ENDED: Final = frozenset({"success", "failed"})
WAITING: Final = frozenset({"awaiting_input", "deferred"})
"""States of a task that waits for an answer: the second one before Airflow 3.3."""
OVER: Final = ENDED | {"skipped", "upstream_failed"}
"""States of a task that will not ask any more."""

SUBMIT: Final = """\
#!{python}
import fcntl, json, os, sys
with open({kept!r}, "a") as kept:
    fcntl.flock(kept, fcntl.LOCK_EX)
    kept.write(json.dumps(sys.argv[1:]) + "\\n")
places = [os.environ.get({place!r})]
if any(word.endswith("/spark_jobs/plan.py") for word in sys.argv):
    places.append(os.environ.get({plans!r}))
if any(word.startswith(tuple(filter(None, places))) for word in sys.argv):
    os.execv({python!r}, [{python!r}, "-m", "tests.browser.without_spark", *sys.argv[1:]])
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""


class Failed(Exception):
    """Airflow did not answer, or not as asked."""


class Standalone:
    """`home` is its folder, `url` where it listens, `submitted` the file with all arguments of spark-submit.

    `root` has the DAGs, plugins, jobs and packages that it runs. A second one with the same `home` goes on with the database.
    `framed` is where it shows the pages of kafkats. `prefix` is the path of its address, as behind a proxy that serves others too; `port` 0 is any free one.
    `python` is that of the environment with Airflow.
    """

    def __init__(
        self,
        home: Path,
        more: Mapping[str, str] | None = None,
        *,
        root: Path = ROOT,
        prefix: str = "",
        port: int = 0,
        python: str = sys.executable,
    ) -> None:
        self.home, self.root, self.python = home, root, python
        self.submitted = home / "submitted.jsonl"
        self.log = home / "standalone.log"
        self.password = secrets.token_urlsafe(12)
        ports = free_ports(3)
        ports[0] = port or ports[0]
        self.url = f"http://127.0.0.1:{ports[0]}{prefix}"
        self.framed = f"{self.url}/plugin/kafkats{prefix}/kafkats"
        self.environment = os.environ | self._settings(ports) | dict(more or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._tokens: dict[str, str] = {}
        self.answers: dict[tuple[str, str, str], str] = {}

    def _settings(self, ports: list[int]) -> dict[str, str]:
        bin_ = self.home / "bin"
        return {
            **patience.AIRFLOW,
            "AIRFLOW_HOME": str(self.home),
            "PYTHONUNBUFFERED": "1",  # its log is read as it grows
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db?timeout=20",  # its writers wait for each other, now and then in a ring
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.root / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.root / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "3",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",  # no DAG changes: parsing each every 30 s is in the way
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(map(":".join, PEOPLE.items())),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # a busy machine answers after more than the 5 s of the default
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(ports[0]),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports[1]),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[2]),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2,4]"}',
            "JDK_JAVA_OPTIONS": java_options(),
            "PYSPARK_PYTHON": self.python,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": str(self.root),
            "PATH": os.pathsep.join([
                str(bin_),
                str(Path(self.python).parent),
                os.environ["PATH"],
            ]),
        }

    def start(self, timeout: float = 900) -> None:
        """Returns when it is healthy and knows all DAGs. Raises Failed."""
        (self.home / "bin").mkdir(parents=True, exist_ok=True)
        submit = self.home / "bin" / "spark-submit"
        real = str(Path(self.python).parent / "spark-submit")
        submit.write_text(
            SUBMIT.format(
                python=self.python, kept=str(self.submitted), real=real, place=PLACE, plans=PLANS
            )
        )
        submit.chmod(0o755)
        self.submitted.touch()
        (self.home / "passwords.json").write_text(json.dumps(dict.fromkeys(PEOPLE, self.password)))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(Path(self.python).parent / "airflow"), "standalone"],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(
                    signal.SIGINT, signal.SIG_DFL
                ),  # its way to be stopped
            )
        home = self.root / "plugins" / "kafkats_airflow" / "dags"
        home = home if home.is_dir() else self.root / "dags"  # as in 0.1.0
        dags = {path.stem for path in home.glob("[!_]*.py")}
        self.until(lambda: self._healthy() and dags <= self.dags(), "is not up", timeout)

    def stop(self) -> list[str]:
        """Its own way first, then every process that is left of it. Returns the commands that are left even so."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        left = list(self.processes())
        for one in left:
            with suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(left, 10)
        return [" ".join(one.info["cmdline"] or [])[:200] for one in self.processes()]

    def processes(self) -> Iterator[psutil.Process]:
        """Everything that runs with this folder as AIRFLOW_HOME, or in it: a process with a title has no environment to read."""
        for one in psutil.process_iter(["cmdline"]):
            with suppress(psutil.Error, OSError):
                homes = {one.environ().get("AIRFLOW_HOME"), one.cwd()}
                if one.pid != os.getpid() and str(self.home) in homes:
                    yield one

    def until(self, true: Callable[[], Any], otherwise: str, timeout: float) -> Any:
        """The first truth that `true` gives. Raises Failed."""
        end, last = time.monotonic() + timeout, None
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None:
                raise Failed(f"airflow standalone has ended: see {self.log}")
            with suppress(OSError, Failed):
                if last := true():
                    return last
            time.sleep(1)
        raise Failed(f"Airflow {otherwise} after {timeout:.0f} s: see {self.log}")

    def _healthy(self) -> bool:
        said = self.api("GET", "/api/v2/monitor/health")
        return all(
            said[part]["status"] == "healthy"
            for part in ("metadatabase", "scheduler", "dag_processor")
        )

    def token(self, user: str = USER) -> str:
        """Of a person, for the API, and for a browser as the cookie `_token`."""
        if user not in self._tokens:
            said = self._call(
                "POST", "/auth/token", {"username": user, "password": self.password}, {}
            )
            self._tokens[user] = str(said["access_token"])
        return self._tokens[user]

    def api(self, method: str, path: str, given: Any = None) -> Any:
        """One call of the REST API. Raises Failed with the answer."""
        return self._call(method, path, given, {"Authorization": f"Bearer {self.token()}"})

    def page(self, path: str) -> str:
        """A page that Airflow serves, as its HTML. Raises Failed with the answer."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.token()}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as e:
            raise Failed(f"{path}: {e.code} {e.read().decode(errors='replace')}") from e

    def _call(self, method: str, path: str, given: Any, headers: Mapping[str, str]) -> Any:
        """Again where SQLite had another writer, of which Airflow makes an error; then nothing was done."""
        for _ in range(20):
            try:
                return self._call_once(method, path, given, headers)
            except Failed as e:
                if "Database error" not in str(e):
                    raise
            time.sleep(1)
        return self._call_once(method, path, given, headers)

    def _call_once(self, method: str, path: str, given: Any, headers: Mapping[str, str]) -> Any:
        data = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json", **headers}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                text = answer.read()
        except urllib.error.HTTPError as e:
            raise Failed(f"{method} {path}: {e.code} {e.read().decode(errors='replace')}") from e
        return json.loads(text) if text else None

    def dags(self) -> set[str]:
        return {one["dag_id"] for one in self.api("GET", "/api/v2/dags")["dags"]}

    def trigger(self, dag: str, conf: Mapping[str, Any], **more: Any) -> str:
        """Ask for a run; its id."""
        given = {"conf": dict(conf), "logical_date": None} | more
        return str(self.api("POST", f"/api/v2/dags/{dag}/dagRuns", given)["dag_run_id"])

    def runs(self, dag: str) -> dict[str, str]:
        """State of each run, by its id."""
        said = self.api("GET", f"/api/v2/dags/{dag}/dagRuns?limit=100")
        return {one["dag_run_id"]: one["state"] for one in said["dag_runs"]}

    def pause(self, dag: str, *, paused: bool) -> None:
        self.api("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused})

    def params(self, dag: str) -> dict[str, Any]:
        """The params of a DAG: each its default, schema and description."""
        return dict(self.api("GET", f"/api/v2/dags/{dag}/details")["params"])

    def end(self, dag: str, run: str) -> None:
        """Mark a run as failed, which kills what it does."""
        self.api("PATCH", f"/api/v2/dags/{dag}/dagRuns/{quote(run, safe='')}", {"state": "failed"})

    def wait(
        self, dag: str, run: str, states: frozenset[str] = ENDED, timeout: float = 1500
    ) -> str:
        """The run's state, as soon as it is one of `states`."""
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run, safe='')}"

        def state() -> str:
            now = self.api("GET", path)["state"]
            if now not in states:
                self.answer_again(dag, run)
            return str(now) if now in states else ""

        return str(self.until(state, f"has not ended {dag} {run}", timeout))

    def tasks(self, dag: str, run: str) -> dict[tuple[str, int], str]:
        """State of each task instance of a run, by task and map index."""
        said = self.api(
            "GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances?limit=200"
        )
        return {
            (one["task_id"], one["map_index"]): str(one["state"]) for one in said["task_instances"]
        }

    def asked(
        self, dag: str, run: str, task: str = "approve", timeout: float = 1500
    ) -> dict[str, Any]:
        """What a person is asked by a task, as soon as it waits and the scheduler has seen that its process has ended.

        Airflow 3.3.2 takes a task that goes on before that for one that was killed, and tries it once more in a minute.
        """
        path = _task(dag, run, task)

        def waiting() -> Any:
            if self._waits(dag, run, task):
                return self.api("GET", f"{path}/-1/hitlDetails")
            return self.api("GET", path)["state"] in OVER

        asked = self.until(waiting, f"does not ask in {dag} {run}", timeout)
        if asked is True:
            raise Failed(f"{dag} {run} has gone past {task} without a question")
        return dict(asked)

    def _waits(self, dag: str, run: str, task: str) -> bool:
        """Whether a task waits, and the scheduler's log says that the process of this try has ended."""
        now = self.api("GET", _task(dag, run, task))
        key = f"TaskInstanceKey(dag_id={dag!r}, task_id={task!r}, run_id={run!r}, try_number={now['try_number']}, map_index=-1)"
        ended = f"Received executor event with state success for task instance {key}"
        return now["state"] in WAITING and ended in self.log.read_text(errors="replace")

    def answer(self, dag: str, run: str, option: str, task: str = "approve") -> None:
        """A person's answer to it, who leaves the fields of the form as they are."""
        self.answers[dag, run, task] = option
        path = f"{_task(dag, run, task)}/-1/hitlDetails"
        fields = self.api("GET", path)["params"]
        form = {
            name: one["value"] if isinstance(one, dict) else one for name, one in fields.items()
        }
        self.api("PATCH", path, {"chosen_options": [option], "params_input": form})

    def answer_again(self, dag: str, run: str) -> None:
        """A task that was killed while it went on, as by a database that was locked for long, asks once more in its next try."""
        for (of, which, task), option in list(self.answers.items()):
            if (of, which) == (dag, run) and self._waits(dag, run, task):
                with suppress(Failed):  # answered meanwhile
                    self.answer(dag, run, option, task)

    def result(self, dag: str, run: str, task: str = "report") -> Any:
        """What a task gave back; None for nothing."""
        path = f"{_task(dag, run, task)}/xcomEntries/return_value"
        try:
            return self.api("GET", f"{path}?stringify=false")["value"]
        except Failed:
            return None

    def clear(self, dag: str, run: str) -> None:
        """Clear every task of a run, which runs all of it again."""
        given = {"dag_run_id": run, "dry_run": False, "only_failed": False, "reset_dag_runs": True}
        self.api("POST", f"/api/v2/dags/{dag}/clearTaskInstances", given)

    def mark_success(self, dag: str, run: str, task: str) -> None:
        """What a person does who clicks *Mark success* on a task."""
        self.api("PATCH", _task(dag, run, task), {"new_state": "success"})


def _task(dag: str, run: str, task: str) -> str:
    """Return the path of a task's instance in the REST API."""
    return f"/api/v2/dags/{dag}/dagRuns/{quote(run, safe='')}/taskInstances/{task}"


@contextmanager
def standalone(
    home: Path, more: Mapping[str, str] | None = None, *, prefix: str = ""
) -> Generator[Standalone]:
    """Started, and stopped with all that it has started."""
    airflow = Standalone(home, more, prefix=prefix)
    try:
        airflow.start()
        yield airflow
    finally:
        airflow.stop()
