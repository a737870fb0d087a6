"""The demo of `kafkats recover` before a start: a supervisor restarts a killed broker, with and without it.

Called by scripts/demo, which sets the environment. The supervisor does what a service manager does: it starts a command, and
starts it again when it has ended, unless it ended with 3. A broker of Kafka 4.3.1 was killed before its first checkpoint of
recovery points; its logs hold messages of 100 bytes, each a batch of its own. Both clocks run from the start by the supervisor to
the broker's "Kafka Server started". Proved is that both end with the same logs, that the guarded broker recovers empty segments
only, that a second kill is no different, and that a disk which is not mounted holds the start.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from rich.table import Table

from bench.broker import HEAP, LOADED, TOPIC, wait_for
from bench.java import KAFKA, java_command
from tools.demo_stage import HOME, begin, console
from tools.demos.restart import (
    copy_home,
    digests,
    killed_broker,
)

HELD: Final = 3
_RECOVERING: Final = re.compile(r"partition=([^],]+).*Recovering unflushed segment (\d+)")


class Start(NamedTuple):
    """Seconds from the supervisor's start: until the broker has loaded its logs by its own words, and until it has started."""

    recover: float
    loaded: float
    started: float
    segments: list[int]
    """Bytes of the segments of the topic that the broker recovered."""


class Supervisor:
    """Starts a broker's command, kills it, and starts it again."""

    def __init__(self, home: Path, *, guarded: bool) -> None:
        self.home, self.said = home, home / "service.log"
        options = (*HEAP, f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}")
        self.command = java_command("kafka.Kafka", str(home / "server.properties"), options=options)
        if guarded:
            words = ("--server-properties", str(home / "server.properties"), "--kafka", KAFKA)
            self.command = [sys.executable, "-m", "kafkats", "recover", *words, "--", *self.command]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Start:
        """Start the service, and wait until the broker has started."""
        begun = time.monotonic()
        self._start()
        loaded = int(wait_for(self.said, LOADED.pattern)[1]) / 1000
        wait_for(self.said, "Kafka Server started")
        started = time.monotonic() - begun
        lines = self.said.read_text(errors="replace").splitlines()
        told = [json.loads(line) for line in lines if line.startswith('{"time"')]
        took = sum(one.get("seconds", 0.0) for one in told if one["event"] == "start")
        for one in told:
            console.print(f"  {one['event']}: {_short(one)}", markup=False)
        found = [
            m.groups()
            for line in lines
            if (m := _RECOVERING.search(line)) and f"partition={TOPIC}-" in line
        ]
        sizes = [self._size(str(partition), int(base)) for partition, base in found]
        return Start(took, loaded, started, sizes)

    def ends(self) -> int:
        """Start the service, and return its exit code."""
        self._start()
        assert self.process is not None
        return self.process.wait(300)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _start(self) -> None:
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                self.command, cwd=self.home, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def _size(self, partition: str, base: int) -> int:
        return (self.home / "data" / partition / f"{base:020}.log").stat().st_size


def main() -> int:
    began = time.monotonic()
    os.environ.pop("JDK_JAVA_OPTIONS", None)  # those of short jobs; this broker has its own
    begin()
    plain, guarded = HOME / "plain", HOME / "guarded"
    killed_broker(plain)
    copy_home(plain, guarded)
    subprocess.run(["sync"], check=True)
    services = [Supervisor(plain, guarded=False), Supervisor(guarded, guarded=True)]
    failures: list[str] = []
    try:
        failures = _play(*services)
    finally:
        for service in services:
            service.kill()
    for failure in failures:
        console.print(f"[red]{failure}[/]")
    if not failures:
        console.print(f"[green]both have the same logs[/], {time.monotonic() - began:.0f} s in all")
    shutil.rmtree(plain)
    shutil.rmtree(guarded, ignore_errors=True)
    return bool(failures)


def _play(plain: Supervisor, guarded: Supervisor) -> list[str]:
    console.rule("[bold]2 The supervisor restarts it as it is")
    alone = plain.start()
    plain.kill()
    console.rule("[bold]3 The supervisor restarts it with kafkats recover before it")
    first = guarded.start()
    failures = (
        [] if digests(plain.home) == digests(guarded.home) else ["the logs of the two differ"]
    )
    console.rule("[bold]4 It is killed again, and restarted")
    guarded.kill()
    again = guarded.start()
    guarded.kill()
    _show({"as it is": alone, "guarded": first, "guarded, again": again})
    console.rule("[bold]5 Its disk is not mounted")
    data = guarded.home / "data"
    data.rename(guarded.home / "unmounted")
    code = guarded.ends()
    console.print(f"the service ended with {code}; it is not started again")
    for name, start in (("first", first), ("second", again)):
        if any(start.segments):
            failures.append(f"the {name} guarded start recovered {sum(start.segments)} bytes")
    if not any(alone.segments):
        failures.append("the other start recovered nothing")
    if code != HELD:
        failures.append(f"a disk that is not mounted did not hold the start: exit code {code}")
    return failures


def _short(line: dict[str, object]) -> str:
    left_out = ("time", "level", "event", "command", "log_dirs", "runs", "left_partitions")
    return ", ".join(f"{name} {value}" for name, value in line.items() if name not in left_out)


def _show(starts: dict[str, Start]) -> None:
    table = Table(title="From the supervisor's start, in seconds")
    for column in ("service", "kafkats", "loading", "until the broker has started", ""):
        table.add_column(column, justify="left" if column in ("service", "") else "right")
    longest = max(start.started for start in starts.values())
    for name, start in starts.items():
        table.add_row(
            name,
            f"{start.recover:.1f}" if start.recover else "",
            f"{start.loaded:.1f}",
            f"{start.started:.1f}",
            "█" * max(round(40 * start.started / longest), 1),
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
