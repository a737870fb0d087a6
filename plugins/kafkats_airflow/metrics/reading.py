"""Reads the folder of all runs for metrics: the newest figures of each log directory and DAG.

A figure of a log directory comes from the newest run that looked at all topics and has it. Every
file is parsed once per change (kafkats_airflow.reading.files).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from kafkats_airflow.reading.files import Unreadable, cached, is_file, json_of, state_of
from kafkats_airflow.reading.runs import Found, overview_of, run_in, runs_in
from kafkats_airflow.runs.overview import Overview, Reclaimable, Volume

STATES: Final = ("read", "older", "unreadable")
"""Reports by whether their overview could be read; older ones have none."""


class Partition(NamedTuple):
    """A partition directory in a retention's board.json. Bytes are of all files of its segments."""

    name: str
    bytes: int
    reclaimable_bytes: int
    pinned_bytes: int


@dataclass
class Facts:
    """A log directory. None: no report has it. `undo` are (end of the RUN in epoch ms, bytes)."""

    written_ms: int = 0
    seen: Volume | None = None
    magic_bytes: tuple[int, int, int] | None = None
    reclaimable: Reclaimable | None = None
    board: Path | None = None
    undo: list[tuple[int, int]] = field(default_factory=list)


class Snapshot(NamedTuple):
    """The folder of all runs at one moment. `readable` is false if it cannot be listed."""

    readable: bool
    reports: Mapping[str, int]
    dags: Mapping[str, Overview]
    volumes: Mapping[str, Facts]


def snapshot(folder: Path) -> Snapshot:
    """Return the newest figures of the folder of all runs. Never raises for what is in it."""
    reports: Counter[str] = Counter(dict.fromkeys(STATES, 0))
    try:
        found = runs_in(folder, _names(folder))
    except OSError:
        return Snapshot(False, reports, {}, {})
    read: list[tuple[Found, Overview]] = []
    for one in found:
        overview = overview_of(one.folder)
        if isinstance(overview, Overview):
            reports["read"] += 1
            read.append((one, overview))
        elif isinstance(overview, Unreadable):
            reports["unreadable"] += 1
        elif state_of(one.folder / "report.json") is not None:
            reports["older"] += 1
    dags: dict[str, Overview] = {}
    volumes: dict[str, Facts] = {}
    for one, overview in sorted(read, key=lambda pair: -pair[1].written_ms):
        dags.setdefault(overview.dag_id, overview)
        _add(volumes, one, overview)
    return Snapshot(True, reports, dags, volumes)


def _names(folder: Path) -> list[str]:
    with os.scandir(folder) as listed:
        return sorted(one.name for one in listed if one.is_dir(follow_symlinks=False))


def _add(volumes: dict[str, Facts], found: Found, overview: Overview) -> None:
    for one in overview.volumes if overview.topics == "*" else ():
        facts = volumes.setdefault(one.log_dir, Facts())
        facts.written_ms = max(facts.written_ms, overview.written_ms)
        if facts.seen is None and one.kinds is not None:
            facts.seen = one
        if facts.magic_bytes is None and one.is_whole:
            facts.magic_bytes = one.magic_bytes
        if facts.reclaimable is None and one.reclaimable is not None:
            facts.reclaimable, facts.board = one.reclaimable, found.folder / "board.json"
    for undo in overview.undo:
        run = run_in(found.folder, undo.run)
        if is_file(run / "purge.json") or is_file(run / "undone.json"):
            continue
        for log_dir, size in undo.bytes.items():
            if size:
                volumes.setdefault(log_dir, Facts()).undo.append((undo.ended_ms, size))


def partitions(facts: Facts, log_dir: str) -> list[Partition]:
    """Return the partitions of a log directory, from the newest retention; none without one."""
    board = cached(facts.board, parse_board) if facts.board else None
    return board.get(log_dir, []) if isinstance(board, dict) else []


def parse_board(path: Path) -> dict[str, list[Partition]]:
    """Parse board.json, by log directory. Raises ValueError, KeyError, TypeError, OSError."""
    found: dict[str, list[Partition]] = {}
    rows = json_of(path)["partitions"]
    if not isinstance(rows, list):
        raise ValueError("not as it was written: partitions")
    for row in rows:
        sizes = (int(row[name]) for name in ("bytes", "now_bytes", "pinned_bytes"))
        one = Partition(str(row["partition_dir"]), *sizes)
        found.setdefault(str(row["log_dir"]), []).append(one)
    return found
