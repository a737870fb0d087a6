"""disks.json beside a plan's report: how full the file systems of its log directories were."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import KafkatsError, storage
from kafkats.plans.files import read_json, write_json

NAME: Final = "disks.json"


class Disk(NamedTuple):
    """The size of a file system, and what of it an unprivileged process may still write."""

    bytes: int
    free_bytes: int


def keep_disks(log_dirs: Iterable[Path], folder: Path) -> None:
    """Write the sizes of the file systems into the folder of a report. Raises StorageFailed."""
    found = {}
    for log_dir in log_dirs:
        with storage(log_dir, "asking for its free space"):
            usage = shutil.disk_usage(log_dir)
        found[str(log_dir)] = {"bytes": usage.total, "free_bytes": usage.free}
    write_json(folder / NAME, found)


def read_disks(folder: Path) -> dict[str, Disk]:
    """Return {log directory: Disk}; nothing where there is no readable file, as in reports of
    earlier versions.
    """
    found = {}
    try:
        known = read_json(folder / NAME)
    except KafkatsError:
        return {}
    for log_dir, one in known.items():
        if isinstance(one, dict):
            size, free = one.get("bytes"), one.get("free_bytes")
            if isinstance(size, int) and isinstance(free, int) and 0 <= free <= size:
                found[log_dir] = Disk(size, free)
    return found
