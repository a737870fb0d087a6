"""Write the cleaned segment of a group, and put it in the place of the old ones.

The files are written with the suffix `.cleaned`, renamed to `.swap` when they are whole, and get
their names when the old ones are gone, as by Log.replaceSegments. The mtime of all files is that of
the last old log: retention and tombstones go by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats_model.broker import files
from kafkats_model.broker.active import ActiveSegment
from kafkats_model.broker.generation import Generation

_KINDS: Final = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX)


@dataclass
class CleanedSegment(ActiveSegment):
    """The new segment, while it is written."""

    suffix: str = ".cleaned"

    def path(self, kind: str) -> Path:
        """Return the path of one of its files."""
        return self.directory / f"{paths.segment_file(self.base_offset, kind)}{self.suffix}"


def create_cleaned(
    directory: Path, base: int, generation: Generation, now_ms: int
) -> CleanedSegment:
    """Create the empty files. Those of a cleaning that did not end go. Raises StorageFailed."""
    made = CleanedSegment(directory, base, generation, now_ms)
    for kind in _KINDS:
        files.delete(made.path(kind))
    for kind in _KINDS[: 3 if generation.roll.relative else 2]:
        files.write(made.path(kind), b"", now_ms)
    return made


def replace(cleaned: CleanedSegment, old: Sequence[int], txn_index: bytes, mtime_ms: int) -> None:
    """Put the cleaned segment in the place of those with the base offsets `old`.

    `txn_index` has the entries of its aborted transactions. Raises StorageFailed.
    """
    if txn_index:
        files.write(cleaned.path(paths.TXN_INDEX), txn_index, mtime_ms)
    kinds = [kind for kind in _KINDS if cleaned.path(kind).exists()]
    directory, base = cleaned.directory, cleaned.base_offset
    names = {kind: paths.segment_file(base, kind) for kind in kinds}
    for kind in kinds:
        files.rename(cleaned.path(kind), directory / f"{names[kind]}.swap", mtime_ms)
    for one in old:
        gone = one != base and cleaned.generation.cleaning.deletes_snapshots
        for kind in (*_KINDS, paths.SNAPSHOT) if gone else _KINDS:
            files.delete(directory / paths.segment_file(one, kind))
    for kind in kinds:
        files.rename(directory / f"{names[kind]}.swap", directory / names[kind], mtime_ms)
