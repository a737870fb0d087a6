"""The end of a request on a host, where the host answers in part."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from kafkats_airflow.jobs.homes import Task
from kafkats_airflow.jobs.host_home import HostHome
from kafkats_airflow.jobs.hosts import Host, Unreached
from kafkats_airflow.jobs.job_files import JobFiles

from kafkats.detached.messages import Answer, Ask
from kafkats.request import Request

RESULT = {"exit_code": 0}


class Forgetful:
    """A host whose connection is lost as soon as it has sent the result."""

    silence_seconds = 0.0

    def __init__(self) -> None:
        self.heard: list[str] = []

    def asked(self, ask: Ask, *_: Any, **__: Any) -> Answer:
        self.heard.append(ask.do)
        if ask.do == "forget":
            raise Unreached("the connection was lost")
        return Answer(kafkats="1", host="one", state="ended", result=RESULT)


def test_a_host_that_does_not_forget_changes_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = Request(verb="inventory", id="one", made_ms=0)
    files = JobFiles(*(tmp_path / name for name in ("request", "result", "progress")))
    told: list[int] = []
    task = Task(
        context=cast("Any", {}),
        job="look",
        request=request,
        files=files,
        folder=tmp_path,
        live=tmp_path / "live",
        limit=timedelta(hours=1),
        tell=lambda: told.append(1),
    )
    home, host = HostHome("ssh", "broker"), Forgetful()
    home._host = cast("Host", host)

    assert home.run(task) is None
    home.end()

    assert json.loads(files.result.read_bytes()) == RESULT
    assert host.heard == ["begin", "collect", "forget"]
    assert told
    assert "keeps the files of this request: the connection was lost" in caplog.text
