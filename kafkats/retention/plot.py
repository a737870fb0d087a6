"""Plots of retention: what each topic can free, and each segment in time.

They need matplotlib (the extra `plot`), which is imported only when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kafkats.clock import DAY_MS, utc_text
from kafkats.counts import counted
from kafkats.plans.figure import (
    begin_figure,
    date_axis,
    short,
    side_legend,
    size_axis,
    stacked_bars,
    state_legend,
)
from kafkats.plans.rows import PartitionKey, SegmentKey, key_of, partition_of
from kafkats.retention.plan import VerdictRow
from kafkats.retention.vetoes import keeps_last

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATES: Final = {
    "deleted now": "#0072b2",
    "deleted within a day": "#56b4e9",
    "deleted within a week": "#b9dff5",
    "expired, kept by kafkats": "#e69f00",
    "expired, the last segment stays": "#f0e442",
    "expired, pinned": "#d55e00",
    "pins others": "#cc79a7",
    "kept": "#bdbdbd",
}
"""States of segments, with their colours (of Okabe and Ito). Every segment has one."""
_BARS: Final = 60
_PANELS: Final = 12
_ROWS: Final = 40
_LATEST_MS: Final = 253_402_300_799_000
"""The last time that a calendar can show."""


class _Bar(NamedTuple):
    """A segment in a picture."""

    row: VerdictRow
    state: str


def segment_states(verdicts: pa.Table, now_ms: int) -> list[str]:
    """Return the state (STATES) of each row of plan.RETENTION, decided for `now_ms`."""
    columns = (
        *SegmentKey._fields,
        "deletes",
        "veto",
        "lasting",
        "deletable_from_ms",
        "blocked_by",
    )
    rows: list[VerdictRow] = verdicts.select(columns).to_pylist()
    pins = {
        SegmentKey(*partition_of(row), row["blocked_by"])
        for row in rows
        if row["blocked_by"] is not None
    }
    return [_state(row, pins, now_ms) for row in rows]


def _state(row: VerdictRow, pins: Collection[SegmentKey], now_ms: int) -> str:
    since = None if row["lasting"] else row["deletable_from_ms"]
    if row["deletes"]:
        return _deleted(row["veto"])
    if key_of(row) in pins:
        return "pins others"
    if row["blocked_by"] is not None:
        return "expired, pinned"
    if since is not None and since <= now_ms + DAY_MS:
        return "deleted within a day"
    if since is not None and since <= now_ms + 7 * DAY_MS:
        return "deleted within a week"
    return "kept"


def _deleted(veto: str) -> str:
    """Return the state of a segment that a broker would delete."""
    if keeps_last(veto):
        return "expired, the last segment stays"
    return "expired, kept by kafkats" if veto else "deleted now"


def reclaimable(verdicts: Iterable[pa.Table], now_ms: int) -> list[tuple[str, dict[str, int]]]:
    """Return the bytes by state of each topic, from pieces of plan.RETENTION with whole partitions.

    Topics with the most bytes not simply kept come first.
    """
    topics: dict[str, dict[str, int]] = {}
    for piece in verdicts:
        columns = (piece["topic"].to_pylist(), piece["bytes"].to_pylist())
        for topic, size, state in zip(*columns, segment_states(piece, now_ms), strict=True):
            sizes = topics.setdefault(topic, dict.fromkeys(STATES, 0))
            sizes[state] += size
    return sorted(topics.items(), key=lambda one: (one[1]["kept"] - sum(one[1].values()), one[0]))


def plot_reclaimable(
    bars: Sequence[tuple[str, Mapping[str, int]]], now_ms: int, path: Path
) -> None:
    """Draw one bar per topic, its bytes by state (`reclaimable`), as PNG at `path`.

    Raises UsageError when matplotlib is not installed, StorageFailed.
    """
    figure, save = begin_figure()
    shown, rest = bars[:_BARS], bars[_BARS:]
    if rest:
        shown = [
            *shown,
            (counted(len(rest), "other"), {s: sum(sizes[s] for _, sizes in rest) for s in STATES}),
        ]
    figure.set_size_inches(9.0, 1.6 + 0.24 * max(len(shown), 5))
    axes = figure.add_subplot()
    states = [state for state in STATES if any(sizes[state] for _, sizes in shown)]
    rows = [(short(topic), [sizes[state] for state in states]) for topic, sizes in shown]
    stacked_bars(axes, rows, {label(state): STATES[state] for state in states})
    size_axis(axes.xaxis)
    side_legend(figure, axes)
    figure.suptitle(
        f"bytes by what retention does with them, decided for {_shown(now_ms)} UTC", fontsize=10
    )
    save(path)


def plot_timeline(
    verdicts: Iterable[pa.Table], lines: Mapping[str, int], now_ms: int, path: Path
) -> None:
    """Draw each segment from its first to its largest timestamp as PNG, a panel per partition.

    `verdicts` are pieces as for `reclaimable`. Colours show the state. `lines` has per topic the
    retention line: the time before which records are expired. A segment without timestamps is drawn
    at its file's mtime, hatched. Times more than a week in the future are cut off and written into
    the panel. Partitions with the most pinned bytes come first; the rest is left out. Raises as
    `plot_reclaimable`.
    """
    figure, save = begin_figure()

    panels = _panels(verdicts, now_ms)
    tall = max((min(len(bars), _ROWS) for _, bars in panels), default=1)
    down = max(-(-len(panels) // 2), 1)
    figure.set_size_inches(12.0, 1.2 + down * (1.0 + 0.16 * max(tall, 3)))
    for n, (name, bars) in enumerate(panels):
        line_ms = lines.get(bars[0].row["topic"])
        _panel(figure.add_subplot(down, 2, n + 1), name, bars[:_ROWS], line_ms, now_ms)
    drawn = {bar.state for _, bars in panels for bar in bars[:_ROWS]}
    state_legend(figure, {label(state): STATES[state] for state in STATES if state in drawn})
    figure.suptitle(
        f"segments in time, and the retention line; decided for {_shown(now_ms)} UTC", fontsize=10
    )
    save(path)


def label(state: str) -> str:
    """Return a state in words that hold for a dry run, too: nothing is deleted by a plan."""
    return f"can be {state}" if state.startswith("deleted") else state


def _panels(verdicts: Iterable[pa.Table], now_ms: int) -> list[tuple[str, list[_Bar]]]:
    """Return (name, segments) of the partitions that are drawn, those with most pinned bytes
    first.
    """

    def weight(bars: Sequence[_Bar]) -> list[int]:
        order = (
            "pins others",
            "expired, pinned",
            "expired, kept by kafkats",
            "deleted now",
            "kept",
        )
        return [-sum(bar.row["bytes"] for bar in bars if bar.state == state) for state in order]

    ordered: list[tuple[PartitionKey, list[_Bar]]] = []
    log_dirs: set[str] = set()
    for piece in verdicts:
        partitions = dict[PartitionKey, list[_Bar]]()
        for bar in map(_Bar, piece.to_pylist(), segment_states(piece, now_ms)):
            partitions.setdefault(partition_of(bar.row), []).append(bar)
        log_dirs.update(partition.log_dir for partition in partitions)
        every = [*ordered, *partitions.items()]
        ordered = sorted(every, key=lambda item: (weight(item[1]), item[0]))[:_PANELS]
    several = len(log_dirs) > 1
    return [
        (str(Path(Path(log_dir).parent.name, name)) if several else name, bars)
        for (log_dir, name), bars in ordered
    ]


def _panel(axes: Axes, name: str, bars: Sequence[_Bar], line_ms: int | None, now_ms: int) -> None:
    latest = now_ms + 7 * DAY_MS
    spans = [_span(bar.row) for bar in bars]
    ends = [min(moment, latest) for span in spans for moment in span]
    low, high = min(ends), max(ends)
    title = short(name)
    if line_ms is not None:
        reach = 4 * max(high - low, 60_000)
        if low - reach <= line_ms <= high + reach:
            low, high = min(low, line_ms), max(high, line_ms)
            axes.axvline(_days(line_ms), color="black", linestyle="--", linewidth=1)
        else:
            title += f"   (retention line {'<-' if line_ms < low else '->'} {_shown(line_ms)})"
    least = max(high - low, 1000) // 150
    for y, (bar, (first, last)) in enumerate(zip(bars, spans, strict=True)):
        begin, end = min(first, latest), min(last, latest)
        weak = bar.row["largest_timestamp"] < 0
        axes.barh(
            y,
            max(end - begin, least) / DAY_MS,
            left=_days(begin),
            color=STATES[bar.state],
            hatch="///" if weak else None,
            height=0.8,
        )
        if last > latest:
            _end_label(axes, y, f"until {_shown(last)}")
    pad = max((high - low) // 30, 500)
    axes.set_xlim(_days(low - pad), _days(high + pad + least))
    date_axis(axes)
    axes.set_yticks(range(len(bars)), [str(bar.row["base_offset"]) for bar in bars], fontsize=6)
    axes.set_ylabel("base offset", fontsize=6)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=8)


def _end_label(axes: Axes, y: int, text: str) -> None:
    """Write the end of a segment that is cut off, inside the right edge of the panel."""
    axes.text(
        0.995,
        y,
        text,
        transform=axes.get_yaxis_transform(),
        fontsize=6,
        ha="right",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
        clip_on=True,
    )


def _span(row: VerdictRow) -> tuple[int, int]:
    """Return first and largest timestamp, or twice the file's mtime without timestamps."""
    last = row["largest_timestamp"]
    if last < 0:
        return row["mtime_ms"], row["mtime_ms"]
    first = row["first_timestamp"]
    return (last if first is None or first < 0 else min(first, last)), last


def _days(ms: int) -> float:
    """Return a time as matplotlib counts it: in days since 1970."""
    return min(max(ms, 0), _LATEST_MS) / DAY_MS


def _shown(ms: int) -> str:
    if ms > _LATEST_MS:
        return "after the year 9999"
    return utc_text(max(ms, 0))[:16].replace("T", " ")
