"""The demo of scale: many segments on two volumes, repaired by two Spark workers that see one volume each, one of which is killed.

    scripts/demo scale            6 000 segments
    scripts/demo scale 100000     as many
    scripts/demo scale --full     1 000 000: 9 GB of disk

Called by scripts/demo, which sets the environment. Needs root, for namespaces. At the path of the other's volume each worker
sees a volume that it must leave alone. The proof at the end uses none of our code: a time index of one batch is one entry.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from tools.demo_stage import HOME, begin, console
from tools.spark_cluster import SparkCluster

SMALL: Final = 6_000
FULL: Final = 1_000_000
VOLUMES: Final = ("a", "b")
TIME: Final = 1_700_000_000_000
RECORDS: Final = 3
"""Records of each segment: one batch."""
_ENTRY: Final = struct.Struct(">qi")
_RESULT: Final = re.compile(r"^KAFKATS_RESULT (.*)$", re.MULTILINE)
_WAIT_S: Final = 3600


def main() -> int:
    if os.getuid():
        console.print("[red]this demo makes hosts in namespaces[/]: run it as root")
        return 1
    words = sys.argv[1:]
    count = FULL if "--full" in words else int(words[0]) if words else SMALL
    began = time.monotonic()
    begin()
    console.rule(f"[bold]1 {count:,} segments on two volumes, without their time indexes")
    per_partition = min(1000, max(count // 60, 1))
    partitions = -(-count // per_partition // len(VOLUMES))
    for name in VOLUMES:
        make_volume(HOME / "kafka" / name, name, partitions, per_partition)
        make_volume(HOME / "elsewhere" / name, f"not-{name}", 1, 2)
    told(began, f"{2 * partitions} partitions of {per_partition} segments; in {HOME}")
    with SparkCluster(HOME / "spark") as cluster:
        console.rule("[bold]2 A Spark cluster of two workers, each a host that sees one of them")
        one = start(cluster, "a")
        start(cluster, "b")
        told(began, cluster.url)
        console.rule("[bold]3 Plan")
        roots = [HOME / "kafka" / name / "data" for name in VOLUMES]
        plan = HOME / "plan"
        planned = result(cluster.submit("plan", "rebuild", *roots, "-o", plan, seconds=_WAIT_S))
        show_rates(planned)
        told(began, f"{planned['totals']['files']:,} files, digest {planned['digest'][:16]}")
        console.rule("[bold]4 Apply, and kill the first host when it has begun")
        words = [str(plan), "--digest", planned["digest"]]
        job = cluster.begin(HOME / "killed.log", "apply", *words)
        wait_for_journals(job)
        one.kill()
        code = job.wait(_WAIT_S)
        line = result_in((HOME / "killed.log").read_text()).get("error", "")
        told(began, f"exit code {code}: {line}")
        console.rule("[bold]5 The host is there again: the same apply finishes, and proves")
        start(cluster, "a")
        applied = result(cluster.submit("apply", *words, "--prove", seconds=_WAIT_S))
        show_rates(applied)
        told(began, f"{applied['outcomes']}")
    console.rule("[bold]6 Proof: every byte as expected, and nothing changed elsewhere")
    wrong = [] if code == 3 and "host-b" in line else [f"the killed apply ended with {code}"]
    for name in VOLUMES:
        wrong += differences(HOME / "kafka" / name, name, partitions, per_partition)
        wrong += list(untouched(HOME / "elsewhere" / name))
    for line in wrong[:20]:
        console.print(f"[red]{line}[/]")
    told(began, f"{count:,} segments compared")
    console.print(
        f"[bold red]the demo FAILED, {len(wrong)} times[/]"
        if wrong
        else "[bold green]every time index is what a broker would write, and every log is as it was[/]"
    )
    return 1 if wrong else 0


def told(began: float, text: str) -> None:
    console.print(f"  {time.monotonic() - began:6.1f} s  {text}", soft_wrap=True)


def start(cluster: SparkCluster, name: str) -> Any:
    """Start the host of a volume; at the other's path it sees another volume."""
    mounts = [(HOME / "elsewhere" / one, HOME / "kafka" / one) for one in VOLUMES if one != name]
    return cluster.start(f"host-{name}", *mounts)


def make_volume(folder: Path, name: str, partitions: int, segments: int) -> None:
    """Make a log directory whose broker was stopped; only the last segment of a partition has its time index."""
    root = folder / "data"
    root.mkdir(parents=True)
    (root / ".lock").touch()
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    (root / "meta.properties").write_text(
        f"version=1\ncluster.id=demo\nnode.id=1\ndirectory.id={directory_id(name)}\n"
    )
    log, entry = bytearray(batch()), _ENTRY.pack(TIME + RECORDS - 1, RECORDS - 1)
    for number in range(partitions):
        (partition := root / f"demo-{number}").mkdir()
        for base in bases(segments):
            log[:8] = base.to_bytes(8, "big")  # the checksum begins behind it
            stem = f"{partition}/{base:020d}"
            for suffix, data in ((".log", log), (".index", b""), (".timeindex", entry)):
                if suffix != ".timeindex" or base == (segments - 1) * RECORDS:
                    with open(stem + suffix, "wb", buffering=0) as file:
                        file.write(data)


def bases(segments: int) -> range:
    return range(0, segments * RECORDS, RECORDS)


def batch() -> bytes:
    """Return a batch at offset 0."""
    records = [
        Record(n, TIME + n, TimestampType.CREATE_TIME, b"key", b"value of a record")
        for n in range(RECORDS)
    ]
    return bytes(v2.encode_batch(records))


def directory_id(name: str) -> str:
    """Return an id as Kafka writes it: 16 bytes in base64."""
    return f"{name.encode().hex():A<21}A"[:22]


def wait_for_journals(job: subprocess.Popen[bytes]) -> None:
    """Wait until the first host has changed partitions."""
    area = HOME / "kafka" / "a" / ".kafkats" / "data"
    until = time.monotonic() + _WAIT_S
    while not any(area.glob("*/runs/*/journal*")):
        if job.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the apply changed nothing: see {HOME}/killed.log")
        time.sleep(0.05)


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the result of a job that ended well."""
    if done.returncode:
        raise RuntimeError(
            f"exit code {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return result_in(done.stdout)


def result_in(text: str) -> dict[str, Any]:
    found = _RESULT.search(text)
    if found is None:
        raise RuntimeError(f"no result:\n{text[-4000:]}")
    return dict(json.loads(found[1]))


def show_rates(told: dict[str, Any]) -> None:
    table = Table("stage", "units", "seconds", box=None, header_style="bold")
    for rate in told["rates"].values():
        table.add_row(rate["stage"], f"{rate['of_units']:,}", f"{rate['seconds']:.1f}")
    console.print(table)


def differences(folder: Path, name: str, partitions: int, segments: int) -> list[str]:
    """Return the files that are not as expected."""
    root, wrong = folder / "data", []
    log, entry = bytearray(batch()), _ENTRY.pack(TIME + RECORDS - 1, RECORDS - 1)
    for number in range(partitions):
        partition = root / f"demo-{number}"
        expected = set()
        for base in bases(segments):
            log[:8] = base.to_bytes(8, "big")
            for suffix, data in ((".log", log), (".index", b""), (".timeindex", entry)):
                path = partition / f"{base:020d}{suffix}"
                expected.add(path.name)
                if not path.is_file() or path.read_bytes() != data:
                    wrong.append(f"{path}: is not as expected")
        wrong += [
            f"{partition}/{one}: was not there" for one in {*os.listdir(partition)} - expected
        ]
    if f"directory.id={directory_id(name)}" not in (root / "meta.properties").read_text():
        wrong.append(f"{root}: has another identity")
    return wrong


def untouched(folder: Path) -> Iterator[str]:
    """Yield what was changed on a volume that no task may open."""
    found = sorted(path.name for path in (folder / "data" / "demo-0").iterdir())
    kept = [f"{n:020d}{s}" for n in (0, RECORDS) for s in (".index", ".log")]
    if found != sorted([*kept, f"{RECORDS:020d}.timeindex"]):
        yield f"{folder}: was changed: {found}"
    if (folder / ".kafkats").exists():
        yield f"{folder}: has a work area"


if __name__ == "__main__":
    sys.exit(main())
