"""The untouched directories of a campaign: every golden log directory, cut into roots of one and of two partitions.

A small root is quick to read, so that one input costs milliseconds. It has the files of its log directory, with the
checkpoints cut to its own partitions: nothing in it contradicts anything else.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.golden import Unpacked, states

PARTITIONS: Final = 2
"""How many partition directories a small root has."""
CHECKPOINTS: Final = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
_KINDS: Final = {
    ".log": "log",
    ".index": "index",
    ".timeindex": "timeindex",
    ".txnindex": "txnindex",
    ".snapshot": "snapshot",
}
_NAMES: Final = {
    "leader-epoch-checkpoint": "leader epochs",
    "recovery-point-offset-checkpoint": "recovery point",
    "replication-offset-checkpoint": "high watermark",
    "log-start-offset-checkpoint": "log start",
    "cleaner-offset-checkpoint": "cleaner checkpoint",
    "meta.properties": "meta.properties",
    ".kafka_cleanshutdown": "clean-shutdown marker",
    "partition.metadata": "partition.metadata",
}
_PARTITION: Final = re.compile(r"(.+)-(\d+)(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
_SEGMENT: Final = re.compile(r"\d{20}")


POLICY: Final = """\
topics:
  "*": {cleanup.policy: delete, retention.ms: 86400000}
"""
"""Retention deletes only where a policy file names a limit."""


class Root(NamedTuple):
    """A small log directory. `files` and `partitions` are paths below it."""

    name: str
    path: Path
    files: tuple[str, ...]
    partitions: tuple[str, ...]

    @property
    def state(self) -> str:
        """The golden directory and its state, such as `crash-4.3.1:before`."""
        return ":".join(self.name.split(":")[:2])


def kind_of(path: str) -> str | None:
    """What kind of file a path of a root is; None for one that no campaign changes."""
    name = path.rpartition("/")[2]
    if "/" in path and _SEGMENT.fullmatch(Path(name).stem):
        return _KINDS.get(Path(name).suffix)
    return _NAMES.get(name)


@cache
def corpus(base: Path) -> dict[str, Root]:
    """Every small root, by name; made below `base` when it is not there."""
    base.mkdir(parents=True, exist_ok=True)
    policy_of(base).write_text(POLICY, encoding="utf-8")
    unpacked = Unpacked(base)
    roots = {}
    for one, state in states():
        for log_dir in log_dirs(unpacked(one, state)):
            disk = log_dir.name if log_dir.name.startswith("disk") else ""
            for part, partitions in _parts(_partitions(log_dir)):
                name = f"{one.name}:{state}:{disk}{part}"
                roots[name] = _root(
                    name, log_dir, partitions, base / "roots" / name.replace(":", ".")
                )
    return roots


def base_folder() -> Path:
    """Where untouched directories and workers live: in memory where there is room."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    return place / f"kafkats-campaign-{os.getuid()}"


def policy_of(base: Path) -> Path:
    """The policy file of a campaign at `base`."""
    return base / "policy.yaml"


def log_dirs(path: Path) -> list[Path]:
    """The log directories at or directly below `path`."""
    if _partitions(path):
        return [path]
    return [child for child in sorted(path.iterdir()) if child.is_dir() and _partitions(child)]


def _partitions(log_dir: Path) -> list[str]:
    return sorted(p.name for p in log_dir.iterdir() if p.is_dir() and _PARTITION.fullmatch(p.name))


def _parts(names: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Two partitions each, named by a number; and each partition alone, named after it."""
    for begin in range(0, len(names), PARTITIONS):
        yield str(begin // PARTITIONS), tuple(names[begin : begin + PARTITIONS])
    for name in names:
        yield f":{name}", (name,)


def _root(name: str, log_dir: Path, partitions: tuple[str, ...], to: Path) -> Root:
    if not to.exists():
        making = to.with_name(f"{to.name}~{os.getpid()}")
        making.mkdir(parents=True)
        for file in sorted(p for p in log_dir.iterdir() if p.is_file()):
            if file.name in CHECKPOINTS:
                cut_checkpoint(file, making / file.name, partitions)
            else:
                os.link(file, making / file.name)
        for partition in partitions:
            link_tree(log_dir / partition, making / partition)
        making.rename(to)
    files = tuple(
        sorted(str(p.relative_to(to)) for p in to.rglob("*") if p.is_file() and not p.is_symlink())
    )
    return Root(name, to, files, partitions)


def link_tree(source: Path, to: Path) -> None:
    """The directory `source` once more at `to`, its files as hard links: nobody may write into one."""
    for folder, _, names in os.walk(source):
        there = to / Path(folder).relative_to(source)
        there.mkdir()
        for name in names:
            os.link(Path(folder, name), there / name, follow_symlinks=False)


def cut_checkpoint(source: Path, to: Path, partitions: tuple[str, ...]) -> None:
    """A checkpoint with the lines of these partitions only; as it is where it cannot be read."""
    lines = source.read_text().splitlines()
    if len(lines) < 2:
        os.link(source, to)
        return
    wanted = [line for line in lines[2:] if "-".join(line.split()[:2]) in partitions]
    to.write_text("\n".join([lines[0], str(len(wanted)), *wanted]) + "\n")
    stat = source.stat()
    os.utime(to, ns=(stat.st_atime_ns, stat.st_mtime_ns))
