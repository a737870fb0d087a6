"""One partition as a broker sees it.

Files of its segments are opened on first use and then kept.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import CorruptBatch, CorruptIndex, Vanished, storage
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.logdir.checkpoints import EpochStart, read_epochs
from kafkats.search.segment import Segment
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.search import LOWEST, Hit

__all__ = ["Partition", "PartitionUnit", "Segment", "open_unit"]

_KEPT_OPEN: Final = 64
"""The number of segments with open files at a time."""


class Partition:
    """The partition directory at `path`, as a context manager. Only names are read at first.

    `log_start_offset` and `high_watermark` come from the root's checkpoints. `clean` tells that the
    root has a clean-shutdown marker: every whole slot of an index is then an entry, as for a broker
    that starts on it. `live`: a broker may truncate files, so none is memory-mapped. `searchable`
    False: the topic's message.format.version is below 0.10, for which 0.10 to 3.x refuse to search
    by time. `log_end_offset` is the one that a running broker has in memory, -1: the log's own.
    Raises Vanished, StorageFailed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        log_start_offset: int = 0,
        high_watermark: int | None = None,
        clean: bool = False,
        live: bool = False,
        searchable: bool = True,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        log_end_offset: int = -1,
    ) -> None:
        with storage(path, "listing the partition directory"):
            names = frozenset(os.listdir(path))  # noqa: PTH208 - names are all that is wanted
        self.path = os.fspath(path)
        self.names = names
        self.clean, self.live, self.searchable = clean, live, searchable
        self.high_watermark = high_watermark
        self.index_interval_bytes = index_interval_bytes
        self.known_end: Final = log_end_offset
        bases = sorted(
            int(name[:20])
            for name in names
            if name.endswith(paths.LOG) and name[:20].isdecimal() and len(name) == 24
        )
        self.segments: Final = tuple(
            Segment(self, base, following)
            for base, following in zip(bases, [*bases[1:], -1], strict=False)
        )
        self.active_offset: Final = bases[-1] if bases else -1
        self.log_start_offset: Final = max(log_start_offset, bases[0] if bases else 0)
        self._open: OrderedDict[int, Segment] = OrderedDict()

    def __enter__(self) -> Partition:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for segment in self._open.values():
            segment.close()
        self._open.clear()

    def keep(self, segment: Segment) -> None:
        """Note that the segment opens files. Close those of the oldest if there are too many."""
        self._open[segment.base_offset] = segment
        self._open.move_to_end(segment.base_offset)
        if len(self._open) > _KEPT_OPEN:
            self._open.popitem(last=False)[1].close()

    @cached_property
    def epochs(self) -> list[EpochStart]:
        """The entries of the leader-epoch-checkpoint, [] for a missing file. Raises CorruptFile."""
        try:
            return read_epochs(Path(self.path, paths.LEADER_EPOCH))
        except Vanished:
            return []

    @cached_property
    def first_record(self) -> Hit | None:
        """The first record at or above the log start, see record_from."""
        return self.record_from(self.log_start_offset)

    def record_from(self, offset: int) -> Hit | None:
        """Return the first record at or above `offset` and the log start, None when there is none.

        It need not have a timestamp.
        """
        start = max(offset, self.log_start_offset)
        for segment in self.segments:
            if 0 <= segment.next_base_offset <= start:
                continue
            position = segment.sound_position(start) if start > segment.base_offset else 0
            try:
                record = segment.first_record(position, LOWEST, start_offset=start)
            except CorruptIndex:
                record = segment.first_record(0, LOWEST, start_offset=start)
            if record is not None:
                return record
        return None

    @cached_property
    def log_end_offset(self) -> int:
        """The offset of the next record, from the last batch of the active segment."""
        if not self.segments:
            return self.log_start_offset
        active = self.segments[-1]
        facts = active.walked_from(2**62)
        _check_end(active, facts)
        end = facts.next_offset if facts.batches else active.base_offset
        return max(end, self.log_start_offset)


def _check_end(segment: Segment, facts: SegmentFacts) -> None:
    quiet = (None, StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
    if facts.stop not in quiet:
        raise CorruptBatch(
            f"the log ends in a batch with {facts.stop}",
            path=segment.log.path,
            position=facts.stop_position,
        )


@dataclass(frozen=True)
class PartitionUnit:
    """One partition to search, from names and checkpoints alone. It is small and can be pickled.

    Without a `partition_dir` it stands for the files of a log directory that cannot be read.
    """

    log_dir: str
    partition_dir: str
    log_start_offset: int = 0
    high_watermark: int | None = None
    clean: bool = False
    live: bool = False
    hidden: str = ""
    """Why files that a broker reads are hidden from us: then there is no answer."""

    @property
    def path(self) -> Path:
        return Path(self.log_dir, self.partition_dir)


def open_unit(
    unit: PartitionUnit,
    *,
    searchable: bool = True,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> Partition:
    """Return the partition of a unit."""
    return Partition(
        unit.path,
        log_start_offset=unit.log_start_offset,
        high_watermark=unit.high_watermark,
        clean=unit.clean,
        live=unit.live,
        searchable=searchable,
        index_interval_bytes=index_interval_bytes,
    )
