"""Spans of time in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.config.durations import rounded, setting_text, span_text

DAY = 86_400_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1001, "1 s 1 ms"),
        (59_999, "59 s 999 ms"),
        (3_600_000 - 1, "59 min 59 s"),
        (3_600_000, "1 h"),
        (3 * DAY + 4 * 3_600_000 + 5, "3 d 4 h"),
        (DAY + 59 * 60_000, "1 d"),
        (365 * DAY - 1, "364 d 23 h"),
        (2_307_293_867_001, "73 y 59 d"),
        (2**63 - 1, "292471208 y 247 d"),
    ],
)
def test_two_largest_units(ms: int, text: str) -> None:
    assert span_text(ms) == text


def test_settings() -> None:
    assert setting_text(DAY) == "86400000 (1 d)"
    assert [setting_text(each) for each in (-1, 0, 999)] == ["-1", "0", "999"]


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 2 * DAY)))
def test_rounding_keeps_the_words(spans: list[int]) -> None:
    less = rounded(np.array(spans, np.int64)).tolist()
    assert [span_text(each) for each in less] == [span_text(each) for each in spans]
    assert all(a <= b for a, b in zip(less, spans, strict=True))


def test_rounding_leaves_few() -> None:
    assert len(np.unique(rounded(np.arange(DAY, 2 * DAY, 977)))) == 24
