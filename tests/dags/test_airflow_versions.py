"""What is the same for other modules in every version of Airflow. scripts/matrix runs it in the others."""

from __future__ import annotations

import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk.exceptions import TaskDeferred
from kafkats_airflow import airflow_versions, settings

from kafkats.errors import UsageError
from tests.project.references import ROOT

PLUGIN = ROOT / "plugins" / "kafkats_airflow"
MOVED = re.compile(
    r"^\s*from airflow\.(providers\.common\.compat|exceptions|sdk\.exceptions|timetables"
    r"|sdk\.definitions\.callback|dag_processing\.dagbag|models\.dagbag) import",
    re.MULTILINE,
)
"""Places that Airflow 3.1 has not, or a later version has no more."""


def test_one_module_imports_what_airflow_has_moved() -> None:
    wrong = [str(path) for path in PLUGIN.rglob("*.py") if MOVED.search(path.read_text())]
    assert wrong == [str(PLUGIN / "airflow_versions.py")]


@pytest.fixture
def before_3_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_versions, "AWAITS", False)


@pytest.mark.usefixtures("before_3_3")
def test_a_question_defers_before_3_3(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(airflow_versions, "upsert_hitl_detail", lambda **given: told.append(given))
    question = airflow_versions.Question(task_id="ask", subject="May it?", options=["Yes", "No"])
    with pytest.raises(TaskDeferred) as waits:
        question.execute({"task_instance": type("Instance", (), {"id": "an id"})()})  # type: ignore[typeddict-item]
    assert isinstance(waits.value.trigger, HITLTrigger)
    assert waits.value.method_name == "execute_complete"
    assert [one["options"] for one in told] == [["Yes", "No"]]


@pytest.mark.usefixtures("before_3_3")
@pytest.mark.parametrize(
    ("health", "said"),
    [
        ({"triggerer": {"status": None}}, True),
        ({"triggerer": {"status": "unhealthy"}}, True),
        ({"triggerer": {"status": "healthy"}}, False),
        ({}, False),
    ],
)
def test_a_missing_triggerer_is_told(health: dict[str, Any], said: bool) -> None:
    assert ("start `airflow triggerer`" in airflow_versions.no_triggerer(health)) == said


def test_nobody_needs_a_triggerer_from_3_3_on() -> None:
    assert airflow_versions.no_triggerer({"triggerer": {"status": None}}) == ""


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # its name there
        found = self.path == "/air/api/v2/monitor/health"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b'{"triggerer": {"status": null}}')


@pytest.mark.usefixtures("before_3_3")
def test_a_task_asks_the_api_server_for_its_health(monkeypatch: pytest.MonkeyPatch) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/air/execution/"
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", address)
        assert airflow_versions.health_seen_by_a_task() == {"triggerer": {"status": None}}
        server.shutdown()
    assert airflow_versions.health_seen_by_a_task() == {}, "nobody answers"


def test_deadlines_need_3_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "SYNC_DEADLINES", False)
    assert settings.read_deadlines("") == {}
    with pytest.raises(UsageError, match=r"KAFKATS_DEADLINES needs Airflow 3\.2 or newer"):
        settings.read_deadlines("apply_retention=6h")


def test_the_constraints_name_one_version_of_spark() -> None:
    files = sorted((ROOT / "constraints").glob("*-*.txt"))
    assert files
    for path in files:
        text = Path(path).read_text()
        pins = dict(
            re.findall(r"^(pyspark(?:-client)?|apache-airflow)==(\S+)$", text, re.MULTILINE)
        )
        assert pins["apache-airflow"] == path.stem.partition("-")[0]
        assert pins["pyspark"] == pins["pyspark-client"]
        assert "/" not in text and "kafkats" not in text
