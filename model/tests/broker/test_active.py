"""Which index entries a truncation keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats_model.broker.active import entries_below

OFFSETS = st.lists(st.integers(0, 60), unique=True).map(sorted)


@given(OFFSETS, st.integers(-5, 65), st.sampled_from([0, 1, 3, 1024]))
def test_entries_below_the_offset_stay(offsets: list[int], offset: int, end: int) -> None:
    below = sum(entry < offset for entry in offsets)
    assert entries_below(np.array(offsets, np.int32), offset, end) == below


@pytest.mark.parametrize(
    ("offsets", "offset", "at_once", "end_first"),
    [
        ([0, 0], 0, 1, 0),
        ([0, 0, 0], 0, 1, 0),
        ([3, 3], 3, 1, 0),
        ([1, 3, 3], 3, 1, 1),
        ([1, 3, 3, 3], 3, 2, 2),
        ([1, 3, 3, 7], 3, 2, 2),
        ([3, 3], 4, 2, 2),
        ([3, 3], 2, 0, 0),
    ],
)
def test_of_several_entries_of_one_offset_those_before_the_hit_stay(
    offsets: list[int], offset: int, at_once: int, end_first: int
) -> None:
    """`end_first`: as the releases from 2.1 on search, which do not find the first entry so."""
    entries = np.array(offsets, np.int32)
    assert (entries_below(entries, offset, 0), entries_below(entries, offset, 682)) == (
        at_once,
        end_first,
    )
