"""The indexes that were proposed and never shipped: their pages, their entries, and that a search by them misses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import UsageError
from kafkats.formats import dispatch
from kafkats_model.index import enriched_index, minute_index
from kafkats_model.index.compared import compare
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked
from tests.index.generated import BASE, logs
from tests.index.pages import ROW

PAGES = Path(__file__).parents[2] / "docs" / "formats"


@pytest.mark.parametrize(
    ("page", "module"), [("minute-index", minute_index), ("enriched-index", enriched_index)]
)
def test_layouts(page: str, module: object) -> None:
    text = (PAGES / f"{page}.md").read_text()
    entry: np.dtype[np.void] = module.ENTRY  # type: ignore[attr-defined]
    rows = [(int(at), name, int(size), int(bits)) for at, name, size, bits in ROW.findall(text)]
    assert entry.fields is not None and entry.names is not None
    sizes = [(entry.fields[n][1], n, entry.fields[n][0].itemsize) for n in entry.names]
    assert rows == [(at, name, size, size * 8) for at, name, size in sizes]
    assert f"{entry.itemsize} bytes per entry" in text


def test_the_sizes_of_the_texts() -> None:
    said = dict(
        re.findall(
            r"^\| (minute|second) \| \d+ \| (\d+) \|$",
            (PAGES / "minute-index.md").read_text(),
            re.MULTILINE,
        )
    )
    for word, step in (("minute", 60_000), ("second", 1000)):
        assert int(said[word]) == minute_index.size_bytes(3500, 24, step_ms=step)
    assert int(said["minute"]) // 2**20 == 57
    assert f"{int(said['second']) / 2**30:.1f}" == "3.4"


def records(log: bytes) -> list[tuple[int, int]]:
    return [
        (r.offset, r.timestamp)
        for batch in dispatch.batches(log)
        for r in dispatch.records(log, batch)
    ]


def first(known: list[tuple[int, int]], target: int) -> int:
    return next((offset for offset, time in known if time >= target), -1)


@pytest.mark.slow(1)
@settings(deadline=None, max_examples=60)
@given(logs(), st.sampled_from([1, 7, 50]), st.sampled_from([0, 100]))
def test_nothing_is_missed(log: bytes, step: int, interval: int) -> None:
    source, known = array_source(np.frombuffer(log, np.uint8)), records(log)
    targets = np.unique([
        0,
        *(max(time + n, 0) for _, time in known for n in (-1, 0, 1) if time < 2**62),
    ])
    exact = np.array([first(known, t) for t in targets.tolist()])
    for option in minute_index.OPTIONS:
        data = minute_index.build(
            source, BASE, option=option, step_ms=step, index_interval_bytes=interval
        )
        entries = np.frombuffer(data, minute_index.ENTRY)
        steps = entries["timestamp"] // step
        assert len(np.unique(steps)) == len(entries)
        begins = minute_index.lookup(entries, BASE, targets, option=option, step_ms=step)
        batches = np.array([
            begin_of(log, int(b)) for b in begins
        ])  # a fetch brings the batch that an offset lies in
        assert compare(len(data), batches, exact).late == 0
        if option == "create-time":
            by_step = {}
            for offset, time in known:
                if time >= 0:
                    by_step.setdefault(time // step * step, offset - BASE)
            assert list(by_step.items()) == [tuple(entry) for entry in entries.tolist()]
            assert compare(len(data), begins, exact).late == 0
            assert (begins[exact < 0] >= 0).all()
    data = enriched_index.build(source, BASE, index_interval_bytes=interval)
    entries = np.frombuffer(data, enriched_index.ENTRY)
    position_of = {
        r.offset: b.position for b in dispatch.batches(log) for r in dispatch.records(log, b)
    }
    for position, offset in zip(
        enriched_index.lookup(entries, targets).tolist(), exact.tolist(), strict=True
    ):
        assert offset < 0 or position <= position_of[offset]


def begin_of(log: bytes, offset: int) -> int:
    """The first offset of the batch that a fetch from `offset` brings first."""
    for one in dispatch.batches(log):
        inside = [r.offset for r in dispatch.records(log, one)]
        if one.last_offset >= offset:
            return min([offset, *inside])
    return offset


def test_of_a_real_segment(golden: Unpacked) -> None:
    """Sizes beside those of the broker's own, and how much each lets be read in vain."""
    segment = max(golden.segments_in("crash-4.3.1", "after"), key=lambda s: s.log.stat().st_size)
    log = segment.log.read_bytes()
    source, known = array_source(np.frombuffer(log, np.uint8)), records(log)
    own = segment.log.with_suffix(".index").stat().st_size
    enriched = enriched_index.build(
        source, segment.base_offset, index_interval_bytes=segment.interval
    )
    assert len(enriched) == 2 * own
    targets = np.linspace(min(t for _, t in known), max(t for _, t in known), 50).astype(np.int64)
    exact = np.array([first(known, t) for t in targets.tolist()])
    fine, coarse = (
        minute_index.build(source, segment.base_offset, option="create-time", step_ms=step)
        for step in (1, 60_000)
    )
    seen = []
    for data, step in ((fine, 1), (coarse, 60_000)):
        begins = minute_index.lookup(
            np.frombuffer(data, minute_index.ENTRY),
            segment.base_offset,
            targets,
            option="create-time",
            step_ms=step,
        )
        seen.append(compare(len(data), begins, exact))
    assert seen[0].exact == seen[0].targets == 50
    assert seen[1].late == 0
    assert len(fine) > len(coarse)
    assert seen[1].in_vain >= seen[1].most_in_vain > seen[0].in_vain == 0


def test_what_is_asked_wrongly() -> None:
    source = array_source(np.empty(0, np.uint8))
    with pytest.raises(UsageError, match="append-time, create-time"):
        minute_index.build(source, 0, option="both")
    with pytest.raises(UsageError, match="step"):
        minute_index.build(source, 0, step_ms=0)
    assert minute_index.build(source, 0) == enriched_index.build(source, 0) == b""
