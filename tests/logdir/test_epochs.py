"""Which leader epochs batches begin, and which entries a new one replaces."""

from __future__ import annotations

import numpy as np
import pytest

from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import assigned, epochs_begun

BATCHES = {
    "none": ([], -1, []),
    "one epoch": ([(0, 3), (5, 3)], -1, [(3, 0)]),
    "known already": ([(0, 3), (5, 3)], 3, []),
    "rises twice": ([(0, 1), (5, 2), (7, 2), (9, 4)], -1, [(1, 0), (2, 5), (4, 9)]),
    "falls, and rises above": ([(0, 5), (5, 2), (7, 4), (9, 6)], -1, [(5, 0), (6, 9)]),
    "older formats have none": ([(0, -1), (5, -1), (7, 0)], -1, [(0, 7)]),
    "above the known one only": ([(0, 2), (5, 3)], 2, [(3, 5)]),
}


@pytest.mark.parametrize(("batches", "latest", "begun"), BATCHES.values(), ids=BATCHES)
def test_epochs_begun(
    batches: list[tuple[int, int]], latest: int, begun: list[tuple[int, int]]
) -> None:
    rows = np.zeros((len(batches), k.COLUMNS), np.int64)
    for row, (offset, epoch) in zip(rows, batches, strict=True):
        row[k.FIRST_OFFSET], row[k.LEADER_EPOCH] = offset, epoch
    assert list(epochs_begun(rows, latest)) == [EpochStart(*one) for one in begun]


def test_an_epoch_replaces_those_that_begin_at_its_offset_or_above() -> None:
    known = [EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 20)]
    assert assigned(known, EpochStart(3, 30)) == [*known, EpochStart(3, 30)]
    assert assigned(known, EpochStart(3, 20)) == [*known[:2], EpochStart(3, 20)]
    assert assigned(known, EpochStart(3, 5)) == [known[0], EpochStart(3, 5)]
    assert assigned([], EpochStart(3, 5)) == [EpochStart(3, 5)]
    assert assigned(known, EpochStart(2, 25)) == known
    assert assigned(known, EpochStart(2, 15)) == [*known[:2], EpochStart(2, 15)]
    assert assigned(known, EpochStart(1, 30)) == [known[0], EpochStart(1, 30)]


def test_up_to_2_0_0_an_epoch_replaces_none() -> None:
    known = [EpochStart(0, 0), EpochStart(1, 10)]
    for begun in (EpochStart(0, 20), EpochStart(1, 5), EpochStart(2, 5)):
        assert assigned(known, begun, falling=False) == known
    assert assigned(known, EpochStart(2, 10), falling=False) == [*known, EpochStart(2, 10)]
