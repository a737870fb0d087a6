"""The processors and the memory that this process may use.

A container on a large machine sees all of its processors. Its control groups (cgroup v2) say how
much of them it gets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_MEMORY: Final = Path("/proc/meminfo")
_UNLIMITED: Final = "max"


def processors() -> int:
    """Return the number of processors that this process may use, at least 1: those that it may run
    on, or fewer by the quota of a control group (cpu.max), rounded up.
    """
    found = len(os.sched_getaffinity(0))
    for quota, period in _limits("cpu.max"):
        found = min(found, max(-(-int(quota) // int(period)), 1))
    return found


def memory_bytes() -> int | None:
    """Return the least limit of memory of this process's control groups (memory.max), None if there
    is none.
    """
    return min((int(limit) for (limit,) in _limits("memory.max")), default=None)


def free_bytes() -> int:
    """Return the memory that the kernel can give to this process, 0 if it does not say."""
    free = 0
    with suppress(OSError, ValueError):
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    return min(free, memory_bytes() or free)


def _limits(name: str) -> Iterator[list[str]]:
    """Yield the words of a file of limits, of the own group and of those above it."""
    try:
        own = next(line[3:] for line in _OWN.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):  # no cgroup v2
        return
    group = _GROUPS / own.lstrip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(_GROUPS):
            return
        try:
            words = (folder / name).read_text().split()
        except OSError:  # the root has none
            continue
        if words and words[0] != _UNLIMITED:
            yield words
