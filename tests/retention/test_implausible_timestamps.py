"""Timestamps that cannot be right: told by digits, mtime and neighbours; what each policy decides by; and real ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkats.formats import dispatch
from kafkats.generations import RETENTION_RULES
from kafkats.retention.implausible_timestamps import (
    EARLIEST_MS,
    LATEST_MS,
    SEEMS,
    SLACK_MS,
    SUSPECT,
    UNITS,
    Believed,
    believe,
    detect_units,
    unit_shares,
)
from kafkats.retention.rules import Limits, Segment, decide
from tests.golden import Unpacked, cases

POLICIES = ("report", "ignore", "mtime", "clamp")
WRITTEN = 1_700_000_000_000
"""mtime: 2023."""


def unit_of(timestamp: int, mtime_ms: int, neighbour: int = -1) -> str:
    return SEEMS[int(detect_units(np.array([timestamp]), mtime_ms, neighbour)[0])]


def by_hand(timestamp: int, mtime_ms: int, neighbour: int) -> str:
    """The rule for one timestamp, in numbers that cannot overflow."""
    if timestamp < 0:
        return "negative" if timestamp < -1 else ""
    otherwise = neighbour if EARLIEST_MS <= neighbour <= LATEST_MS else LATEST_MS
    latest = (mtime_ms if mtime_ms >= EARLIEST_MS else otherwise) + SLACK_MS
    if EARLIEST_MS <= timestamp <= latest:
        return "ms"
    for unit, (factor, divisor) in UNITS.items():
        if EARLIEST_MS <= timestamp * factor // divisor <= latest:
            return unit
    if timestamp > latest:
        return "future"
    return "ms" if 0 <= neighbour < EARLIEST_MS else ""


@pytest.mark.parametrize(
    ("timestamp", "verdict"),
    [
        (WRITTEN, "ms"),
        (WRITTEN + SLACK_MS, "ms"),
        (WRITTEN + SLACK_MS + 1, "future"),
        (4_102_444_800_000, "future"),
        (2**63 - 1, "future"),
        (WRITTEN - 10 * 365 * SLACK_MS, "ms"),
        (EARLIEST_MS, "ms"),
        (EARLIEST_MS - 1, ""),
        (WRITTEN // 1000, "s"),
        (EARLIEST_MS // 1000, "s"),
        (EARLIEST_MS // 1000 - 1, ""),
        (WRITTEN // 1000 + 200_000, ""),
        (WRITTEN * 1000, "us"),
        (WRITTEN * 1000 + 999, "us"),
        (WRITTEN * 1_000_000, "ns"),
        (WRITTEN * 4_000_000, "future"),
        (0, ""),
        (5, ""),
        (-1, ""),
        (-2, "negative"),
        (-WRITTEN, "negative"),
        (-(2**63), "negative"),
    ],
)
def test_by_digits_and_mtime(timestamp: int, verdict: str) -> None:
    assert unit_of(timestamp, WRITTEN) == verdict


def test_neighbours_stand_in_for_an_mtime_that_cannot_be_right() -> None:
    assert unit_of(WRITTEN + 10 * SLACK_MS, 0, WRITTEN) == "future"
    assert unit_of(WRITTEN + 10 * SLACK_MS, 0, WRITTEN * 1000) == "ms"
    assert unit_of(WRITTEN + 10 * SLACK_MS, 0) == "ms"
    assert unit_of(WRITTEN * 1000, 0, WRITTEN) == "us"
    assert unit_of(WRITTEN * 1000, 0) == "us"


def test_neighbours_say_that_old_data_is_old() -> None:
    assert unit_of(500_000_000_000, WRITTEN) == ""
    assert unit_of(500_000_000_000, WRITTEN, 499_000_000_000) == "ms"
    assert unit_of(WRITTEN // 1000, WRITTEN, WRITTEN // 1000 - 5) == "s"


STAMPS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([
    n * factor // divisor + d
    for n in (EARLIEST_MS, WRITTEN, WRITTEN + SLACK_MS, LATEST_MS + SLACK_MS)
    for factor, divisor in ((1, 1), (1, 1000), (1000, 1), (1_000_000, 1))
    for d in (-1, 0, 1, 999)
])  # fmt: skip
MTIMES = st.sampled_from([
    0,
    -5,
    EARLIEST_MS - 1,
    EARLIEST_MS,
    WRITTEN,
    9_223_372_036_854,
]) | st.integers(0, 2 * WRITTEN)


@settings(deadline=None)
@example([(9_223_372_036_854_000_000, 9_223_372_036_854, -1)])
@given(
    st.lists(
        st.tuples(STAMPS, MTIMES, st.just(-1) | STAMPS | st.integers(0, EARLIEST_MS)), max_size=20
    )
)
def test_units_of_many_at_once(rows: list[tuple[int, int, int]]) -> None:
    found = detect_units(*np.array(rows, np.int64).reshape(-1, 3).T)
    assert [SEEMS[n] for n in found] == [
        by_hand(stamp, mtime, other) for stamp, mtime, other in rows
    ]


def test_shares_of_a_segment() -> None:
    timestamps = np.array([-1] + [WRITTEN * 1000] * 3 + [WRITTEN] * 6)
    assert list(unit_shares(timestamps, WRITTEN).items()) == [("ms", 0.6), ("us", 0.3), ("", 0.1)]
    assert unit_shares(timestamps[:0], WRITTEN) == {}


ENTRIES = (WRITTEN - 900, WRITTEN - 500, WRITTEN * 1000)


@pytest.mark.parametrize(
    ("policy", "largest", "entries", "believed"),
    [
        ("report", WRITTEN * 1000, ENTRIES, Believed(WRITTEN * 1000, "timestamp", "us")),
        ("ignore", WRITTEN * 1000, ENTRIES, Believed(WRITTEN - 500, "entry", "us")),
        ("ignore", WRITTEN * 1000, (WRITTEN * 1000,), Believed(-1, "mtime", "us")),
        ("ignore", WRITTEN * 1000, (), Believed(-1, "mtime", "us")),
        ("ignore", WRITTEN * 2, ENTRIES, Believed(WRITTEN - 500, "entry", "future")),
        ("ignore", WRITTEN // 1000, (WRITTEN // 1000,), Believed(-1, "mtime", "s")),
        ("mtime", WRITTEN * 1000, ENTRIES, Believed(-1, "mtime", "us")),
        ("clamp", (WRITTEN - 5) * 1000, ENTRIES, Believed(WRITTEN - 5, "converted", "us")),
        ("clamp", (WRITTEN - 5) * 1_000_000, ENTRIES, Believed(WRITTEN - 5, "converted", "ns")),
        ("clamp", WRITTEN // 1000, ENTRIES, Believed(WRITTEN, "converted", "s")),
        ("clamp", (WRITTEN + 5) * 1000, ENTRIES, Believed(-1, "mtime", "us")),
        ("clamp", WRITTEN * 2, ENTRIES, Believed(-1, "mtime", "future")),
    ],
)
def test_policies(policy: str, largest: int, entries: tuple[int, ...], believed: Believed) -> None:
    assert believe(largest, WRITTEN, policy, entries=entries) == believed


@pytest.mark.parametrize("policy", POLICIES)
def test_an_mtime_that_cannot_be_right_decides_nothing(policy: str) -> None:
    """A copy that kept no times: its files are of 1970, and by them everything would go."""
    future, micros = WRITTEN + 10 * SLACK_MS, WRITTEN * 1000
    assert believe(future, 0, policy, neighbour=WRITTEN) == Believed(future, "timestamp", "future")
    converted = Believed(WRITTEN, "converted", "us")
    kept = Believed(micros, "timestamp", "us")
    assert believe(micros, 0, policy, neighbour=WRITTEN) == (
        converted if policy == "clamp" else kept
    )


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2 * WRITTEN),
    st.lists(st.integers(-1, 2**62), max_size=4),
)
def test_what_is_not_suspect_is_believed_and_what_is_never_pins(
    timestamp: int, mtime_ms: int, entries: list[int]
) -> None:
    unit = unit_of(timestamp, mtime_ms)
    for policy in POLICIES:
        found = believe(timestamp, mtime_ms, policy, entries=entries)
        assert found.unit == unit
        if unit not in SUSPECT or policy == "report":
            assert found.timestamp == timestamp
        elif mtime_ms >= EARLIEST_MS:
            assert -1 <= found.timestamp <= mtime_ms + SLACK_MS
            assert found.timestamp == -1 or found.timestamp >= EARLIEST_MS


def test_a_record_in_microseconds_no_longer_pins() -> None:
    """48 hours of retention; the first segment has one record in microseconds."""
    day = SLACK_MS
    now_ms = WRITTEN + 5 * day
    limits, rule = Limits(2 * day, -1, 0, 20), RETENTION_RULES["3.0"]
    following = Segment(10, 20, 100, WRITTEN + 10, WRITTEN + 20)

    def goes(policy: str) -> list[bool]:
        told = believe(
            WRITTEN * 1000,
            WRITTEN,
            policy,
            entries=(WRITTEN - 100, WRITTEN * 1000),
            neighbour=WRITTEN,
        )
        first = Segment(0, 10, 100, told.timestamp, WRITTEN)
        return [v.deletes for v in decide([first, following], limits, rule, now_ms=now_ms).verdicts]

    assert {policy: goes(policy) for policy in POLICIES} == {
        "report": [False, False],
        "ignore": [True, True],
        "mtime": [True, True],
        "clamp": [True, True],
    }


def real_units(golden: Unpacked) -> dict[str, set[str]]:
    """Topic -> what its batches are, over all brokers that wrote odd timestamps."""
    found: dict[str, set[str]] = {}
    for case in cases("timestamps"):
        for log in golden(case, "data").rglob("*.log"):
            if log.parent.name.startswith("__"):
                continue
            stamps = [batch.max_timestamp for batch in dispatch.batches(log.read_bytes())]
            units = unit_shares(np.array(stamps, np.int64), log.stat().st_mtime_ns // 1_000_000)
            found.setdefault(log.parent.name.rpartition("-")[0], set()).update(units)
    return found


def test_what_seven_brokers_were_sent(golden: Unpacked) -> None:
    assert real_units(golden) == {
        "ts-equal": {"ms"},
        "ts-falling": {"ms"},
        "ts-shuffled": {"ms"},
        "ts-future": {"ms", "future"},
        "ts-seconds": {"s"},
        "ts-micros": {"ms", "us"},
        "ts-nanos": {"ms", "ns"},
        "ts-zero": {""},
        "ts-none": {""},
        "ts-negative": {"", "negative", "ms"},
    }
