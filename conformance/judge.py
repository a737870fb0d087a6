"""Kafka's own classes, one warm JVM per version, for as many questions as there are (conformance/java/README.md)."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

JUDGE = Path(__file__).parent / "java" / "judge"
ANSWER_S = 120
START_S = 900  # a fresh machine fetches the jars and compiles first


class Silent(Exception):
    """The judge died or gave no answer in time."""


class Judge:
    """`with Judge("4.3.1") as ask: ask("recover", log, "--out", folder)`; answers are the judge's JSON objects.

    `what` is "recover" for LogSegment.recover of 2.8.2, or "load" for the loader of 3.9.1, which programs of their own
    know. The JVM's words go to `log`.
    """

    def __init__(self, version: str, *what: str, temporary: Path, log: Path) -> None:
        self.version = version
        options = f"-Djava.io.tmpdir={temporary} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m"
        environment = os.environ | {"KAFKATS_JUDGE_JAVA_OPTS": options}
        self.log = log
        self.process = subprocess.Popen(
            [str(JUDGE), "--kafka", version, "serve", *what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("ab"),
            env=environment,
        )
        self.asked = 0
        self._rest = b""

    def __call__(self, *words: object) -> dict[str, Any]:
        self.send(*words)
        return self.answer()

    def send(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(word) for word in words]).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self._line(START_S if self.asked == 0 else ANSWER_S)
        self.asked += 1
        found: dict[str, Any] = json.loads(line)
        return found

    def _line(self, seconds: float) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._rest:
            ready, _, _ = select.select([descriptor], [], [], seconds)
            read = os.read(descriptor, 1 << 20) if ready else b""
            if not read:
                raise Silent(
                    f"the judge of Kafka {self.version} gave no answer; its words are in {self.log}"
                )
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
