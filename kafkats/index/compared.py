"""How well an index answers: where it lets a search begin, held against where the first records are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Compared(NamedTuple):
    """Of `targets` times with a record of that time or later: how often the search began at it, before it, or too late."""

    bytes: int
    targets: int
    exact: int
    early: int
    late: int
    """Records are missed."""
    in_vain: int
    """Offsets, or bytes, that are read in vain, over all that do not begin too late."""
    most_in_vain: int


def compare(size: int, begins: NDArray[np.int64], first: NDArray[np.int64]) -> Compared:
    """`begins` and `first` are offsets, or positions, shape (n,): where an index of `size` bytes says to begin, and the exact answers (-1:
    none)."""
    early = (first - begins)[first >= 0]
    vain = early[early >= 0]
    exact, before, behind = (int(count.sum()) for count in (early == 0, early > 0, early < 0))
    return Compared(size, len(early), exact, before, behind, int(vain.sum()), int(vain.max(initial=0)))
