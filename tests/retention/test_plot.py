"""The pictures of retention: every segment has one state, and pictures come out of odd timestamps, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from kafkats.errors import StorageFailed
from kafkats.retention.plan import RETENTION
from kafkats.retention.plot import (
    DAY_MS,
    STATES,
    plot_reclaimable,
    plot_timeline,
    reclaimable,
    segment_states,
)

NOW = 1_700_000_000_000


def row(base: int, partition: str = "orders-0", **columns: Any) -> dict[str, Any]:
    return {
        "log_dir": "/data", "partition_dir": partition, "topic": partition.rpartition("-")[0], "base_offset": base,
        "end_offset": base + 10, "bytes": 100, "first_timestamp": NOW - 10_000, "largest_timestamp": NOW - 5000,
        "mtime_ms": NOW, "evidence": "timestamp", "deletes": False, "by": "", "reason": "", "veto": "",
        "lasting": "", "deletable_from_ms": None, "blocked_by": None,
    } | columns  # fmt: skip


TABLE = pa.Table.from_pylist(
    [
        row(0, deletes=True),
        row(10, deletes=True, veto="legal hold"),
        row(15, deletes=True, veto="the last 2 segments stay"),
        row(20, largest_timestamp=2**63 - 1),
        row(30, blocked_by=20),
        row(40, "late-0", deletable_from_ms=NOW + DAY_MS),
        row(50, "late-0", deletable_from_ms=NOW + DAY_MS + 1),
        row(60, "late-0", deletable_from_ms=NOW + 7 * DAY_MS + 1),
        row(0, "odd-1", first_timestamp=-1, largest_timestamp=-1),
        row(10, "odd-1", first_timestamp=-5, largest_timestamp=0),
        row(20, "odd-1", first_timestamp=None, largest_timestamp=4_102_444_800_000),
    ],
    schema=RETENTION,
)


def test_one_state_each() -> None:
    assert segment_states(TABLE, NOW) == [
        *_expected("now", "kafkats", "last", "pins", "pinned", "day", "week"),
        *["kept"] * 4,
    ]
    assert set(segment_states(TABLE, NOW)) == set(STATES)


def _expected(*words: str) -> list[str]:
    return [
        next(state for state in STATES if word in state.replace(",", "").split()) for word in words
    ]


def test_a_segment_that_is_kept_at_any_age_is_kept() -> None:
    last = row(10, deletable_from_ms=NOW, lasting="the last segment stays")
    table = pa.Table.from_pylist([row(0, deletable_from_ms=NOW), last], schema=RETENTION)
    assert segment_states(table, NOW) == ["deleted within a day", "kept"]


def test_bytes_by_topic_add_up_and_the_most_eventful_come_first() -> None:
    bars = reclaimable([TABLE], NOW)
    assert [topic for topic, _ in bars] == ["orders", "late", "odd"]
    assert sum(sum(sizes.values()) for _, sizes in bars) == 1100
    assert dict(bars)["late"]["kept"] == 100


@pytest.mark.parametrize("table", [TABLE, TABLE.slice(8, 1), RETENTION.empty_table()])
@pytest.mark.parametrize("lines", [{}, {"orders": NOW - 7000, "late": 0, "odd": -(2**60)}])
def test_pictures_come_out(table: pa.Table, lines: dict[str, int], tmp_path: Path) -> None:
    plot_timeline([table], lines, NOW, tmp_path / "timeline.png")
    plot_reclaimable(reclaimable([table], NOW), NOW, tmp_path / "reclaimable.png")
    for path in tmp_path.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_timeline_can_be_read(tmp_path: Path, drawn: list[Figure]) -> None:
    plot_timeline([TABLE], {"orders": NOW - 7000}, NOW, tmp_path / "timeline.png")
    [figure] = drawn
    dates = {axes.get_title(): axes.xaxis.get_offset_text().get_text() for axes in figure.axes}
    assert dates["late-0"] == "2023-11-14", "the panel spans five seconds of that day"
    labels = [(axes, text) for axes in figure.axes for text in axes.texts]
    assert sorted(text.get_text() for _, text in labels) == [
        "until 2100-01-01 00:00",
        "until after the year 9999",
    ]
    for axes, text in labels:
        inside, frame = text.get_window_extent(), axes.get_window_extent()
        assert frame.x0 <= inside.x0 < inside.x1 <= frame.x1, text
    assert {round(axes.get_position().width, 2) for axes in figure.axes} == {
        round(figure.axes[0].get_position().width, 2)
    }, "no label takes a panel's width"


def test_a_legend_has_the_states_that_are_drawn(tmp_path: Path, drawn: list[Figure]) -> None:
    some = TABLE.slice(0, 2)
    plot_timeline([some], {}, NOW, tmp_path / "timeline.png")
    plot_reclaimable(reclaimable([some], NOW), NOW, tmp_path / "reclaimable.png")
    for figure in drawn:
        [legend] = figure.legends
        named = [text.get_text() for text in legend.get_texts()]
        assert named == ["can be deleted now", "expired, kept by kafkats"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed):
        plot_reclaimable(reclaimable([TABLE], NOW), NOW, tmp_path / "nowhere" / "x.png")
