"""The real Kafka log directories of tests/real-logs (its README says what is in a case), for tests.

from tests.golden import case, cases

case("crash-4.3.1").unpack("before", tmp_path)      # a directory of your own, to damage
def test_it(golden):                                # the session's unpacked copy: read it, never change it
    root = golden("crash-4.3.1", "before")
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

REAL_LOGS = Path(__file__).parent / "real-logs"
INDEX_INTERVAL_BYTES = 4096
SEGMENT_INDEX_BYTES = 10 * 1024 * 1024


RECORDS_OF = {
    "crash": {"after": "records"},
    "clean-start": {"after": "records"},
    "torn-append": {"appended": "records-appended", "after": "records"},
    "retention": {"before": "records-before", "after": "records"},
    "compaction": {
        "before": "records-before",
        "after-first-pass": "records-after-first-pass",
        "between": "records-before-second-pass",
        "after": "records",
    },
    "adopt": {"before": "records-before-append", "after": "records"},
    "root": {"running": "records", "data": "records"},
    "follower": {"leader": "records", "follower": "records"},
}
"""kind -> state -> which records were read from it; for the other kinds `data` and `records`."""


class Case:
    """One folder of tests/real-logs: what real brokers left, state by state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.info: dict[str, Any] = json.loads((folder / "case.json").read_text())
        self.kind: str = self.info["kind"]
        self.kafka: str = self.info["kafka"]
        self.states: list[str] = list(self.info["states"])

    def __repr__(self) -> str:
        return self.name

    def unpack(self, state: str, to: Path) -> Path:
        """The log.dirs root of `state` in the existing folder `to`, with its holes and nanoseconds; returns `to`."""
        archive = self.folder / self.info["states"][state]["archive"]
        subprocess.run(["tar", "-xJf", str(archive), "-C", str(to)], check=True)
        return to

    def files(self, state: str) -> dict[str, tuple[int, int, str | None]]:
        """path in the root -> (size, mtime_ms, sha256); an empty folder is "name/" -> (0, 0, None)."""
        files = self.info["states"][state]["files"]
        found = json.loads(self.text(files))[state] if isinstance(files, str) else files
        return {path: (size, mtime_ms, sha256) for path, (size, mtime_ms, sha256) in found.items()}

    def records(self, label: str = "records") -> list[dict[str, Any]]:
        """What the consumer of that version read, in the order it read it."""
        return [json.loads(line) for line in self.text(f"{label}.jsonl.xz").splitlines()]

    def times(self) -> list[dict[str, Any]]:
        """The broker's answers to searches by time, per partition; empty where the case has none."""
        path = "offsets_for_times.json.xz"
        return json.loads(self.text(path)) if (self.folder / path).exists() else []

    def text(self, name: str) -> str:
        with lzma.open(self.folder / name, "rt", encoding="utf-8") as file:
            return file.read()

    def topic_config(self, partition: str) -> dict[str, str]:
        """What the partition's topic was created with, Kafka's keys; empty for the broker's own topics."""
        return dict(self.info["topics"].get(topic_of(partition), {}).get("config", {}))

    def interval(self, partition: str) -> int:
        """`index.interval.bytes` under which the partition was written."""
        return int(self._setting(partition, "index.interval.bytes", INDEX_INTERVAL_BYTES))

    def index_bytes(self, partition: str) -> int:
        """`segment.index.bytes` under which the partition was written."""
        return int(self._setting(partition, "segment.index.bytes", SEGMENT_INDEX_BYTES))

    def first_offset_rule(self) -> bool:
        """Whether this version's own recovery keeps first offsets (0.8 to 1.1)."""
        return tuple(int(part) for part in self.kafka.split(".")[:2]) < (2, 0)

    def _setting(self, partition: str, key: str, default: int) -> str | int:
        broker = self.info["brokers"][-1].get("settings", {})
        topic = self.topic_config(partition)
        return (
            topic.get(key)
            or broker.get(f"log.{key.replace('segment.index', 'index.size.max')}")
            or default
        )


class Segment(NamedTuple):
    """One `.log` in an unpacked state, with the settings of its topic."""

    case: Case
    state: str
    partition: Path
    log: Path

    @property
    def base_offset(self) -> int:
        return int(self.log.name.split(".")[0])

    @property
    def interval(self) -> int:
        return self.case.interval(self.partition.name)

    @property
    def index_bytes(self) -> int:
        return self.case.index_bytes(self.partition.name)

    def __repr__(self) -> str:
        return f"{self.case}:{self.state}:{self.partition.name}/{self.log.name}"


def topic_of(partition: str) -> str:
    """Topic of a partition directory's name, with or without `.<id>-delete`, `-future`, `-stray`."""
    name = partition
    if name.endswith(("-delete", "-future", "-stray")) and "." in name:
        name = name.rsplit(".", 1)[0]
    return name.rsplit("-", 1)[0]


@cache
def case(name: str) -> Case:
    return Case(REAL_LOGS / name)


@cache
def cases(*kinds: str) -> tuple[Case, ...]:
    """All cases, or those of these kinds (crash, clean-start, matrix, root, ...)."""
    found = (case(path.parent.name) for path in sorted(REAL_LOGS.glob("*/case.json")))
    return tuple(one for one in found if not kinds or one.kind in kinds)


def states(*kinds: str) -> list[tuple[Case, str]]:
    """Every (case, state) of these kinds; all kinds when none is named."""
    return [(one, state) for one in cases(*kinds) for state in one.states]


def partitions(root: Path) -> list[Path]:
    """Every directory below an unpacked root that holds a segment's `.log`, sorted."""
    return sorted({path.parent for path in root.rglob("*.log") if is_segment(path)})


def segments(one: Case, state: str, root: Path) -> Iterator[Segment]:
    """Every segment's `.log` below the unpacked root of that state, sorted by path."""
    for partition in partitions(root):
        for log in sorted(filter(is_segment, partition.glob("*.log"))):
            yield Segment(one, state, partition, log)


def is_segment(path: Path) -> bool:
    """A file that a broker takes for a segment: twenty digits and `.log`."""
    return (
        path.suffix == ".log" and len(path.stem) == 20 and path.stem.isdecimal() and path.is_file()
    )


def forget_others(root: Path) -> None:
    """Take the partitions that are not in `root` out of its checkpoints, as if they had been deleted by their broker."""
    for path in root.glob("*-offset-checkpoint"):
        entries = path.read_text().splitlines()[2:]
        there = [entry for entry in entries if (root / "-".join(entry.split()[:2])).exists()]
        path.write_text("\n".join(["0", str(len(there)), *there, ""]))


def retention_policy(one: Case) -> dict[str, Any]:
    """A policy's content with the limits that a retention case's topics had when its broker deleted."""
    topics: dict[str, Any] = {"start-offset": {"cleanup.policy": "delete", "retention.ms": -1}}
    for name, told in one.info["retention"].items():
        if isinstance(told["limits"], dict):
            topics[topic_of(name)] = {"cleanup.policy": "delete"} | told["limits"]
    return {"topics": topics}


def retention_moment(one: Case) -> int:
    """When the broker of a retention case deleted, epoch ms: the newest line of its own log, all of which lie within seconds."""
    lines = [
        line
        for told in one.info["retention"].values()
        for line in told["why"]
        if line.startswith("[")
    ]
    newest = datetime.fromisoformat(max(line[1:24].replace(",", ".") for line in lines)).replace(
        tzinfo=UTC
    )
    return round(newest.timestamp() * 1000)


class Unpacked:
    """Unpacks each state once into a folder, for all processes. What it gives back is shared: never change it."""

    def __init__(self, into: Path) -> None:
        self.into = into
        self.known: dict[tuple[str, str], Path] = {}

    def __call__(self, one: Case | str, state: str) -> Path:
        one = case(one) if isinstance(one, str) else one
        key = one.name, state
        if key not in self.known:
            self.known[key] = to = self.into / f"{one.name}.{state}"
            if not to.exists():
                making = to.with_name(f"{to.name}.{os.getpid()}")
                making.mkdir()
                one.unpack(state, making)
                with suppress(OSError):  # another process was quicker
                    making.rename(to)
        return self.known[key]

    def segments(self, *kinds: str) -> Iterator[Segment]:
        """Every segment of every state of these kinds."""
        for one, state in states(*kinds):
            yield from segments(one, state, self(one, state))

    def segments_in(self, one: Case | str, state: str) -> list[Segment]:
        """Every segment of one state."""
        one = case(one) if isinstance(one, str) else one
        return list(segments(one, state, self(one, state)))

    def segments_of(self, name: str, state: str, partition: str) -> list[Segment]:
        """The segments of one partition directory."""
        return [s for s in self.segments_in(name, state) if s.partition.name == partition]


def tree(root: Path) -> dict[str, tuple[int, int, int, int]]:
    """path -> (size, mtime_ns, mode, inode) of everything below `root`: to prove that nothing was touched."""
    seen = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            stat = path.lstat()
            seen[str(path.relative_to(root))] = (
                stat.st_size,
                stat.st_mtime_ns,
                stat.st_mode,
                stat.st_ino,
            )
    return seen
