"""A throw-away Airflow: its own home and SQLite, this repository's DAGs and plugins, a local Spark."""

from __future__ import annotations

import atexit
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="kafkats-airflow-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Before anything imports airflow: it reads these once, and makes ~/airflow without them.
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2,4]"}',
}
sys.path.insert(0, str(ROOT / "plugins"))
sys.path.insert(0, str(ROOT / "dags"))


@pytest.fixture(autouse=True, scope="module")
def spark_environment() -> Iterator[None]:
    """What a spark-submit of these tests sees, and other tests' programs do not: quick to start, this Python, loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def bag() -> Iterator[Any]:
    """All DAGs, parsed and known to the database."""
    from airflow.dag_processing import dagbag
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.utils.db import initdb

    initdb()
    DagBundlesManager().sync_bundles_to_db()
    dags = ROOT / "dags"
    found = dagbag.BundleDagBag(dag_folder=dags, bundle_path=dags, bundle_name="dags-folder")
    dagbag.sync_bag_to_db(found, "dags-folder", None)
    # Before any run: a DAG object remembers the params of its runs.
    found.defaults = {
        name: {key: dag.params.get_param(key).value for key in dag.params} for name, dag in found.dags.items()
    }
    sleep = time.sleep
    # Each dag.test() parses and stores all DAGs again, and waits by seconds.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dagbag, "BundleDagBag", lambda **_: found)
        patch.setattr(dagbag, "sync_bag_to_db", lambda *_: None)
        patch.setattr(time, "sleep", lambda seconds: sleep(0.02 if seconds == 1 else seconds))
        yield found


@pytest.fixture
def submitted() -> set[str]:
    """Jobs whose first run in `here` is a real spark-submit all the same."""
    return set()


@pytest.fixture
def here(spark: Any, monkeypatch: pytest.MonkeyPatch, submitted: set[str]) -> list[str]:
    """The operator runs its jobs in the shared session, with the very words of the command line; gives what ran."""
    from airflow.sdk.exceptions import AirflowFailException
    from kafkats_airflow.spark_job import KafkatsJobOperator

    ran: list[str] = []
    submit = KafkatsJobOperator.execute

    def execute(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        ran.append(self.job)
        if self.job in submitted and ran.count(self.job) == 1:
            return submit(self, context)
        job = importlib.import_module(self.job)
        words = [str(word) for word in self.application_args or []]
        said = dict(getattr(job, self.job)(spark, job.words().parse_args(words)))
        if said.pop("exit_code", 0):
            raise AirflowFailException(str(said))
        return said | {"rates": {}}

    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    return ran


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., Path]:
    """Writes a policy file with these log directories as volumes; words after them go into every volume."""

    def write(*log_dirs: Path, **more: Any) -> Path:
        path = tmp_path / "policy.yaml"
        volumes = [{"broker": str(n), "path": str(log_dir)} | more for n, log_dir in enumerate(log_dirs)]
        path.write_text(yaml.safe_dump({"volumes": volumes}))
        return path

    return write
