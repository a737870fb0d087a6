"""Index health: which kind stands for a segment, and the colours of kinds."""

from __future__ import annotations

import colorsys
import itertools

import numpy as np
import pyarrow as pa
import pytest

from kafkats.findings import KINDS, SEVERITIES
from kafkats.plans.facts import SEGMENTS
from kafkats.rebuild.health import CELLS, DAMAGED, FINE, NONE, health_of, palette
from tests.builders.findings import TABLE, finding, segments


def test_the_worst_kind_stands_for_the_segment_the_time_index_first() -> None:
    health = health_of(TABLE)
    assert health.partitions == [("/data", "a-0"), ("/data", "b-0")]
    rows = [[CELLS[cell] for cell in health.row(n)] for n in range(2)]
    assert rows == [["missing-index"], ["below-maximum", FINE]]


def test_of_findings_of_one_rank_the_first_stands() -> None:
    both = [finding("bad-crc", "x.log"), finding("torn-tail", "x.log")]
    cells = health_of(segments(("a-0", 0, both), ("b-0", 0, both[::-1]))).cells
    assert [CELLS[cell] for cell in cells] == ["bad-crc", "torn-tail"]


def test_nothing_and_a_kind_that_is_not_known() -> None:
    empty = health_of(SEGMENTS.empty_table())
    assert (empty.partitions, empty.starts.tolist(), empty.cells.tolist()) == ([], [0], [])
    odd = finding("bad-crc", "x.log") | {"kind": "of-a-later-version", "severity": "grave"}
    assert [CELLS[cell] for cell in health_of(segments(("a-0", 0, [odd]))).cells] == [FINE]


def test_cells_are_numbered_from_harmless_to_worst() -> None:
    severities = [SEVERITIES.index(KINDS[kind][0]) for kind in CELLS[2:]]
    assert severities == sorted(severities)
    assert {KINDS[kind][0] for kind in CELLS[DAMAGED:]} == {"damage", "danger"}
    assert len(CELLS) < 256


def test_a_million_segments() -> None:
    count = 10_000 * 100
    names = pa.DictionaryArray.from_arrays(
        np.arange(count) // 100, pa.array([f"orders-{n}" for n in range(10_000)])
    )
    found = pa.array(
        [[finding("missing-index", "x.timeindex")], []], SEGMENTS.field("findings").type
    )
    table = pa.table({
        "log_dir": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array(["/data"])),
        "partition_dir": names,
        "base_offset": np.arange(count) % 100,
        "findings": found.take(pa.array(np.minimum(np.arange(count) % 500, 1))),
    })
    health = health_of(table)
    assert (health.cells == CELLS.index("missing-index")).sum() == count // 500
    assert len(health.partitions) == 10_000


@pytest.mark.parametrize("dark", [False, True])
def test_every_kind_has_a_colour_of_its_own_and_every_severity_a_hue(dark: bool) -> None:
    colours = palette([NONE, FINE, *KINDS], dark=dark)
    assert set(colours) == {NONE, FINE, *KINDS}
    assert len(set(colours.values())) == len(colours)
    hues: dict[str, list[float]] = {}
    for kind, (severity, *_) in KINDS.items():
        red, green, blue = (part / 255 for part in bytes.fromhex(colours[kind][1:]))
        hue, _, _ = colorsys.rgb_to_hls(red, green, blue)
        if severity != "state":
            hues.setdefault(severity, []).append(hue)
    spans = {severity: (min(found), max(found)) for severity, found in hues.items()}
    assert all(high - low < 0.08 for low, high in spans.values()), spans
    ordered = sorted(spans.values())
    assert all(low > high for (_, high), (low, _) in itertools.pairwise(ordered)), spans
