"""Simulate the producer snapshots of a start: which are deleted, loaded and written.

The state itself is not replayed: names and readability of the snapshots, and the ends of the
segments, decide everything here. Source: ProducerStateManager and UnifiedLog.rebuildProducerState
of Kafka 2.8 to 4.3. Brokers up to 2.7 keep snapshots at no segment's base, and delete those below
the recovery point with their next checkpoint, which is after the start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Loaded(NamedTuple):
    """The producer state at the end of a load: the snapshot used, and where the replay began."""

    snapshot_offset: int
    replay_from: int
    """-1: nothing is replayed."""
    emptied: bool = False
    """After a clean stop without any snapshot: no state is rebuilt at all."""


class Snapshots:
    """The offsets of a partition's `.snapshot` files while it loads."""

    def __init__(
        self,
        offsets: Sequence[int],
        readable: Callable[[int], bool],
        replayed: Callable[[int], None],
        *,
        kept: bool = True,
    ) -> None:
        """`readable` tells whether the file of an offset that was there before can be loaded.

        `replayed` is called with the base offset of each segment from which batches are replayed.
        `kept`: the format of the topic has producer state (magic 2).
        """
        self.offsets = set(offsets)
        self._replayed = replayed
        self._last = 0
        """The offset of the newest snapshot that this load read or wrote."""
        self._readable = readable
        self._kept = kept
        self._written: set[int] = set()

    def rebuild(
        self, bases: Sequence[int], log_start: int, end: int, *, clean: bool = False
    ) -> Loaded:
        """Load the state up to `end` from the segments at `bases`, which are sorted."""
        due = {*bases[-2:], end}
        if not self._kept or (clean and not self.offsets):
            self._last = 0
            for offset in sorted(due):
                self._take(offset)
            return Loaded(-1, -1, emptied=self._kept)
        self.offsets = {o for o in self.offsets if log_start < o <= end}
        at = self._newest(log_start)
        self._last = loaded = begin = at
        if end <= at:
            return Loaded(loaded if loaded in self.offsets else -1, -1)
        for base in bases[max(bisect_right(bases, at) - 1, 0) : bisect_left(bases, end)]:
            at = max(base, at, log_start)
            if base in due:
                self._take(at)
            self._replayed(base)
        self._take(end)
        return Loaded(loaded if loaded in self.offsets else -1, begin)

    def recovered(self, producers_end: int) -> None:
        """Take the snapshot after the recovery of a segment whose last batch of magic 2 ends there.

        Messages of magic 0 and 1 behind it do not move the state's offset (LogSegment.recover).
        """
        self._take(producers_end)

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Keep the snapshots at segment bases, and the newest one if it lies above all of them."""
        strays = self.offsets.difference(bases)
        kept = {max(strays)} if strays and (not bases or max(strays) >= max(bases)) else set()
        self.offsets -= strays - kept

    def _newest(self, log_start: int) -> int:
        """Return the offset of the newest snapshot that can be loaded, and delete newer ones."""
        for offset in sorted(self.offsets, reverse=True):
            if offset in self._written or self._readable(offset):
                return offset
            self.offsets.discard(offset)
        return log_start

    def _take(self, offset: int) -> None:
        """Write a snapshot, unless it is not newer than the last one."""
        if offset > self._last:
            self.offsets.add(offset)
            self._written.add(offset)
            self._last = offset
