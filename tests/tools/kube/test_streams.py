"""Logs and programs of a container by the HTTPS API of its node."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from tests import loops
from tests.contained import contain
from tools.kube.containers import Container
from tools.kube.kubelet import make_certificate
from tools.kube.pods import Running
from tools.kube.streams import Server
from tools.ports import free_ports

pytestmark = pytest.mark.root("runs a container in namespaces")
TEXT = "echo one; echo two; read line; echo $line; sleep 100"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    """The address of a node's API; its one container prints two lines, and a third when it has read one."""
    container = contain(tmp_path, "sh", "-c", TEXT, user=1000, stdin=True)
    while len(container.log.read_text().splitlines()) < 2:
        time.sleep(0.02)
    with serving(tmp_path, container) as address:
        yield address


@contextmanager
def serving(tmp_path: Path, container: Container) -> Generator[str]:
    running = Running({"name": "main", "image": ""}, container=container)
    (port,) = free_ports(1)
    known = ("default", "one", "main")
    server = Server(
        port,
        *make_certificate(tmp_path, "node"),
        lambda *names: running if names == known else None,
    )
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        server.close()
        container.kill()


def test_no_program_starts_in_a_container_that_has_ended(tmp_path: Path) -> None:
    container = contain(tmp_path, "sh", "-c", "exit 3", user=1000)
    while container.exit_code() is None:
        time.sleep(0.02)
    with serving(tmp_path, container) as address:
        got = loops.run(talk(f"{address}/exec/default/one/main?command=true&output=1"))
    assert json.loads(got[3])["reason"] == "InternalError"


def trusting() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def get(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(address, ssl=trusting()) as answer:
        return answer.status, await answer.text()


def test_the_lines_of_a_log_are_bounded_and_have_times_if_asked(node: str) -> None:
    log = f"{node}/containerLogs/default/one/main"
    assert loops.run(get(log)) == (200, "one\ntwo\n")
    assert loops.run(get(f"{log}?tailLines=1")) == (200, "two\n")
    assert loops.run(get(f"{log}?sinceTime=2100-01-01T00:00:00Z")) == (200, "")
    _, stamped = loops.run(get(f"{log}?timestamps=true&limitBytes=34"))
    assert stamped.endswith("Z one")
    assert loops.run(get(f"{node}/containerLogs/default/two/main"))[0] == 400
    assert loops.run(get(f"{log}?previous=true"))[0] == 400


async def talk(address: str, *sent: bytes, end: bytes = b"") -> dict[int, bytes]:
    """Return the bytes of each channel, until the end or until `end` came."""
    got: dict[int, bytes] = {}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, ssl=trusting(), protocols=["v5.channel.k8s.io"]) as socket,
    ):
        for one in sent:
            await socket.send_bytes(one)
        async for message in socket:
            channel, data = message.data[0], message.data[1:]
            got[channel] = got.get(channel, b"") + data
            if end and end in data:
                break
    return got


def test_a_program_gets_its_input_and_says_its_exit_code(node: str) -> None:
    words = "&".join(f"command={word}" for word in ("sh", "-c", "id%20-u;cat;exit%204"))
    got = loops.run(
        talk(
            f"{node}/exec/default/one/main?{words}&input=1&output=1&error=1", b"\x00in", b"\xff\x00"
        )
    )
    assert got[1] == b"1000\nin"
    assert json.loads(got[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


def test_a_client_attaches_to_the_input_and_output_of_a_container(node: str) -> None:
    got = loops.run(
        talk(f"{node}/attach/default/one/main?stdin=true", b"\x00hello\n", end=b"hello")
    )
    assert got == {1: b"hello\n"}


def test_a_program_outlives_its_client_and_its_input_ends(node: str, tmp_path: Path) -> None:
    async def leave() -> None:
        words = "command=sh&command=-c&command=cat;touch%20/data/of/kafka/ended"
        async with aiohttp.ClientSession() as session:
            address = f"{node}/exec/default/one/main?{words}&input=1&output=1"
            socket = await session.ws_connect(address, ssl=trusting())
            await socket.close()

    loops.run(leave())
    end = time.monotonic() + 20
    while not (tmp_path / "volume/ended").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
