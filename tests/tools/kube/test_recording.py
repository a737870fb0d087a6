"""A recording answers a client as the API server did, without the server."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests
from aiohttp import web

from tests import loops
from tools.kube.control_plane import Api
from tools.kube.recording import Recorder, Replay, Serving, about

PODS = "/api/v1/namespaces/default/pods"


class Server:
    """Says Pending once, and Running from then on; forbids everything else."""

    def __init__(self) -> None:
        self.count = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)
        self.count += 1
        status = {"phase": "Pending" if self.count == 1 else "Running"}
        return web.json_response({
            "metadata": {"name": "one", "managedFields": [1], "creationTimestamp": now()},
            "status": status,
        })


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ask(address: str) -> list[object]:
    api = Api(address, Path("/none"), "token")
    told: list[object] = [api.get(f"{PODS}/one", limit="1") for _ in range(2)]
    with pytest.raises(requests.HTTPError, match="403") as raised:
        api.post(PODS, {"metadata": {"name": "two"}})
    return [*told, raised.value.response.json()]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    server = Serving(Server().answer)
    server.open()
    file = tmp_path / "recorded.jsonl"
    with Recorder(Api(server.address, Path("/none"), ""), file, {"one": "ONE"}) as between:
        told = ask(between.address)
        between.scene()
        ask(between.address)
    server.close()
    assert told[1]["status"] == {"phase": "Running"}
    return file


def test_answers_come_again_in_their_order_and_the_last_one_stays(recorded: Path) -> None:
    with Replay(recorded, {"one": "ONE"}) as replay:
        first, second, refused = ask(replay.address)
        assert [first["status"], second["status"]] == [{"phase": "Pending"}, {"phase": "Running"}]
        assert first["metadata"].keys() == {"name", "creationTimestamp"}
        assert refused["reason"] == "Forbidden"
        assert Api(replay.address, Path("/none"), "").get(f"{PODS}/one", limit="1") == second
        assert [about(one) for one in replay.unasked] == ["POST pods"]
        replay.scene()
        assert ask(replay.address)[0]["status"] == {"phase": "Running"}
        assert (replay.unlike, replay.unasked) == ([], [])
    assert "ONE" in recorded.read_text()
    assert '"one"' not in recorded.read_text()


def test_times_are_as_long_before_a_scene_as_they_were(recorded: Path) -> None:
    year = datetime.now(UTC) - timedelta(days=365)
    old = recorded.read_text().replace(now()[:10], f"{year:%Y-%m-%d}")
    recorded.write_text(old)
    with Replay(recorded, {"one": "ONE"}) as replay:
        told: Any = ask(replay.address)[0]
    made = datetime.fromisoformat(told["metadata"]["creationTimestamp"])
    assert abs(datetime.now(UTC) - made) < timedelta(hours=1)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_that_was_not_recorded_is_told(recorded: Path, method: str) -> None:
    with Replay(recorded, {"one": "ONE"}) as replay:
        with pytest.raises(requests.HTTPError, match="501"):
            Api(replay.address, Path("/none"), "").call(method, PODS, {"name": "other"})
        assert [one["body"] for one in replay.unlike] == [{"name": "other"}]
        assert len(replay.unasked) == 2


def test_a_change_that_was_recorded_once_is_answered_once(recorded: Path) -> None:
    with Replay(recorded, {"one": "ONE"}) as replay:
        ask(replay.address)
        with pytest.raises(requests.HTTPError, match="501"):
            Api(replay.address, Path("/none"), "").post(PODS, {"metadata": {"name": "two"}})


def test_an_error_takes_the_place_of_an_answer(recorded: Path) -> None:
    with Replay(recorded, {"one": "ONE"}) as replay:
        replay.refused["GET pods"] = (503, "etcd is down")
        with pytest.raises(requests.HTTPError, match=r"503.*etcd is down"):
            Api(replay.address, Path("/none"), "").get(f"{PODS}/one")
        assert [about(one) for one in replay.heard] == ["GET pods"]


def test_a_program_is_run_here_while_replaying(tmp_path: Path) -> None:
    path = f"{PODS}/one/exec"
    asked = {
        "method": "GET",
        "path": path,
        "query": [["command", "cat"], ["stdin", "1"]],
        "body": None,
    }
    file = tmp_path / "recorded.jsonl"
    lines = [{"scene": now()}, {"asked": asked, "status": 101, "kind": "", "answer": ""}]
    file.write_text("\n".join(map(json.dumps, lines)))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    async def talk(address: str) -> list[bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(
                f"{address}{path}?command=cat&stdin=1", protocols=["v5.channel.k8s.io"]
            ) as socket,
        ):
            await socket.send_bytes(b"\x00hello")
            await socket.send_bytes(b"\xff\x00")  # the end of the input
            return [
                message.data async for message in socket if message.type is aiohttp.WSMsgType.BINARY
            ]

    with Replay(file, {}, lambda words: subprocess.Popen(words, **pipes)) as replay:
        told = loops.run(talk(replay.address))
    assert told[0] == b"\x01hello"
    assert b'"Success"' in told[1]
