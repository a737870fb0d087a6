"""Compare the files that a task opens with those that the driver listed.

Hosts see one disk through different mounts. They agree on names, sizes and modification times, to
the second at least, and on neither device nor inode. A segment that was rolled keeps its size and
its time. The active one may grow: a broker's lock is not seen through every mount. Segments may be
deleted meanwhile, so files that are missing prove nothing as long as their directory is there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import OtherVolume
from kafkats.logdir.identity import FileIdentity
from kafkats.logdir.lock import lock_state
from kafkats.plans.units import Unit

_LOG: Final = paths.SEGMENT_KINDS.index(paths.LOG)
_SECOND_NS: Final = 1_000_000_000


def check_listed(work: Iterable[object]) -> None:
    """Raise OtherVolume where no log of the units is there as listed, but another one, or none.

    `work` holds Units, or sequences with Units. Units of a running broker are not compared: looking
    at them again tells what has changed (`plans.settling`). Nothing is written.
    """
    by_log_dir: dict[str, list[Unit]] = {}
    for unit in _segments(work):
        by_log_dir.setdefault(unit.log_dir, []).append(unit)
    for log_dir, units in by_log_dir.items():
        reason = _not_listed(units)
        if reason and not lock_state(Path(log_dir)).held:
            raise OtherVolume(
                f"on host {socket.gethostname()} none of {len(units)} listed logs is as listed:"
                f" {reason}: another volume is mounted there, or it was changed meanwhile",
                path=log_dir,
            )


def _segments(work: Iterable[object]) -> Iterator[Unit]:
    for part in work:
        if isinstance(part, Unit):
            if part.base_offset >= 0 and not part.live and part.files[_LOG]:
                yield part
        elif isinstance(part, tuple | list) and part and isinstance(part[0], Unit | tuple):
            yield from _segments(part)


def _not_listed(units: Iterable[Unit]) -> str:
    """Return how the first log differs, "" if one is as listed, or has only been deleted."""
    differs, missing, is_there = "", "", False
    for unit in units:
        listed = unit.files[_LOG]
        assert listed is not None
        try:
            now = os.lstat(unit.log)
        except OSError:
            missing = missing or f"{unit.partition_dir} is missing"
            is_there = is_there or unit.directory.is_dir()
            continue
        if _is_listed(listed, now, active=unit.active):
            return ""
        differs = differs or (
            f"{unit.partition_dir}/{unit.log.name} has {now.st_size} bytes of"
            f" {now.st_mtime_ns // _SECOND_NS} s, listed were {listed.size} of"
            f" {listed.mtime_ns // _SECOND_NS} s"
        )
    return differs or ("" if is_there else missing)


def _is_listed(listed: FileIdentity, now: os.stat_result, *, active: bool) -> bool:
    size, second = now.st_size, now.st_mtime_ns // _SECOND_NS
    was = listed.mtime_ns // _SECOND_NS
    if active:
        return size >= listed.size and second >= was
    return size == listed.size and second == was
