"""Whether some file of a directory says that records are missing: an independent, simple look at the evidence.

A class of losses that nothing shows (`tools.campaign.classes`) is refused for a directory in which one of these does.
It uses none of what verify uses.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final, NamedTuple

METADATA: Final = "__cluster_metadata-0"
"""Brokers recover it from offset 0 at every start, and keep no marks of it."""
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_LIVE: Final = re.compile(r"(.+)-(\d+)")
_NEWEST_SNAPSHOT: Final = re.compile(r"(\d{20})\.snapshot")


class Ends(NamedTuple):
    """First base offset and log end offset of a partition directory, by its logs alone."""

    first: int
    end: int


def contradictions(root: Path) -> list[str]:
    """Which file says of which partition that it lacks something; one text each."""
    found = []
    clean = (root / ".kafka_cleanshutdown").exists()
    marks = {name: _offsets(root / f"{name}-checkpoint") for name in _MARKS}
    for directory in sorted(p for p in root.iterdir() if p.is_dir() and _LIVE.fullmatch(p.name)):
        ends = None if directory.name == METADATA else _ends(directory)
        if ends is None:
            continue
        for name in _MARKS if clean else ():
            if marks[name].get(directory.name, -1) > ends.end:
                found.append(f"{directory.name}: {name} lies above the log end {ends.end}")
        if marks["log-start-offset"].get(directory.name, ends.first) < ends.first:
            found.append(
                f"{directory.name}: log-start-offset lies below the first segment {ends.first}"
            )
        epochs = _epoch_starts(directory / "leader-epoch-checkpoint")
        if clean and epochs and max(epochs) > ends.end:
            found.append(f"{directory.name}: an epoch begins above the log end {ends.end}")
        snapshots = [
            int(m[1]) for p in directory.iterdir() if (m := _NEWEST_SNAPSHOT.fullmatch(p.name))
        ]
        if clean and snapshots and max(snapshots) > ends.end:
            found.append(f"{directory.name}: a producer snapshot lies above the log end {ends.end}")
    if clean:
        gone = set(marks["recovery-point-offset"]) - {p.name for p in root.iterdir() if p.is_dir()}
        found += [
            f"{name}: recovery-point-offset names it, and it is gone"
            for name in sorted(gone)
            if marks["recovery-point-offset"][name] > 0
        ]
    return found


_MARKS: Final = ("recovery-point-offset", "replication-offset", "log-start-offset")


def _offsets(path: Path) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines()[2:]:
        words = line.split()
        if len(words) == 3 and words[2].isdigit():
            found[f"{words[0]}-{words[1]}"] = int(words[2])
    return found


def _epoch_starts(path: Path) -> list[int]:
    words = [line.split() for line in _text(path).splitlines()[2:]]
    return [int(two[1]) for two in words if len(two) == 2 and two[1].isdigit()]


def _ends(directory: Path) -> Ends | None:
    logs = {
        int(m[1]): p
        for p in directory.iterdir()
        if (m := _SEGMENT.fullmatch(p.name)) and p.is_file()
    }
    if not logs:
        return None
    first, last = min(logs), max(logs)
    return Ends(first, max(last, _last_offset(logs[last]) + 1))


def _last_offset(log: Path) -> int:
    """Of the last whole frame; -1 without one."""
    try:
        data = log.read_bytes()
    except OSError:
        return -1
    at, found = 0, -1
    while len(data) - at >= 18:
        base, size = struct.unpack_from(">qi", data, at)
        if size < 14 or at + 12 + size > len(data):
            break
        delta = (
            struct.unpack_from(">i", data, at + 23)[0] if data[at + 16] == 2 and size >= 49 else 0
        )
        found = base + delta
        at += 12 + size
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
    except OSError:
        return ""
