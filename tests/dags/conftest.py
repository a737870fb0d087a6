"""A throw-away Airflow (tests.airflow_home): this repository's DAGs and plugins, a local Spark."""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkats.execution.local import LocalExecutor
from tests import spark as of_spark

ROOT = Path(__file__).parents[2]
APART = os.environ.get("KAFKATS_APART")
"""Jobs of `here` see no more of the folder of all runs than a host by SSH: every DAG, by hand."""
sys.path.insert(0, str(ROOT / "plugins"))


@pytest.fixture(autouse=True, scope="module")
def spark_environment() -> Iterator[None]:
    """What a spark-submit of these tests sees, and other tests' programs do not: quick to start, this Python, loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("JDK_JAVA_OPTIONS", of_spark.java_options())
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def bag() -> Iterator[Any]:
    """All DAGs, parsed and known to the database."""
    from airflow.dag_processing import dagbag
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.sdk import DAG
    from airflow.utils.db import initdb
    from jsonschema import Draft202012Validator

    sleep, test = time.sleep, DAG.test

    def tested(dag: DAG, *given: Any, **more: Any) -> Any:
        # A DAG and its tasks remember the params of its runs, and those with which a test has
        # asked it since: the next run would begin with them.
        forget(dag)
        try:
            return test(dag, *given, **more)
        finally:
            forget(dag)

    def forget(dag: DAG) -> None:
        for params in (dag.params, *(task.params for task in dag.tasks)):
            for key, value in found.defaults[dag.dag_id].items():
                if key in params:
                    params.get_param(key).value = value

    # Each dag.test() parses and stores all DAGs again, and waits by seconds.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", _schema_checked_once())
        initdb()
        DagBundlesManager().sync_bundles_to_db()
        dags = ROOT / "dags"
        found = dagbag.BundleDagBag(dag_folder=dags, bundle_path=dags, bundle_name="dags-folder")
        dagbag.sync_bag_to_db(found, "dags-folder", None)
        found.defaults = {
            name: {key: dag.params.get_param(key).value for key in dag.params}
            for name, dag in found.dags.items()
        }
        patch.setattr(DAG, "test", tested)
        patch.setattr(dagbag, "BundleDagBag", lambda **_: found)
        patch.setattr(dagbag, "sync_bag_to_db", lambda *_: None)
        patch.setattr(time, "sleep", lambda seconds: sleep(0.02 if seconds == 1 else seconds))
        yield found


def _schema_checked_once() -> Callable[..., None]:
    """Return the check of a schema itself, which does nothing for a schema that has passed.

    Airflow checks the schema of a param each time it reads the param: that was a third of a run.
    """
    from jsonschema import Draft202012Validator

    check, passed = Draft202012Validator.check_schema, set[str]()

    def once(schema: Any, *args: Any, **named: Any) -> None:
        key = json.dumps(schema, sort_keys=True, default=repr)
        if key not in passed:
            check(schema, *args, **named)
            passed.add(key)

    return once


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Any:
    """The executor of the jobs that `here` runs: this process, or Spark with --full.

    An operation has one composition for both executors. tests/spark_jobs compares them, and the
    real submits of these tests run Spark.
    """
    if os.environ.get("KAFKATS_FULL"):
        return of_spark.executor(request.getfixturevalue("spark"))
    return LocalExecutor(1)


@pytest.fixture
def submitted() -> set[str]:
    """Jobs whose first run in `here` is a real spark-submit all the same."""
    return set()


@pytest.fixture
def errors() -> list[BaseException]:
    """What the jobs of `here` raised, of ours."""
    return []


@pytest.fixture
def rendered() -> None:
    """Pictures are drawn in `here`, too: that was a third of a run. Each DAG that has pictures has such a test, or one with a real submit."""


class Done:
    """A submit that has ended."""

    error = None

    def start(self) -> None: ...

    def wait(self, _seconds: float) -> bool:
        return True

    def end(self) -> None: ...


@pytest.fixture
def here(
    request: pytest.FixtureRequest,
    executor: Any,
    monkeypatch: pytest.MonkeyPatch,
    submitted: set[str],
    errors: list[BaseException],
) -> list[str]:
    """The operator runs its jobs in the shared session, with the very files of the job; gives what ran.

    Our functions compose their figures, which are saved as empty files unless the test asks for `rendered`.
    """
    from airflow.sdk.exceptions import AirflowException
    from kafkats_airflow import checks, sentences
    from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
    from matplotlib.figure import Figure

    from tests.dags.apart import run_apart
    from tests.spark_jobs.words import Files, run_files

    ran: list[str] = []
    submitting = KafkatsJobOperator.submitting

    def start(self: KafkatsJobOperator, files: Any, place: Any) -> Any:
        ran.append(self.job)
        if self.job in submitted and ran.count(self.job) == 1:
            return submitting(self, files, place)
        error = (
            run_apart(executor, self.job, files)
            if APART
            else run_files(executor, self.job, Files(files.request, files.result, {}))
        )
        errors.extend([AirflowException(sentences.of(error))] if error else [])
        return Done()

    monkeypatch.setattr(KafkatsJobOperator, "submitting", start)
    monkeypatch.setattr(checks, "connected", lambda _: None)
    if "rendered" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", lambda _, path, **__: Path(path).touch())
    return ran


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Path]:
    """Writes a policy file with these log directories as volumes; words after them go into every volume."""

    def write(*log_dirs: Path, **more: Any) -> Path:
        path = tmp_path / "policy.yaml"
        volumes = [
            {"broker": str(n), "path": str(log_dir)} | more for n, log_dir in enumerate(log_dirs)
        ]
        path.write_text(yaml.safe_dump({"volumes": volumes}))
        return path

    return write


@pytest.fixture
def again(bag: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Clears these tasks of a run that is over (all without any), as a person does, and lets it go on; gives the run."""
    from airflow.models import dagrun
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import clear_task_instances
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState

    def cleared(run: Any, *tasks: str, **more: Any) -> Any:
        with create_session() as session:
            found = session.get(DagRun, run.id)
            instances = [
                ti
                for ti in found.get_task_instances(session=session)
                if not tasks or ti.task_id in tasks
            ]
            clear_task_instances(instances, session)

        def same(*, dag: Any, session: Any, **_: Any) -> Any:
            found = session.get(DagRun, run.id)
            found.dag, found.state = dag, DagRunState.RUNNING
            session.commit()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(dagrun, "get_or_create_dagrun", same)
            patch.setattr(
                SerializedDAG, "clear_dags", lambda **_: None
            )  # it would clear every task
            return bag.dags[run.dag_id].test(logical_date=None, run_conf=run.conf, **more)

    return cleared


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Whoever is asked gives the answer under "says" at once, as "by"; what was asked is under "asked".

    The fields of the form are as they were shown, or those under "form".
    """
    given: dict[str, Any] = {"says": "", "by": {"id": "7", "name": "Ada"}, "asked": []}

    def answer(self: Any, context: Any) -> Any:
        given["asked"].append({"subject": self.subject, "body": self.body, "options": self.options})
        now = datetime.datetime.now(tz=datetime.UTC)
        form = given.get("form") or {key: self.params[key] for key in self.params}
        said = {"chosen_options": [given["says"]], "params_input": form, "responded_at": now}
        return self.execute_complete(context, said | {"responded_by_user": given["by"]})

    monkeypatch.setattr("kafkats_airflow.airflow_versions.Question.execute", answer)
    return given


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory with expired segments."""
    from tests.retained import GOLDEN

    (root := tmp_path / "broker" / "data").mkdir(parents=True)
    return GOLDEN.unpack("before", root)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A directory that lost two time indexes."""
    from tests.dags.runs import DAMAGED, REBUILT

    (root := tmp_path / "broker" / "data").mkdir(parents=True)
    REBUILT.unpack("data", root)
    (root / DAMAGED[0]).unlink()
    (root / DAMAGED[1]).write_bytes(b"")
    return root
