"""The demo of a restart: two copies of one killed broker's directory, one started as it is, the other one recovered first.

Called by scripts/demo, which sets the environment. A broker of Kafka 4.3.1 is killed before its first checkpoint of recovery points,
so that its next start recovers every segment. Its logs hold messages of 100 bytes, each a batch of its own, as topics of old
producers do: that is what takes brokers longest. Then the clocks run: of the broker alone; of kafkats and the broker after it.
Proved is that both end with the same logs, and that the broker recovers one empty segment of each partition that was recovered.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from rich.filesize import decimal
from rich.table import Table

from bench.broker import LOADED, TOPIC, create_topic, running, wait_for, write_logs
from bench.harness import MIB
from tools.demo_stage import HOME, begin, console, say_whole

PARTITIONS: Final = 4
SEGMENT_BYTES: Final = 48 * MIB
"""Each partition has four."""
THREADS: Final = 2
_RECOVERING: Final = re.compile(r"Recovering unflushed segment (\d+)")
CHECKPOINT: Final = "recovery-point-offset-checkpoint"


class Start(NamedTuple):
    """A broker's start: seconds until it has loaded its logs, by its own words, and until it has started."""

    loaded: float
    started: float
    recovered: int
    """Segments of the topic that it recovered."""


def main() -> int:
    began = time.monotonic()
    os.environ.pop("JDK_JAVA_OPTIONS", None)  # those of short jobs; this broker has its own
    begin()
    as_it_is, repaired = HOME / "as-it-is", HOME / "repaired"
    killed_broker(as_it_is)
    copy_home(as_it_is, repaired)

    console.rule("[bold]2 kafkats preflight: what the start would do")
    _kafkats("preflight", repaired / "data", "--kafka", "4.3", accepted=(0, 1))
    console.rule("[bold]3 kafkats plan recover, apply")
    begun = time.monotonic()
    plan = HOME / "plan"
    _kafkats("plan", "recover", repaired / "data", "-o", plan)
    _kafkats("apply", plan, "--digest", "any", "--owner-stopped")
    ours = time.monotonic() - begun
    subprocess.run(["sync"], check=True)

    console.rule("[bold]4 Both copies are started, one after the other")
    alone, after = _start(as_it_is), _start(repaired)
    _show(alone, after, ours)

    failures = []
    if digests(as_it_is) != digests(repaired):
        failures.append("the logs of the two copies are not the same")
    if after.recovered != PARTITIONS:
        failures.append(f"the repaired copy's broker recovered {after.recovered} segments")
    if alone.recovered <= PARTITIONS:
        failures.append(f"the other copy's broker recovered {alone.recovered} segments only")
    for failure in failures:
        console.print(f"[red]{failure}[/]")
    if not failures:
        console.print(
            f"[green]both copies have the same logs; the broker recovered {alone.recovered} segments"
            f" of one and {after.recovered} empty ones of the other[/], {time.monotonic() - began:.0f} s in all"
        )
    shutil.rmtree(as_it_is)
    shutil.rmtree(repaired)
    return bool(failures)


def killed_broker(home: Path) -> None:
    """Make the home of a broker that was killed before its first checkpoint of recovery points."""
    console.rule(
        "[bold]1 A broker of Kafka 4.3.1 is killed; no checkpoint says what it has flushed"
    )
    for partition in create_topic(home, PARTITIONS, THREADS):
        write_logs(partition, SEGMENT_BYTES)
    (home / "data" / CHECKPOINT).unlink(missing_ok=True)
    logs = logs_of(home)
    size = sum(log.stat().st_size for log in logs)
    console.print(f"{PARTITIONS} partitions, {len(logs)} segments, {decimal(size)}")


def copy_home(home: Path, other: Path) -> None:
    """Copy a broker's home; the paths in its properties become the copy's."""
    shutil.copytree(home, other)
    properties = other / "server.properties"
    properties.write_text(properties.read_text().replace(str(home), str(other)))


def _start(home: Path) -> Start:
    begun = time.monotonic()
    with running(home) as said:
        loaded = int(wait_for(said, LOADED.pattern)[1]) / 1000
        wait_for(said, "Kafka Server started")
        started = time.monotonic() - begun
        lines = said.read_text(errors="replace").splitlines()
    recovered = [
        line for line in lines if f"partition={TOPIC}-" in line and _RECOVERING.search(line)
    ]
    return Start(loaded, started, len(recovered))


def _kafkats(*words: object, accepted: tuple[int, ...] = (0,)) -> None:
    command = [sys.executable, "-m", "kafkats", *map(str, words)]
    say_whole(f"[bold]$ kafkats {' '.join(map(str, words))}".replace(f"{HOME}/", ""))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.rstrip() for line in (done.stdout or done.stderr).splitlines()]
    for line in lines if len(lines) < 20 else [*lines[:4], "...", *lines[-8:]]:
        console.print("  " + line.replace(f"{HOME}/", ""), soft_wrap=True, markup=False)
    if done.returncode not in accepted:
        sys.exit(f"kafkats {words[0]} ended with {done.returncode}: {done.stderr}")


def _show(alone: Start, after: Start, ours: float) -> None:
    table = Table(title="From the broker's start until all logs are loaded, in seconds")
    for column in ("copy", "kafkats", "loading", "both", "", "from the JVM's start to started"):
        table.add_column(column, justify="left" if column in ("copy", "") else "right")
    longest = max(alone.loaded, ours + after.loaded)
    for name, mine, start in (("as it is", 0.0, alone), ("recovered first", ours, after)):
        both = mine + start.loaded
        table.add_row(
            name,
            f"{mine:.1f}" if mine else "",
            f"{start.loaded:.1f}",
            f"{both:.1f}",
            "█" * max(round(40 * both / longest), 1),
            f"{start.started:.1f}",
        )
    console.print(table)
    console.print(f"recovered first: {alone.loaded / (ours + after.loaded):.1f} times as fast")


def logs_of(home: Path) -> list[Path]:
    return sorted((home / "data").glob(f"{TOPIC}-*/*.log"))


def digests(home: Path) -> dict[str, str]:
    """Return the SHA-256 of each log that is not empty."""
    return {
        str(log.relative_to(home)): hashlib.sha256(log.read_bytes()).hexdigest()
        for log in logs_of(home)
        if log.stat().st_size
    }


if __name__ == "__main__":
    sys.exit(main())
