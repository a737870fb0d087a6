"""Alerts for runs that failed or are late, as a deployment sets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.callback_supervisor import execute_callback
from kafkats_airflow import alerts, settings
from kafkats_airflow.settings import read_deadlines, read_notifier

from kafkats.errors import UsageError

ROOT = Path(__file__).parents[2]


def test_there_is_none_by_default(bag: Any) -> None:
    for dag in bag.dags.values():
        assert not dag.deadline and not dag.on_failure_callback


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        (
            "apply_retention=6h, mine=90s",
            {"apply_retention": timedelta(hours=6), "mine": timedelta(seconds=90)},
        ),
    ],
)
def test_deadlines(text: str, given: dict[str, timedelta]) -> None:
    assert read_deadlines(text) == given


@pytest.mark.parametrize("text", ["6h", "=6h", "a=", "a=soon", "a=0s", "a=1h a=2h", "a=400d"])
def test_wrong_deadlines_are_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"^KAFKATS_DEADLINES: "):
        read_deadlines(text)


@pytest.mark.parametrize("text", ["notify", "a b.c", "os.system('x')", ".x", "1.2"])
def test_what_is_no_name_of_a_notifier(text: str) -> None:
    with pytest.raises(UsageError, match=r"^KAFKATS_NOTIFIER: .*package\.module\.name"):
        read_notifier(text)


PARSED = """
import json
from kafkats_airflow.dags import kafkats_dags
found = {}
for name, dag in kafkats_dags().items():
    found[name] = [
        [one.interval.total_seconds(), one.callback.path, type(one.callback).__name__]
        for one in dag.deadline or []
    ], getattr(dag.on_failure_callback, "__name__", "")
from kafkats_airflow import settings
print(json.dumps([found, settings.WRONG]))
"""


def parsed(tmp_path: Path, **environment: str) -> Any:
    """What the DAG files have in a deployment with this environment."""
    paths = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", PARSED],
        env=os.environ | {"PYTHONPATH": paths} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow(3)
def test_of_a_deployment(tmp_path: Path) -> None:
    """Each DAG has its own deadline, by a synchronous callback; a wrong value breaks no import."""
    found, wrong = parsed(
        tmp_path,
        KAFKATS_DEADLINES="apply_retention=6h clean_reports=1h none_of_ours=1d",
        KAFKATS_NOTIFIER="ours.that.is_imported_later",
    )
    late = [[21600.0, "kafkats_airflow.alerts.run_late", "SyncCallback"]]
    assert found.pop("apply_retention") == [late, "run_failed"]
    assert found.pop("clean_reports")[0] == [[3600.0, *late[0][1:]]]
    assert all(one == [[], "run_failed"] for one in found.values())
    assert wrong == ""


@pytest.mark.slow(2)
def test_values_that_cannot_be_read(tmp_path: Path) -> None:
    found, wrong = parsed(tmp_path, KAFKATS_DEADLINES="often", KAFKATS_NOTIFIER="me")
    assert all(one == [[], ""] for one in found.values())
    assert "KAFKATS_DEADLINES: 'often'" in wrong and "KAFKATS_NOTIFIER: 'me'" in wrong


@pytest.fixture
def notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment's own notifier, Airflow's class, which writes one line per call."""
    said = tmp_path / "said"
    (tmp_path / "our_notifier.py").write_text(f"""
from airflow.sdk import BaseNotifier

class Lines(BaseNotifier):
    template_fields = ("line",)
    def __init__(self, line="{{{{ kafkats }}}}"):
        super().__init__()
        self.line = line
    def notify(self, context):
        with open({str(said)!r}, "a") as file:
            file.write(self.line + "\\n")

lines = Lines("by instance: {{{{ kafkats }}}}")
number = 3
def fails(context):
    raise OSError("no mail today")
""")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_notifier", raising=False)
    monkeypatch.setattr(settings, "NOTIFIER", "our_notifier.Lines")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    return said


RUN = {"dag_id": "apply_retention", "run_id": "manual {{ conn.x.password }}"}
LATE = {"dag_id": RUN["dag_id"], "dag_run_id": RUN["run_id"]}
"""As Airflow's REST describes the run."""
LINK = "See https://airflow.example/dags/apply_retention/runs/manual%20%7B%7B%20conn.x.password%20%7D%7D"


def test_airflow_calls_it_for_a_late_run(notified: Path) -> None:
    """As Airflow's executor does it. The text of a run id is no template."""
    import structlog

    kwargs = {"dag_id": "apply_retention", "seconds": 21600, "context": {"dag_run": LATE}}
    path = f"{alerts.run_late.__module__}.{alerts.run_late.__qualname__}"
    assert execute_callback(path, kwargs, "", None, structlog.get_logger()) == (True, None)
    assert notified.read_text().splitlines() == [
        f"apply_retention: run {RUN['run_id']} is not over 21600 s after it was queued. {LINK}"
    ]


@pytest.mark.slow(4)
def test_the_run_is_that_of_airflow(bag: Any, tmp_path: Path, notified: Path) -> None:
    """What the scheduler hands to the callback of a deadline (Deadline.handle_miss)."""
    from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse
    from airflow.models import DagRun
    from airflow.utils.session import create_session

    run = bag.dags["clean_reports"].test(run_conf={"folder": str(tmp_path)}, logical_date=None)
    with create_session() as session:
        described = DAGRunResponse.model_validate(session.get(DagRun, run.id))
        context = {"dag_run": described.model_dump(mode="json")}
    alerts.run_late(context, "clean_reports", 5)
    assert f"clean_reports: run {run.run_id} is not over 5 s" in notified.read_text()


def test_a_failed_run(notified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    monkeypatch.setattr(settings, "NOTIFIER", "our_notifier.lines")
    context: Any = {"dag_run": SimpleNamespace(**RUN)}
    alerts.run_failed(context)
    assert notified.read_text().splitlines() == [
        f"by instance: apply_retention: run {RUN['run_id']} failed. {LINK}"
    ]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("our_notifier.none", "AttributeError"),
        ("no_such_module.x", "ModuleNotFoundError"),
        ("our_notifier.number", "is not callable"),
    ],
)
def test_a_notifier_that_is_none_fails_the_callback(
    notified: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    monkeypatch.setattr(settings, "NOTIFIER", path)
    with pytest.raises(UsageError, match=reason):
        alerts.run_late({"dag_run": LATE}, "apply_retention", 1)


def test_a_notifier_that_fails_fails_the_callback(
    notified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import structlog

    monkeypatch.setattr(settings, "NOTIFIER", "our_notifier.fails")
    path = f"{alerts.run_late.__module__}.{alerts.run_late.__qualname__}"
    kwargs = {"dag_id": "apply_retention", "seconds": 1, "context": {"dag_run": LATE}}
    done, error = execute_callback(path, kwargs, "", None, structlog.get_logger())
    assert not done and "no mail today" in str(error)
