"""Times as words: numbers that may be seconds are refused, and every int64 has a text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.clock import utc_text
from kafkats.config.values import parse_time


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("-1", -1),
        ("100000000001", 100_000_000_001),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-20T16:13:20Z", 1_700_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_time_that_has_one_meaning(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize("text", ["1", "1700000000", "100000000000"])
def test_a_number_that_may_be_seconds_is_refused_with_both_meanings(text: str) -> None:
    with pytest.raises(ValueError, match="ambiguous") as refused:
        parse_time(text)
    both = utc_text(int(text) * 1000), utc_text(int(text))
    assert all(one in str(refused.value) for one in both)
    assert [parse_time(one) for one in both] == [int(text) * 1000, int(text)]


@given(st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**13), 10**14))
def test_every_time_has_the_text_that_numpy_gives_it(ms: int) -> None:
    assert utc_text(ms) == f"{np.datetime64(ms, 'ms')}".removesuffix(".000") + "Z"
