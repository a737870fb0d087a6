"""Timestamps that cannot be right: told by digits, mtime and neighbours; what each policy decides by; and real ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.bogus import EARLIEST_MS, POLICIES, SLACK_MS, SUSPECT, Believed, believe, detect_unit, unit_shares
from kafkats.formats import dispatch
from kafkats.generations import RETENTION_RULES
from kafkats.retention import Limits, Segment, decide
from tests.golden import Unpacked, cases

WRITTEN = 1_700_000_000_000
"""mtime: 2023."""


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
        (WRITTEN * 1_000_000_000, "future"),
        (0, ""),
        (5, ""),
        (-1, ""),
        (-2, "negative"),
        (-WRITTEN, "negative"),
        (-(2**63), "negative"),
    ],
)
def test_by_digits_and_mtime(timestamp: int, verdict: str) -> None:
    assert detect_unit(timestamp, WRITTEN) == verdict


def test_neighbours_stand_in_for_an_mtime_that_cannot_be_right() -> None:
    neighbours = [WRITTEN - 5, WRITTEN, WRITTEN * 1000, -1]
    assert detect_unit(WRITTEN + 10 * SLACK_MS, 0, neighbours) == "future"
    assert detect_unit(WRITTEN + 10 * SLACK_MS, 0) == "ms"
    assert detect_unit(WRITTEN * 1000, 0, neighbours) == "us"
    assert detect_unit(WRITTEN * 1000, 0) == "us"


def test_neighbours_say_that_old_data_is_old() -> None:
    assert detect_unit(500_000_000_000, WRITTEN) == ""
    assert detect_unit(500_000_000_000, WRITTEN, [499_000_000_000]) == "ms"
    assert detect_unit(WRITTEN // 1000, WRITTEN, [WRITTEN // 1000 - 5]) == "s"


def test_shares_of_a_segment() -> None:
    timestamps = [WRITTEN] * 6 + [WRITTEN * 1000] * 3 + [-1]
    assert unit_shares(timestamps, WRITTEN) == {"ms": 0.6, "us": 0.3, "": 0.1}
    assert unit_shares([], WRITTEN) == {}


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


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2 * WRITTEN), st.lists(st.integers(-1, 2**62), max_size=4))
def test_what_is_not_suspect_is_believed_and_what_is_never_pins(
    timestamp: int, mtime_ms: int, entries: list[int]
) -> None:
    unit = detect_unit(timestamp, mtime_ms)
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
        told = believe(WRITTEN * 1000, WRITTEN, policy, entries=(WRITTEN - 100, WRITTEN * 1000), neighbours=(WRITTEN,))
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
            units = unit_shares(stamps, log.stat().st_mtime_ns // 1_000_000)
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
