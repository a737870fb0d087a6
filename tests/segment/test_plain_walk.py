"""The walk in plain Python gives the results of the kernel, for every log and every index."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.segment.plain_budget import set_budget, take_from_budget
from kafkats.segment.reader import open_source
from kafkats.segment.walk import Points, Walked, walk
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked
from tests.index.generated import BASE, damaged_logs

ENTRIES = st.lists(st.tuples(st.integers(-3, 80), st.integers(0, 2000)), max_size=8)


@pytest.fixture(autouse=True)
def no_budget_afterwards() -> Iterator[None]:
    yield
    set_budget(0)


def both(work: Callable[[Callable[[Points], None]], Walked]) -> None:
    """Hold the walk by the kernel against the walk in plain Python, with the points of both."""
    results = []
    for budget in (0, 1 << 40):
        set_budget(budget)
        points: list[Points] = []
        walked = work(points.append)
        rows = np.concatenate([np.array(points[0])[:0], *points]) if points else None
        results.append((walked, None if rows is None else rows.tolist()))
    assert results[0] == results[1]


@pytest.mark.slow(5)
@settings(max_examples=300, deadline=None)
@given(
    damaged_logs(),
    st.sampled_from([BASE, 0, BASE + 3, 2**31 + BASE, -5]),
    st.integers(0, 120),
    ENTRIES,
    ENTRIES,
    st.booleans(),
    st.data(),
)
def test_the_same_of_any_log(
    log: bytes,
    base_offset: int,
    interval: int,
    offsets: list[tuple[int, int]],
    times: list[tuple[int, int]],
    checksums: bool,
    data: st.DataObject,
) -> None:
    start = data.draw(st.sampled_from([0, 0, 0, len(log) // 2, len(log)]))
    end = data.draw(st.sampled_from([None, None, len(log), len(log) * 2 // 3, 0]))
    source = array_source(np.frombuffer(log, np.uint8))
    offset_entries = b"".join(
        (o).to_bytes(4, "big", signed=True) + at.to_bytes(4, "big")
        for at, o in sorted({at: o for o, at in offsets}.items())
    )
    time_entries = b"".join(
        t.to_bytes(8, "big", signed=True) + o.to_bytes(4, "big", signed=True)
        for t, o in sorted((t, o) for o, t in times)
    )
    both(
        lambda on_points: walk(
            source,
            base_offset,
            interval=interval,
            offset_entries=offset_entries,
            time_entries=time_entries,
            start=start,
            end=end,
            checksums=checksums,
            on_points=on_points,
        )
    )


@pytest.mark.parametrize(
    ("case", "state"),
    [("crash-2.8.2", "after"), ("matrix-2.8.2-v1", "data"), ("compaction-4.3.1", "before")],
)
def test_the_same_of_logs_that_brokers_wrote(golden: Unpacked, case: str, state: str) -> None:
    logs = [log for log in golden(case, state).rglob("0*.log") if log.stat().st_size]
    assert logs
    for log in logs:
        indexes = [log.with_suffix(kind) for kind in (".index", ".timeindex")]
        offset_entries, time_entries = (
            index.read_bytes().rstrip(b"\0") if index.exists() else b"" for index in indexes
        )
        with open_source(log) as source:
            both(
                lambda on_points, source=source, log=log, entries=(offset_entries, time_entries): (
                    walk(
                        source,
                        int(log.stem),
                        interval=100,
                        offset_entries=entries[0][: len(entries[0]) // 8 * 8],
                        time_entries=entries[1][: len(entries[1]) // 12 * 12],
                        on_points=on_points,
                    )
                )
            )


def test_the_budget_ends_with_the_first_log_above_it() -> None:
    set_budget(100)
    assert [take_from_budget(size) for size in (60, 30, 30, 1)] == [True, True, False, False]
    set_budget(0)
    assert not take_from_budget(0), "the library reads every log by the kernel"
