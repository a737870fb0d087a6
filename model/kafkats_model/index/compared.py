"""Measure how well an index answers: compare its search starts with the exact answers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Compared(NamedTuple):
    """Counts of search starts for `targets` times that have a record at that time or later.

    A start is exact (at that record), early (before it), or late.
    """

    bytes: int
    targets: int
    exact: int
    early: int
    late: int
    """Starts after the first record: records are missed."""
    in_vain: int
    """Offsets, or bytes, read in vain, summed over all starts that are not late."""
    most_in_vain: int


def compare(size: int, begins: NDArray[np.int64], first: NDArray[np.int64]) -> Compared:
    """Compare `begins`, the starts that an index gives, with `first`, the exact answers.

    Both are offsets, or both positions, int64 of shape (n,); -1 in `first`: no such record. `size`
    is the size of the index in bytes.
    """
    early = (first - begins)[first >= 0]
    vain = early[early >= 0]
    exact, before, behind = (int(count.sum()) for count in (early == 0, early > 0, early < 0))
    return Compared(
        size, len(early), exact, before, behind, int(vain.sum()), int(vain.max(initial=0))
    )
