"""Compare the leader epochs in the batches of a log with `leader-epoch-checkpoint` and each other.

No checksum covers a batch's leader epoch. The checkpoint gives the first offset of every epoch, and
a batch has the epoch of the last entry at or below its base offset. Three kinds of batches are not
compared: those below the first entry, those of older formats, and those converted by the cleaner
(-1). Source: LeaderEpochFileCache, UnifiedLog.append of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafkats import paths
from kafkats.findings import Finding
from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.segment.headers import Rows


class EpochCheck:
    """Checks the batches of a partition in order, segment by segment."""

    def __init__(self, epochs: Sequence[EpochStart], flushed_to: int) -> None:
        """From offset `flushed_to` on the checkpoint may lack epochs that the log has."""
        self._epochs = np.array([e.epoch for e in epochs], np.int64)
        self._starts = np.array([e.start_offset for e in epochs], np.int64)
        self._flushed_to = flushed_to
        self._highest = -1
        self._wrong = 0
        self._first: tuple[int, int, int, str] | None = None

    def add(self, rows: Rows) -> None:
        """Check the next batches of the segment."""
        rows = rows[rows[:, k.LEADER_EPOCH] >= 0]
        if not len(rows):
            return
        epoch, offset = rows[:, k.LEADER_EPOCH], rows[:, k.FIRST_OFFSET]
        highest = np.maximum.accumulate(np.append(self._highest, epoch))
        differs, entry = self._against_checkpoint(epoch, offset)
        # with an entry, epochs may fall: a new cluster counts from 0
        falls = (epoch < highest[:-1]) & (entry < 0)
        wrong = np.flatnonzero(falls | differs)
        self._highest = int(highest[-1])
        self._wrong += len(wrong)
        if len(wrong) and self._first is None:
            at = int(wrong[0])
            if differs[at]:
                e = int(entry[at])
                says = (
                    f"{paths.LEADER_EPOCH} says {self._epochs[e]} from offset {self._starts[e]} on"
                )
            else:
                says = f"a batch before it has {highest[at]}"
            self._first = int(rows[at, k.AT]), int(offset[at]), int(epoch[at]), says

    def _against_checkpoint(
        self, epoch: np.ndarray, offset: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        entry = np.searchsorted(self._starts, offset, side="right") - 1
        known = entry >= 0
        if not len(self._epochs):
            return known, entry
        newer = (offset >= self._flushed_to) & (epoch > self._epochs[-1])
        return known & (epoch != self._epochs[entry]) & ~newer, entry

    def findings(self, log: str) -> Iterator[Finding]:
        """Yield the findings of the segment with the .log `log`, and begin the next segment."""
        if self._first is not None:
            position, offset, epoch, says = self._first
            more = f" (and {self._wrong - 1} more)" if self._wrong > 1 else ""
            reason = (
                f"the batch at byte {position}{more}, offset {offset}, has leader epoch"
                f" {epoch}; {says}"
            )
            yield Finding("wrong-epoch", log, reason, position, found=str(epoch))
        self._wrong, self._first = 0, None
