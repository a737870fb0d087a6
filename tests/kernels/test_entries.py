"""Index points to bytes: the kernel against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.index.build import offset_bytes, time_bytes
from kafkats.kernels.entries import pack

I63 = st.integers(0, 2**63 - 1)
POINT = st.tuples(
    st.integers(0, 2**31 - 1), I63, st.integers(0, 2**31 - 1), I63, st.integers(0, 2**31 - 1)
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(POINT, max_size=30), st.sampled_from([(2, 1), (4, 0)]), st.integers(0, 2**31 - 1), I63
)
def test_same_bytes(
    rows: list[tuple[int, ...]], times: tuple[int, int], base_offset: int, before: int
) -> None:
    points = np.array(rows, np.int64).reshape(-1, 5)
    points[:, 3] = np.maximum.accumulate(np.maximum(points[:, 3], before))  # the largest so far
    points[:, [2, 4]] += base_offset
    offset_words, time_words = (
        np.zeros((len(points), 2), np.int32),
        np.zeros((len(points), 3), np.int32),
    )
    timed = pack(points, *times, base_offset, before, offset_words, time_words)
    rises = points[points[:, 3] > np.concatenate(([before], points[:-1, 3]))]
    column, plus = times
    assert offset_words.tobytes() == offset_bytes(points[:, 2] - base_offset, points[:, 0])
    assert time_words[:timed].tobytes() == time_bytes(
        rises[:, 3], rises[:, column] + plus - base_offset
    )
