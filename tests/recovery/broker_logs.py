"""The broker's own log lines of a golden case, per start and partition."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from tests.golden import Case

_PARTITION = re.compile(r"\[(?:LogLoader|Log|ProducerStateManager) partition=([^,\]]+)")
_RECOVERING = re.compile(r"Recovering unflushed segment (\d+)(?:.*? in log (\S+?)\.)?")
_NO_INDEX = re.compile(
    r"Could not find (?:offset )?index file corresponding to log file \S+/([^/]+)/(\d{20})\.log"
)
_CORRUPT_INDEX = re.compile(
    r"Found a corrupted index file.*?/([^/]+)/(\d{20})\.(?:log|index|timeindex)"
)
_CUT = re.compile(
    r"Corruption found in segment (\d+),? (?:of log (\S+), )?truncating to offset (\d+)"
)
_SNAPSHOT = re.compile(
    r"Loading producer state from snapshot file.*?(\d{20})\.snapshot(?:.*? for partition (\S+?)[. ])?"
)
_COMPLETED = (
    re.compile(r"Completed load of Log\(dir=\S*?/(?P<dir>[^/,]+),.*logStartOffset=(?P<start>-?\d+), logEndOffset=(?P<end>\d+)\) with (?P<n>\d+) segments"),
    re.compile(r"partition=(?P<dir>[^,]+),.*Completed load of log with (?P<n>\d+) segments, log start offset (?P<start>\d+) and log end offset (?P<end>\d+)"),
    re.compile(r"Completed load of log (?P<dir>\S+) with (?P<n>\d+) log segments, log start offset (?P<start>\d+) and log end offset (?P<end>\d+)"),
    re.compile(r"Completed load of log (?P<dir>\S+) with (?P<n>\d+) log segments and log end offset (?P<end>\d+)"),
    re.compile(r"Completed load of log (?P<dir>\S+) with log end offset (?P<end>\d+)"),
)  # fmt: skip


@dataclass
class Said:
    """What a broker logged of one partition directory while it loaded it. -1: not logged."""

    log_start: int = -1
    log_end: int = -1
    segments: int = -1
    unflushed: list[int] = field(default_factory=list)
    without_index: list[int] = field(default_factory=list)
    corrupt_index: list[int] = field(default_factory=list)
    cut: list[tuple[int, int]] = field(default_factory=list)
    """Segments that were cut, and the offsets at which they end now."""
    snapshot: int = -1
    """The producer snapshot that was loaded last, before the load was complete."""


def said_of(case: Case, start: int) -> dict[str, Said]:
    """Return what the broker said in one start (1 is the first), by partition directory."""
    text = case.text("broker-log.txt.xz")
    lines = re.split(r"^--- start \d+.*$", text, flags=re.MULTILINE)[start].splitlines()
    found: dict[str, Said] = defaultdict(Said)
    done: set[str] = set()
    for line in lines:
        _completed(line, found, done)
        _recovered(line, found, done)
    return {name: said for name, said in found.items() if name in done}


def _completed(line: str, found: dict[str, Said], done: set[str]) -> None:
    for pattern in _COMPLETED:
        m = pattern.search(line)
        if m is None:
            continue
        groups = m.groupdict()
        name = groups["dir"]
        if name not in done:
            said = found[name]
            said.log_end = int(groups["end"])
            said.log_start = int(groups.get("start") or -1)
            said.segments = int(groups.get("n") or -1)
            done.add(name)
        return


def _recovered(line: str, found: dict[str, Said], done: set[str]) -> None:
    whose = _PARTITION.search(line)
    name = whose[1] if whose else ""
    for pattern, field_name in ((_NO_INDEX, "without_index"), (_CORRUPT_INDEX, "corrupt_index")):
        m = pattern.search(line)
        if m is not None and m[1] not in done:
            getattr(found[m[1]], field_name).append(int(m[2]))
    m = _RECOVERING.search(line)
    if m is not None and (name or m[2] or "") not in done:
        found[name or m[2]].unflushed.append(int(m[1]))
    m = _CUT.search(line)
    if m is not None and (name or m[2] or "") not in done:
        found[name or m[2]].cut.append((int(m[1]), int(m[3])))
    m = _SNAPSHOT.search(line)
    if m is not None and (name or m[2] or "") not in done:
        found[name or m[2]].snapshot = int(m[1])
