"""What a program in a pod says of its end: an error of its own, or that it was killed with its pod; a server that is silent."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from kafkats_airflow.jobs import pod_api
from kafkats_airflow.jobs.hosts import Unreached
from kafkats_airflow.jobs.pod_api import Api, _Output

from tests.dags.recorded import connection


class Ended:
    """The socket to a program that has ended with this status."""

    def __init__(self, status: str) -> None:
        self._status = status.encode()

    def is_open(self) -> bool:
        return False

    def read_channel(self, channel: int) -> bytes:
        told, self._status = self._status if channel == 3 else b"", b""
        return told if channel == 3 else b""


def failed(code: int) -> str:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return json.dumps({
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": causes},
    })


@pytest.mark.parametrize(
    "status",
    [
        failed(137),
        failed(-9),
        '{"status": "Failure", "reason": "InternalError", "message": "container not running"}',
        "no JSON",
    ],
)
def test_a_program_that_was_killed_is_asked_again(status: str) -> None:
    client: Any = Ended(status)
    with pytest.raises(Unreached, match="pod kafkats-x: its program was killed, or did not start"):
        _Output(client, "pod kafkats-x", 600).said()


@pytest.mark.parametrize("status", [failed(2), '{"status": "Success"}'])
def test_a_program_that_ended_by_itself_is_not(status: str) -> None:
    client: Any = Ended(status)
    assert _Output(client, "pod kafkats-x", 600).said() == status


def test_a_server_that_never_answers_is_unreached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pod_api._LIMITS, "_request_timeout", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AIRFLOW_CONN_SILENT", connection(address))
        with pytest.raises(Unreached, match=r"listing pods: .*imed out"):
            Api("silent").pods()
