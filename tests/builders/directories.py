"""Log directories of real brokers: unpacked to be changed, and what is in them."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from kafkats import errors
from kafkats.findings import Finding
from kafkats.logdir.partition import PartitionDir, scan_partition
from kafkats.logdir.root import LogDir, list_root, read_root
from tests.golden import case


def unpacked(name: str, to: Path) -> Path:
    """Unpack the last state of a golden case into `to`/data."""
    root = to / "data"
    root.mkdir()
    return case(name).unpack(case(name).states[-1], root)


def contents(root: Path, but: Collection[str] = (".lock",)) -> dict[str, tuple[bytes, int, int]]:
    """Return bytes, mtime in ns and mode of every file, by its path below `root`."""
    return {
        str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_mode)
        for p in sorted(root.rglob("*"))
        if p.is_file() and p.name not in but
    }


def last_log(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def open_below(folder: Path) -> int:
    """Return how many files below `folder` this process has open."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own
            found += Path(os.readlink(f"/proc/self/fd/{fd}")).is_relative_to(folder)
    return found


def another_volume(root: Path, number: int = 1) -> None:
    """Give a copy a directory id of its own: two log directories with one identity are refused."""
    meta = root / "meta.properties"
    lines = meta.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id=")]
    meta.write_text("\n".join([*kept, f"directory.id={number:022d}", ""]))


def scan_root(path: str | os.PathLike[str]) -> LogDir:
    """List the root at `path` and every partition in it.

    A partition of 100 000 segments takes 100 MB of memory. To hold one partition at a time use
    `read_root`, `list_root` and `scan_partition`. Raises Vanished, or another StorageFailed, when
    the root itself cannot be listed.
    """
    names = list_root(path)
    root = read_root(path, names)
    partitions: list[PartitionDir] = []
    findings = list(root.findings)
    for name in names.partitions:
        try:
            partitions.append(scan_partition(root.path / name))
        except errors.Vanished:
            findings.append(Finding("vanished", name, "was listed, and was gone a moment later"))
        except errors.StorageFailed as e:
            findings.append(Finding("unreadable", name, e.reason))
    return LogDir(
        root.path,
        root.meta,
        root.checkpoints,
        root.clean_shutdown,
        tuple(partitions),
        tuple(sorted(findings)),
    )
