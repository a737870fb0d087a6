"""Records the requests of a client and the answers of an API server, and answers the same later, without a server.

    with Recorder(lab.api, file, words) as between:    # a client of `between.address` speaks to the server, and the file keeps it
    with Replay(file, words) as between:               # a client of `between.address` gets the answers of the file
        ...
    assert not between.unlike                          # it asked what was recorded, and nothing else

The client needs names that are the same in both runs; `words` has those that are not, such as a folder, and what the file has in
their place. A request is known by its method, path, query and body. Where one was made several times, its answers come in their
order, and the last one stays: a client may ask more often for a status that has not changed. A scene ends with each request that
changes something, and with each change that the client has not made (`scene`): answers of a later scene are never given before it.
Answers are kept without managedFields and resourceVersion, and their times are as long before a scene as they were. What a client
sends to a program by `exec` is not kept, nor a number among its words, which is the size of that: while replaying, `execute` gets the
words and starts a program of this machine, whose output and exit code go to the client.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen
from typing import Any, Final, Self

from aiohttp import ClientSession, WSMsgType, web

from tools.kube.control_plane import Api, Json
from tools.kube.streams import PROTOCOLS, talk
from tools.ports import free_ports

Handler = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
_PASSED: Final = ("Authorization", "Content-Type", "Accept")
_DROPPED: Final = ("managedFields", "resourceVersion")
_TIME: Final = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z"')


class Serving(threading.Thread):
    """An HTTP server on loopback, in a thread, around one handler."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(daemon=True)
        self._handler = handler
        (self._port,) = free_ports(1)
        self._loop, self._ready = asyncio.new_event_loop(), threading.Event()
        self._end = asyncio.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        self.start()
        self._ready.wait(10)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self.join(10)

    def run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", self._handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port).start()
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()


class Between(ABC):
    """A server for one client. `heard` are its requests. `refused` has errors in place of answers, by the words of `about`."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self.heard: list[Json] = []
        self.refused: dict[str, tuple[int, str]] = {}
        self._words = words
        self._server = Serving(self._handle)

    @property
    def address(self) -> str:
        return self._server.address

    def __enter__(self) -> Self:
        self._server.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @abstractmethod
    def scene(self) -> None:
        """Begin what comes after a change of the server that the client has not made."""

    @abstractmethod
    async def _answer(
        self, request: web.Request, asked: Json, body: bytes
    ) -> web.StreamResponse: ...

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = self._known(request, body)
        self.heard.append(asked)
        if refused := self.refused.get(about(asked)):
            status, message = refused
            return web.json_response({"kind": "Status", "message": message}, status=status)
        return await self._answer(request, asked, body)

    def _known(self, request: web.Request, body: bytes) -> Json:
        """Return what a request is known by."""
        query = sorted(
            [name, "0" if name == "command" and value.isdigit() else value]
            for name, value in request.query.items()
        )
        return self._kept({
            "method": request.method, "path": request.path, "query": query,
            "body": json.loads(body) if body else None,
        })  # fmt: skip

    def _kept(self, found: Any) -> Any:
        text = json.dumps(found)
        for word, kept in self._words.items():
            text = text.replace(word, kept)
        return json.loads(text)


def about(asked: Json) -> str:
    """Return the method and the kind of a request: POST jobs, GET pods/exec, GET readyz."""
    _, namespaced, rest = asked["path"].partition("/namespaces/")
    parts = rest.split("/") if namespaced else asked["path"].split("/")
    return f"{asked['method']} {'/'.join(parts[1::2])}"


class Recorder(Between):
    """A server between a client and an API server. The file has one line of JSON for each answer that differs from the last one."""

    unlike: tuple[()] = ()
    unasked: tuple[()] = ()

    def __init__(self, api: Api, file: Path, words: Mapping[str, str]) -> None:
        super().__init__(words)
        self._api, self._file = api, file
        secure = api.address.startswith("https:")
        self._context = ssl.create_default_context(cafile=str(api.authority)) if secure else False
        self._last: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._file.write_text("")
        self.scene()
        return super().__enter__()

    def scene(self) -> None:
        self._last.clear()
        self._write(json.dumps({"scene": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}))

    async def _answer(self, request: web.Request, asked: Json, body: bytes) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        async with ClientSession(headers=headers) as session:
            url = self._api.address + request.path_qs
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._pass_socket(request, asked, session, url)
            async with session.request(request.method, url, data=body, ssl=self._context) as answer:
                kind = answer.content_type
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
                await response.prepare(request)
                read = b""
                async for (
                    piece
                ) in answer.content.iter_any():  # a log that is followed comes in pieces
                    read += piece
                    await response.write(piece)
                told = (
                    json.loads(read, object_hook=_plain)
                    if kind == "application/json" and b"\n{" not in read.strip()
                    else read.decode()
                )
                self._keep(asked, answer.status, kind, told)  # before the client goes on
                await response.write_eof()
        return response

    async def _pass_socket(
        self, request: web.Request, asked: Json, session: ClientSession, url: str
    ) -> web.StreamResponse:
        here = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        async with session.ws_connect(
            url, protocols=PROTOCOLS, ssl=self._context, max_msg_size=0
        ) as there:
            await here.prepare(request)
            self._keep(asked, 101, "", "")

            async def copy(one: Any, other: Any) -> None:
                async for message in one:
                    if message.type is WSMsgType.BINARY:
                        await other.send_bytes(message.data)
                    elif message.type is WSMsgType.TEXT:
                        await other.send_str(message.data)
                await other.close()

            await asyncio.gather(copy(here, there), copy(there, here))
        return here

    def _keep(self, asked: Json, status: int, kind: str, answer: object) -> None:
        told = {"asked": asked, "status": status, "kind": kind, "answer": self._kept(answer)}
        line = json.dumps(told, separators=(",", ":"))
        if self._last.get(_key(asked)) != line:
            self._last[_key(asked)] = line
            self._write(line)
        if not _reads(asked):
            self.scene()

    def _write(self, line: str) -> None:
        with self._file.open("a") as file:
            file.write(line + "\n")


def _plain(found: Json) -> Json:
    return {name: one for name, one in found.items() if name not in _DROPPED}


class Replay(Between):
    """Answers as it was recorded. `unlike` has what was asked and is not in the file, and `unasked` what is and was not.

    What a client only reads may be left out: it depends on what the programs of this machine have answered.
    """

    def __init__(
        self,
        file: Path,
        words: Mapping[str, str],
        execute: Callable[[list[str]], Popen[bytes]] | None = None,
    ) -> None:
        super().__init__(words)
        self._scenes: list[tuple[datetime, dict[str, list[Json]]]] = []
        for line in file.read_text().splitlines():
            one = json.loads(line)
            if "scene" in one:
                self._scenes.append((datetime.fromisoformat(one["scene"]), {}))
            else:
                self._scenes[-1][1].setdefault(_key(one["asked"]), []).append(one)
        self._execute = execute
        self._at = -1
        self._heard: set[tuple[int, str]] = set()
        self.unlike: list[Json] = []

    def __enter__(self) -> Self:
        self.scene()
        return super().__enter__()

    def scene(self) -> None:
        self._at += 1
        self._later = datetime.now(UTC) - self._scenes[self._at][0]

    @property
    def unasked(self) -> list[Json]:
        return [
            answers[0]["asked"]
            for number, (_, scene) in enumerate(self._scenes)
            for key, answers in scene.items()
            if (number, key) not in self._heard
            and (not _reads(answers[0]["asked"]) or answers[0]["status"] == 101)
        ]

    async def _answer(self, request: web.Request, asked: Json, body: bytes) -> web.StreamResponse:
        one = self._next(asked)
        if one is None:
            self.unlike.append(asked)
            told = {"kind": "Status", "reason": "NotRecorded", "message": _key(asked)}
            return web.json_response(told, status=501)
        if one["status"] == 101:
            return await self._run(request)
        if not _reads(asked):
            self.scene()
        answer = one["answer"]
        text = self._now(answer if isinstance(answer, str) else json.dumps(answer))
        return web.Response(status=one["status"], text=text, content_type=one["kind"])

    def _next(self, asked: Json) -> Json | None:
        """Return the answer of this scene, else the last one of an earlier one; None for a change at another place than recorded."""
        key = _key(asked)
        for number in range(self._at, -1 if _reads(asked) else self._at - 1, -1):
            if answers := self._scenes[number][1].get(key):
                self._heard.add((number, key))
                return answers.pop(0) if number == self._at and len(answers) > 1 else answers[-1]
        return None

    def _now(self, text: str) -> str:
        for word, kept in self._words.items():
            text = text.replace(kept, word)

        def moved(found: re.Match[str]) -> str:
            then = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) + self._later
            return f'"{then - timedelta(microseconds=then.microsecond):%Y-%m-%dT%H:%M:%SZ}"'

        return _TIME.sub(moved, text)

    async def _run(self, request: web.Request) -> web.StreamResponse:
        if self._execute is None:
            return web.Response(status=501)
        socket = web.WebSocketResponse(protocols=PROTOCOLS, max_msg_size=0)
        await socket.prepare(request)
        await talk(socket, self._execute(request.query.getall("command", [])))
        return socket


def _reads(asked: Json) -> bool:
    return bool(asked["method"] == "GET")


def _key(asked: Json) -> str:
    return json.dumps(asked, sort_keys=True)
