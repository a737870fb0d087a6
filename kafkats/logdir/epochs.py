"""The leader epochs of a partition, as a broker assigns and cuts them.

Source: LeaderEpochFileCache of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import numpy as np

from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.segment.headers import Rows


class ReplayedEpochs:
    """The leader epochs of a log, from its checkpoint and from batches.

    A broker that recovers a log adds epochs that its batches begin above those of the checkpoint,
    and believes the entries of the checkpoint. Here a batch that contradicts them is believed.
    """

    def __init__(self, checkpoint: Sequence[EpochStart]) -> None:
        """`checkpoint` are its entries, in order."""
        self._checkpoint = list(checkpoint)
        self._added = list(checkpoint)
        """As a broker has them."""
        self._own: list[EpochStart] = []
        """The entries below the first batch, and what the batches begin."""
        self._highest = -1
        self._differ = False

    def add(self, rows: Rows) -> None:
        """Add batches, in order."""
        rows = rows[rows[:, k.LEADER_EPOCH] >= 0]
        if not len(rows):
            return
        if self._highest < 0:
            epoch, offset = int(rows[0, k.LEADER_EPOCH]), int(rows[0, k.FIRST_OFFSET])
            self._own = [
                e for e in self._checkpoint if e.start_offset < offset and e.epoch <= epoch
            ]
        self._differ = self._differ or self._contradict(rows)
        for begun in epochs_begun(rows, _latest(self._added)):
            self._added = assigned(self._added, begun)
        for begun in epochs_begun(rows, _latest(self._own)):
            self._own = assigned(self._own, begun)
        self._highest = max(self._highest, int(rows[:, k.LEADER_EPOCH].max()))

    def until(self, log_end: int) -> tuple[list[EpochStart], bool]:
        """Return the entries up to a log end, and whether the checkpoint contradicts the log."""
        entries = self._added
        if self._differ:
            behind = [e for e in self._checkpoint if e.start_offset == log_end]
            entries = [*self._own, *(e for e in behind if e.epoch > _latest(self._own))]
        return [entry for entry in entries if entry.start_offset <= log_end], self._differ

    def _contradict(self, rows: Rows) -> bool:
        """Return whether the checkpoint has another epoch for a batch.

        An epoch above all of the checkpoint is one that it does not have yet.
        """
        if not self._checkpoint:
            return False
        starts = np.array([entry.start_offset for entry in self._checkpoint])
        epochs = np.array([-1, *(entry.epoch for entry in self._checkpoint)])
        there = epochs[np.searchsorted(starts, rows[:, k.FIRST_OFFSET], "right")]
        seen = np.append(self._highest, rows[:, k.LEADER_EPOCH])
        highest = np.maximum.accumulate(seen)[1:]
        return bool(((there != highest) & (highest <= epochs[-1])).any())


def _latest(epochs: Sequence[EpochStart]) -> int:
    return epochs[-1].epoch if epochs else -1


def epochs_begun(rows: Rows, latest: int) -> Iterator[EpochStart]:
    """Yield the epochs above `latest` that the batches begin, in order.

    Batches of older formats have the epoch -1 and begin none.
    """
    epochs = rows[:, k.LEADER_EPOCH]
    highest = np.maximum.accumulate(np.append(latest, epochs))
    for n in np.flatnonzero(highest[1:] > highest[:-1]).tolist():
        yield EpochStart(int(epochs[n]), int(rows[n, k.FIRST_OFFSET]))


def assigned(
    epochs: Sequence[EpochStart], begun: EpochStart, *, falling: bool = True
) -> list[EpochStart]:
    """Return the epochs with `begun`, unless it is the last one and begins no earlier.

    It replaces entries with an epoch or a start that is not lower. Not `falling` (to 2.0.0): it
    replaces none, and begins only above the last epoch, at the same start or above.
    """
    if epochs:
        epoch, start = epochs[-1]
        if begun.epoch == epoch and begun.start_offset >= start:
            return [*epochs]
        if not falling:
            rises = begun.epoch > epoch and begun.start_offset >= start
            return [*epochs, begun] if rises else [*epochs]
    kept = (e for e in epochs if e.epoch < begun.epoch and e.start_offset < begun.start_offset)
    return [*kept, begun]


def assigned_anew(epochs: Iterable[EpochStart]) -> list[EpochStart]:
    """Return the entries of a checkpoint as a broker of 2.7 or later loads them.

    It assigns one after the other, so the later of two epochs at one offset stays.
    """
    return reduce(assigned, epochs, [])


def until(epochs: Sequence[EpochStart], end: int) -> list[EpochStart]:
    """Return the epochs that begin below the log end."""
    return [one for one in epochs if one.start_offset < end]


def after(epochs: Sequence[EpochStart], start: int, *, falling: bool = True) -> list[EpochStart]:
    """Return the epochs from the log start on. The one that holds there begins there.

    Not `falling`: all that begin there stay.
    """
    below = [one for one in epochs if one.start_offset < start + falling]
    above = [one for one in epochs if one.start_offset >= start + falling]
    holds = below and (falling or not above or above[0].start_offset > start)
    return [EpochStart(below[-1].epoch, start), *above] if holds else above
