"""Leader epochs of a log, from its checkpoint and from the batches that are read again."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import ReplayedEpochs

Pairs = list[tuple[int, int]]
END: Final = 100

CASES: Final[dict[str, tuple[Pairs, Pairs, Pairs, bool]]] = {
    # checkpoint (epoch, start), batches (epoch, offset), the result, whether they contradict
    "the same": ([(0, 0), (2, 50)], [(0, 40), (2, 50), (2, 60)], [(0, 0), (2, 50)], False),
    "no checkpoint": ([], [(0, 40), (2, 50)], [(0, 40), (2, 50)], False),
    "an epoch that it does not have yet": ([(0, 0)], [(0, 40), (3, 50)], [(0, 0), (3, 50)], False),
    "batches that the cleaner removed": ([(0, 0), (2, 50)], [(0, 40), (2, 60)], [(0, 0), (2, 50)], False),
    "an epoch whose batches the cleaner removed": ([(0, 0), (1, 45), (2, 50)], [(0, 40), (2, 60)], [(0, 0), (1, 45), (2, 50)], False),
    "an epoch without batches at the log end": ([(0, 0), (4, END)], [(0, 40)], [(0, 0), (4, END)], False),
    "above the log end": ([(0, 0), (4, END + 1)], [(0, 40)], [(0, 0)], False),
    "begins too early": ([(0, 0), (2, 45)], [(0, 40), (0, 48), (2, 50)], [(0, 0), (2, 50)], True),
    "begins too late": ([(0, 0), (2, 55)], [(0, 40), (2, 50), (2, 60)], [(0, 0), (2, 50)], True),
    "too high from the start": ([(9, 0)], [(0, 40), (2, 50)], [(0, 40), (2, 50)], True),
    "an epoch between is missing": ([(0, 0), (3, 60)], [(0, 40), (2, 50), (3, 60)], [(0, 0), (2, 50), (3, 60)], True),
    "wrong, and one at the log end": ([(7, 0), (9, END)], [(2, 50)], [(2, 50), (9, END)], True),
    "old formats have no epochs": ([(0, 0)], [(-1, 40), (-1, 50)], [(0, 0)], False),
    "an epoch that goes back": ([(0, 0), (3, 50)], [(3, 50), (2, 60)], [(0, 0), (3, 50)], False),
}  # fmt: skip


def rows_of(batches: Pairs) -> np.ndarray:
    rows = np.zeros((len(batches), k.COLUMNS), np.int64)
    rows[:, k.LEADER_EPOCH] = [epoch for epoch, _ in batches]
    rows[:, k.FIRST_OFFSET] = [offset for _, offset in batches]
    return rows


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("at_once", [1, 100])
def test_the_log_is_believed(what: str, at_once: int) -> None:
    told, batches, wanted, contradicts = CASES[what]
    epochs = ReplayedEpochs([EpochStart(*entry) for entry in told])
    for n in range(0, len(batches), at_once):
        epochs.add(rows_of(batches[n : n + at_once]))
    entries, differ = epochs.until(END)
    assert ([tuple(entry) for entry in entries], differ) == (wanted, contradicts)
