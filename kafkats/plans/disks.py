"""disks.json beside a plan's report: how full the file systems of its log directories were."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from kafkats.errors import KafkatsError, storage
from kafkats.plans.files import read_json, typed, write_json
from kafkats.plans.plan import AnyPlan
from kafkats.plans.rows import grouped

NAME: Final = "disks.json"


class Disk(NamedTuple):
    """The size of a file system, and what of it an unprivileged process may still write."""

    bytes: int
    free_bytes: int


class Room(NamedTuple):
    """The bytes that an apply writes on the file system of a log directory, and those free there.

    `free_bytes` is -1 where the directory is not seen from here.
    """

    log_dir: str
    needed_bytes: int
    free_bytes: int

    @property
    def short(self) -> bool:
        return 0 <= self.free_bytes < self.needed_bytes


def room_of(plan: AnyPlan) -> list[Room]:
    """Return the space that a plan needs in each log directory beside its old files.

    What a log is cut by in place is copied first, but for zeros at its end.
    """
    written: Counter[str] = Counter()
    cut: Counter[str] = Counter()
    for items in plan.tables(["action", "log_dir", "before", "after_bytes"]):
        written.update(_written(items))
        cut.update(_tails(items))
    most = plan.header["totals"].get("cut_bytes", 0)
    return [
        Room(log_dir, max(size, 0) + min(cut[log_dir], most), _free(log_dir))
        for log_dir, size in written.items()
    ]


def _free(log_dir: str) -> int:
    try:
        return shutil.disk_usage(log_dir).free
    except (OSError, ValueError):
        return -1


def _written(items: pa.Table) -> dict[str, int]:
    """Return the bytes of new files by log directory."""
    new = items.filter(pc.is_in(items["action"], pa.array(["add", "replace"])))
    sums = grouped(new.select(["log_dir", "after_bytes"]), ["log_dir"], [("after_bytes", "sum")])
    return {row["log_dir"]: row["after_bytes_sum"] for row in sums.to_pylist()}


def _tails(items: pa.Table) -> Counter[str]:
    """Return the bytes of cut tails by log directory."""
    cut = items.filter(pc.equal(items["action"], "truncate"))
    tails: Counter[str] = Counter()
    for row in cut.to_pylist():
        tails[row["log_dir"]] += row["before"]["size"] - row["after_bytes"]
    return tails


def keep_disks(log_dirs: Iterable[Path], folder: Path) -> None:
    """Write the sizes of the file systems into the folder of a report. Raises StorageFailed."""
    found = {}
    for log_dir in log_dirs:
        with storage(log_dir, "asking for its free space"):
            usage = shutil.disk_usage(log_dir)
        found[str(log_dir)] = Disk(usage.total, usage.free)._asdict()
    write_json(folder / NAME, found)


def read_disks(folder: Path) -> dict[str, Disk]:
    """Return {log directory: Disk}; nothing where there is no readable file, as in reports of
    earlier versions.
    """
    path = folder / NAME
    try:
        known = typed(read_json(path), TypeAdapter(dict[str, Disk]), path)
    except KafkatsError:
        return {}
    return {name: disk for name, disk in known.items() if 0 <= disk.free_bytes <= disk.bytes}
