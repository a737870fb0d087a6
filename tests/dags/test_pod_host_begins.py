"""When a pod begins: beside no earlier one that may still write, and beside no broker's pod. The answers of API server and pods are made up."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any

import pytest
from kafkats_airflow.jobs.hosts import Program, Unreached
from kafkats_airflow.jobs.pod_host import PodHost
from kafkats_airflow.jobs.pod_job import MANAGED, name_of
from kafkats_airflow.jobs.pod_state import NAME, PodRefused

from kafkats import __version__
from kafkats.detached.jobs import digest_of
from kafkats.detached.messages import Answer, Ask, read_message, write_message
from tests.dags import recorded


def job(uid: str = "new") -> Any:
    data = Made(uid=uid, name=name_of(digest_of("d/r")), deletion_timestamp=None)
    return Made(metadata=Made(**vars(data), creation_timestamp=datetime.now(UTC)), status=None)


def pod(name: str, owner: str | None, phase: str = "Running") -> Any:
    running = Made(running=phase == "Running" or None, waiting=None, terminated=None)
    status = Made(phase=phase, container_statuses=[Made(name=NAME, state=running)], conditions=[])
    claim = Made(claim_name=recorded.CLAIM)
    mounts = Made(persistent_volume_claim=claim, host_path=None)
    spec = Made(
        volumes=[mounts], node_name="n", containers=[Made(name=NAME, command=["kafkats-host"])]
    )
    data = Made(
        name=name, deletion_timestamp=None, creation_timestamp=datetime.now(UTC), labels=MANAGED if owner else {},
        owner_references=[Made(uid=owner)] if owner else None,
    )  # fmt: skip
    return Made(metadata=data, status=status, spec=spec)


class Api:
    """An API server with a Job, pods of the request, and others. `answers` are those of kafkats-host by message."""

    name = "namespace x"

    def __init__(self, job: Any, pods: list[Any], others: list[Any], **answers: Any) -> None:
        self._job, self._pods, self._others, self._answers = job, pods, others, answers
        self.created: list[Any] = []
        self.asked: list[str] = []

    def job(self, _name: str) -> Any:
        return self._job

    def create(self, manifest: Any) -> Any:
        self.created.append(manifest)
        self._job = job()
        return self._job

    def pods(self, labels: str = "") -> list[Any]:
        return self._pods if labels else [*self._pods, *self._others]

    def claim(self, _name: str) -> Any:
        return Made(spec=Made(access_modes=["ReadWriteOnce"]))

    def events(self, _name: str) -> list[Any]:
        return []

    @contextmanager
    def program(
        self, _pod: Any, _command: Any, message: Any, _seconds: float
    ) -> Generator[Program]:
        ask = read_message(message, Ask)
        self.asked.append(ask.do)
        told = io.BytesIO()
        write_message(told, Answer(kafkats=__version__, **self._answers[ask.do]))
        told.seek(0)
        yield Program(told, str)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> PodHost:
    made = recorded.connection("http://127.0.0.1:1")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_0", made)
    return PodHost("kafka_0")


def begin(host: PodHost, api: Api, verb: str = "apply") -> Answer:
    host._api = api  # type: ignore[assignment]
    return host.ask(Ask(do="begin", id="d/r", folder=Path("/r"), request={"verb": verb}))


@pytest.mark.parametrize("now", [None, "new"])
def test_no_pod_is_begun_beside_one_whose_job_was_deleted(host: PodHost, now: str | None) -> None:
    """The server tells the pod to end some time after its Job is gone."""
    api = Api(job(now) if now else None, [pod("earlier", "deleted")], [])
    with pytest.raises(Unreached, match="the earlier pod earlier still ends"):
        begin(host, api)
    assert not api.created
    assert not api.asked
    api = Api(None, [pod("earlier", "deleted", "Succeeded")], [])
    begin(host, api)
    assert len(api.created) == 1


BROKER = pod("kafka-0", None)
DONE: dict[str, Any] = {"state": "ended", "result": {"verb": "apply"}}
FAILED = {"state": "ended", "result": {"error": {"kind": "Unattended", "reason": "stopped"}}}


@pytest.mark.parametrize(
    ("look", "collect"), [({"state": "none"}, {}), ({"state": "lost"}, {}), (FAILED, FAILED)]
)
def test_nothing_is_begun_in_a_pod_beside_a_broker_s(
    host: PodHost, look: dict[str, Any], collect: dict[str, Any]
) -> None:
    """With a folder that both share there is nothing to send, and no `start` follows."""
    api = Api(job(), [pod("ours", "new")], [BROKER], look=look, collect=collect)
    with pytest.raises(PodRefused, match="pod kafka-0 mounts data-kafka-0: nothing is written"):
        begin(host, api)
    assert "begin" not in api.asked


@pytest.mark.parametrize(
    ("look", "verb"),
    [({"state": "running"}, "apply"), (DONE, "apply"), ({"state": "none"}, "plan")],
)
def test_work_that_is_under_way_or_only_reads_is_attached_to(
    host: PodHost, look: dict[str, Any], verb: str
) -> None:
    answers = {"look": look, "collect": look, "begin": {"state": "running"}}
    api = Api(job(), [pod("ours", "new")], [BROKER], **answers)
    assert begin(host, api, verb).state == "running"
    assert json.dumps(api.created) == "[]"
