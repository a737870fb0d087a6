"""Kafka 4.3.1 as a contestant: the judge's races in warm JVMs, DumpLogSegments, a broker.

It needs a JDK (the judge is compiled once) and fetches Kafka's jars once, see
conformance/java/README.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from bench.harness import ROOT

KAFKA = "4.3.1"
JUDGE = ROOT / "conformance" / "java" / "judge"
WARM_JVM = "-Xms1g -Xmx1g -XX:+UseG1GC"


@cache
def jars(kafka: str = KAFKA) -> Path:
    """Return the folder of Kafka's jars. They are fetched if missing."""
    said = subprocess.run(
        [sys.executable, str(JUDGE), "--kafka", kafka, "jars"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Path(said.stdout.strip())


def java_command(
    main: str, *arguments: str, options: tuple[str, ...] = (), kafka: str = KAFKA
) -> list[str]:
    """Return a command line for one of Kafka's own programs.

    The jars of releases before 4 have no logging backend: they get that of KAFKA.
    """
    logging = [] if kafka == KAFKA else [str(jar) for jar in jars().glob("log4j-*.jar")]
    home = os.environ.get("JAVA_HOME")
    return [
        str(Path(home, "bin", "java")) if home else "java",
        *options,
        "-cp",
        os.pathsep.join([f"{jars(kafka)}/*", *logging]),
        main,
        *arguments,
    ]


Ask = Callable[..., dict[str, Any]]


@contextmanager
def judge(options: str = WARM_JVM, *, kafka: str = KAFKA) -> Generator[Ask, None, None]:
    """Start a JVM that answers the judge's verbs: `ask("race", "recover", path, ...)`."""
    jars(kafka)
    server = subprocess.Popen(
        [sys.executable, str(JUDGE), "--kafka", kafka, "serve"], env=os.environ | {"KAFKATS_JUDGE_JAVA_OPTS": options},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert server.stdin and server.stdout
    asks, answers = server.stdin, server.stdout

    def ask(*words: str | Path) -> dict[str, Any]:
        asks.write(json.dumps([str(word) for word in words]) + "\n")
        asks.flush()
        answer: dict[str, Any] = json.loads(answers.readline())
        if "error" in answer:
            raise RuntimeError(f"{words}: {answer['error']}: {answer.get('message')}")
        return answer

    try:
        yield ask
    finally:
        asks.close()
        server.wait(20)
        answers.close()


def race_seconds(ask: Ask, kind: str, log: Path, *more: str) -> float:
    """Return the CPU seconds of the working thread in one race over `log`, without JIT and GC."""
    answer = ask("race", kind, log, "--warmup", "0", "--runs", "1", *more)
    return float(answer["size"]) / (answer["cpu_runs"][0] * 1e6)
