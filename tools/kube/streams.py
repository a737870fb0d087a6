"""The HTTPS API of a node, as the API server asks it: the logs of containers, and `exec` and `attach` over a WebSocket."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final

from aiohttp import WSMsgType, web

from tools.kube.containers import Container
from tools.kube.pods import Running

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""WebSocket protocols of Kubernetes: each message begins with its channel. In v5, [255, channel] closes one."""
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
_POLL_S: Final = 0.1
_CHUNK: Final = 1 << 15

Find = Callable[[str, str, str], Running | None]
"""A container by namespace, pod and name."""


class Server(threading.Thread):
    """Serves until `close`. SPDY, the older protocol of kubectl, is not served: the Python client speaks WebSocket."""

    def __init__(self, port: int, certificate: Path, key: Path, find: Find) -> None:
        super().__init__(daemon=True)
        self._port, self._find = port, find
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._end = asyncio.Event()
        self.start()
        self._ready.wait(10)

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self.join(10)

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for verb in ("exec", "attach"):
            # the WebSocket's handshake is a GET; the API server may send it on as a POST
            app.router.add_route("*", f"/{verb}/{{namespace}}/{{pod}}/{{container}}", self._streams)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._context).start()
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    def _container(self, request: web.Request) -> tuple[Running, Container]:
        names = request.match_info
        one = self._find(names["namespace"], names["pod"], names["container"])
        if one is None or one.container is None:
            raise web.HTTPBadRequest(
                text=f'container "{names["container"]}" in pod "{names["pod"]}" is waiting to start'
            )
        return one, one.container

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        one, container = self._container(request)
        asked = request.query
        log = container.log
        if asked.get("previous") == "true":
            log = log.parent.with_name(str(one.restarts - 1)) / "log"
            if not one.restarts:
                raise web.HTTPBadRequest(
                    text=f'previous terminated container "{one.name}" not found'
                )
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        shown, since = (
            asked.get("timestamps") == "true",
            _since(asked.get("sinceSeconds"), asked.get("sinceTime")),
        )
        lines = log.read_bytes().splitlines(keepends=True)
        at = sum(map(len, lines))
        if tail := asked.get("tailLines"):
            lines = lines[-int(tail) :] if int(tail) else []
        await response.write(
            _shown(lines, since, stamped=shown)[: int(asked.get("limitBytes") or 1 << 62)]
        )
        while asked.get("follow") == "true" and not self._end.is_set():
            over = container.exit_code() is not None
            with log.open("rb") as file:
                file.seek(at)
                more = file.read()
            whole = more[: more.rfind(b"\n") + 1]
            at += len(whole)
            if whole:
                await response.write(_shown(whole.splitlines(keepends=True), since, stamped=shown))
            elif over:
                break
            await asyncio.sleep(_POLL_S)
        await response.write_eof()
        return response

    async def _streams(self, request: web.Request) -> web.StreamResponse:
        _, container = self._container(request)
        socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        await socket.prepare(request)
        words = request.query.getall("command", [])
        if request.path.startswith("/attach/"):
            await self._attach(socket, container, wanted=_on(request, "stdin", "input"))
            return socket
        process = container.execute(words, stdin=_on(request, "stdin", "input"))
        await talk(socket, process, lambda: container.exit_code() is not None)
        return socket

    async def _attach(
        self, socket: web.WebSocketResponse, container: Container, *, wanted: bool
    ) -> None:
        """Send the log from now on, and write what comes to the standard input of the container."""
        reading = asyncio.ensure_future(_feed(socket, container.stdin if wanted else None))
        at = container.log.stat().st_size
        while not socket.closed:
            over = container.exit_code() is not None
            with container.log.open("rb") as file:
                file.seek(at)
                more = file.read()
            whole = more[: more.rfind(b"\n") + 1]
            at += len(whole)
            for line in whole.splitlines(keepends=True):
                channel = STDERR if line.split(b" ", 2)[1] == b"stderr" else STDOUT
                await socket.send_bytes(bytes([channel]) + line.split(b" ", 3)[3])
            if over and not whole:
                await _close(socket, container.exit_code() or 0)
            await asyncio.sleep(_POLL_S)
        reading.cancel()


async def talk(
    socket: web.WebSocketResponse,
    process: subprocess.Popen[bytes],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Connect a WebSocket with a program until one of them ends. A program outlives its client: its input ends.

    `is_over` returns whether its container has ended, in which no program can be started.
    """
    assert process.stdout and process.stderr
    reading = asyncio.ensure_future(_feed(socket, process.stdin))
    copies = asyncio.gather(
        _copy(process.stdout, socket, STDOUT), _copy(process.stderr, socket, STDERR)
    )
    await asyncio.wait([reading, copies], return_when=asyncio.FIRST_COMPLETED)
    if not socket.closed:
        await copies
        code = await asyncio.to_thread(process.wait)
        await _close(socket, code, over=bool(code) and await asyncio.to_thread(is_over))
    reading.cancel()


def _on(request: web.Request, *names: str) -> bool:
    return any(request.query.get(name) in ("1", "true") for name in names)


async def _feed(socket: web.WebSocketResponse, stdin: IO[bytes] | None) -> None:
    """Write what comes on channel 0 to a standard input, and close it when the client is gone."""
    async for message in socket:
        if message.type not in {WSMsgType.BINARY, WSMsgType.TEXT} or not message.data:
            continue
        sent = message.data.encode() if message.type is WSMsgType.TEXT else message.data
        channel, data = sent[0], sent[1:]
        if stdin is None or stdin.closed:
            continue
        try:
            if channel == STDIN:
                await asyncio.to_thread(_write, stdin, data)
            elif channel == CLOSE and data[:1] == bytes([STDIN]):
                stdin.close()
        except (BrokenPipeError, ValueError):
            stdin = None
    if stdin and not stdin.closed:
        stdin.close()


def _write(stdin: IO[bytes], data: bytes) -> None:
    stdin.write(data)
    stdin.flush()


async def _copy(stream: IO[bytes], socket: web.WebSocketResponse, channel: int) -> None:
    while data := await asyncio.to_thread(stream.read1, _CHUNK):  # type: ignore[attr-defined]
        if not socket.closed:
            await socket.send_bytes(bytes([channel]) + data)


async def _close(socket: web.WebSocketResponse, code: int, *, over: bool = False) -> None:
    """Say the exit code as Kubernetes does, or that the container is over, and close."""
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if code:
        status = {
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }  # fmt: skip
    if over:
        status |= {"reason": "InternalError", "message": "container not running", "details": {}}
    if not socket.closed:
        await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())
        await socket.close()


def _since(seconds: str | None, time: str | None) -> bytes:
    if seconds:
        return (
            (datetime.now(UTC) - timedelta(seconds=int(seconds)))
            .strftime("%Y-%m-%dT%H:%M:%S")
            .encode()
        )
    return (time or "").removesuffix("Z").encode()


def _shown(lines: list[bytes], since: bytes, *, stamped: bool) -> bytes:
    shown = [line.split(b" ", 3) for line in lines if line >= since]
    return b"".join((one[0] + b" " if stamped else b"") + one[3] for one in shown)
