"""Plots of retention: what each topic can free, and each segment in time.

They need matplotlib (the extra `plot`), which is imported only when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kafkats.plans.figure import begin_figure, size_text, state_legend
from kafkats.plans.rows import PartitionKey, SegmentKey, key_of, partition_of
from kafkats.retention.plan import VerdictRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STATES: Final = {
    "goes now": "#2166ac",
    "kept by a guard or a hold": "#e08214",
    "goes within a day": "#67a9cf",
    "goes within a week": "#c6dbef",
    "expired, pinned": "#b2182b",
    "pins others": "#40004b",
    "stays": "#bdbdbd",
}
"""States of segments, with their colours. Every segment has one."""
DAY_MS: Final = 86_400_000
_BARS: Final = 60
_PANELS: Final = 12
_ROWS: Final = 40
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_000
"""The last time that a calendar can show."""


class _Bar(NamedTuple):
    """A segment in a picture."""

    row: VerdictRow
    state: str


def segment_states(verdicts: pa.Table, now_ms: int) -> list[str]:
    """Return the state (STATES) of each row of plan.RETENTION, decided for `now_ms`."""
    columns = (*SegmentKey._fields, "deletes", "veto", "deletable_from_ms", "blocked_by")
    rows: list[VerdictRow] = verdicts.select(columns).to_pylist()
    pins = {
        SegmentKey(*partition_of(row), row["blocked_by"])
        for row in rows
        if row["blocked_by"] is not None
    }
    return [_state(row, pins, now_ms) for row in rows]


def _state(row: VerdictRow, pins: Collection[SegmentKey], now_ms: int) -> str:
    since = row["deletable_from_ms"]
    if row["deletes"]:
        return "kept by a guard or a hold" if row["veto"] else "goes now"
    if key_of(row) in pins:
        return "pins others"
    if row["blocked_by"] is not None:
        return "expired, pinned"
    if since is not None and since <= now_ms + DAY_MS:
        return "goes within a day"
    return "goes within a week" if since is not None and since <= now_ms + 7 * DAY_MS else "stays"


def reclaimable(verdicts: pa.Table, now_ms: int) -> list[tuple[str, dict[str, int]]]:
    """Return the bytes by state of each topic.

    Topics with the most bytes not simply kept come first.
    """
    topics: dict[str, dict[str, int]] = {}
    columns = (
        verdicts["topic"].to_pylist(),
        verdicts["bytes"].to_pylist(),
        segment_states(verdicts, now_ms),
    )
    for topic, size, state in zip(*columns, strict=True):
        sizes = topics.setdefault(topic, dict.fromkeys(STATES, 0))
        sizes[state] += size
    return sorted(topics.items(), key=lambda one: (one[1]["stays"] - sum(one[1].values()), one[0]))


def plot_reclaimable(verdicts: pa.Table, now_ms: int, path: Path) -> None:
    """Draw one bar per topic, its bytes by state (plan.RETENTION), as PNG at `path`.

    Raises UsageError when matplotlib is not installed, StorageFailed.
    """
    figure, save = begin_figure()
    bars = reclaimable(verdicts, now_ms)
    shown, rest = bars[:_BARS], bars[_BARS:]
    if rest:
        shown = [
            *shown,
            (f"{len(rest)} others", {s: sum(sizes[s] for _, sizes in rest) for s in STATES}),
        ]
    figure.set_size_inches(9.0, 1.6 + 0.24 * max(len(shown), 5))
    axes = figure.add_subplot()
    left = [0] * len(shown)
    for state, colour in STATES.items():
        widths = [sizes[state] for _, sizes in shown]
        axes.barh(range(len(shown)), widths, left=left, color=colour, label=state)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(
        range(len(shown)),
        [f"{topic}  {size_text(sum(sizes.values()))}" for topic, sizes in shown],
        fontsize=7,
    )
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(lambda size, _: size_text(size))
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False
    )
    figure.suptitle(f"what retention frees, decided for {_shown(now_ms)} UTC", fontsize=10)
    save(path)


def plot_timeline(verdicts: pa.Table, lines: Mapping[str, int], now_ms: int, path: Path) -> None:
    """Draw each segment from its first to its largest timestamp as PNG, a panel per partition.

    Colours show the state. `lines` has per topic the retention line: the time before which records
    are expired. A segment without timestamps is drawn at its file's mtime, hatched. Times more than
    a week in the future are cut off and given as text. Partitions with the most pinned bytes come
    first; the rest is left out. Raises as `plot_reclaimable`.
    """
    figure, save = begin_figure()

    panels = _panels(verdicts, now_ms)[:_PANELS]
    tall = max((min(len(bars), _ROWS) for _, bars in panels), default=1)
    down = max(-(-len(panels) // 2), 1)
    figure.set_size_inches(12.0, 1.2 + down * (1.0 + 0.16 * max(tall, 3)))
    for n, (name, bars) in enumerate(panels):
        line_ms = lines.get(bars[0].row["topic"])
        _panel(figure.add_subplot(down, 2, n + 1), name, bars[:_ROWS], line_ms, now_ms)
    state_legend(figure, STATES)
    figure.suptitle(
        f"segments in time, and the retention line; decided for {_shown(now_ms)} UTC", fontsize=10
    )
    save(path)


def _panels(verdicts: pa.Table, now_ms: int) -> list[tuple[str, list[_Bar]]]:
    """Return (name, segments) per partition, those with most pinned bytes first."""
    partitions: dict[PartitionKey, list[_Bar]] = {}
    for bar in map(_Bar, verdicts.to_pylist(), segment_states(verdicts, now_ms)):
        partitions.setdefault(partition_of(bar.row), []).append(bar)

    def weight(bars: Sequence[_Bar]) -> list[int]:
        order = ("pins others", "expired, pinned", "kept by a guard or a hold", "goes now", "stays")
        return [-sum(bar.row["bytes"] for bar in bars if bar.state == state) for state in order]

    ordered = sorted(partitions.items(), key=lambda item: (weight(item[1]), item[0]))
    several = len({partition.log_dir for partition in partitions}) > 1
    return [
        (str(Path(Path(log_dir).parent.name, name)) if several else name, bars)
        for (log_dir, name), bars in ordered
    ]


def _panel(axes: Axes, name: str, bars: Sequence[_Bar], line_ms: int | None, now_ms: int) -> None:
    latest = now_ms + 7 * DAY_MS
    spans = [_span(bar.row) for bar in bars]
    ends = [min(moment, latest) for span in spans for moment in span]
    low, high = min(ends), max(ends)
    title = name
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
        width = max(end - begin, least) / DAY_MS
        weak = bar.row["largest_timestamp"] < 0
        axes.barh(
            y,
            width,
            left=_days(begin),
            color=STATES[bar.state],
            hatch="///" if weak else None,
            height=0.8,
        )
        if last > latest:
            axes.annotate(
                f" -> {_shown(last)}",
                (_days(end) + width, y),
                fontsize=6,
                va="center",
                annotation_clip=False,
            )
    pad = max((high - low) // 30, 500)
    axes.xaxis_date()
    axes.set_xlim(_days(low - pad), _days(high + pad + least))
    axes.set_yticks(range(len(bars)), [str(bar.row["base_offset"]) for bar in bars], fontsize=6)
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=6)
    axes.set_title(title, fontsize=8)


def _span(row: VerdictRow) -> tuple[int, int]:
    """Return first and largest timestamp, or twice the file's mtime without timestamps."""
    last = row["largest_timestamp"]
    if last < 0:
        return row["mtime_ms"], row["mtime_ms"]
    first = row["first_timestamp"]
    return (last if first is None or first < 0 else min(first, last)), last


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(max(ms, 0), _LATEST_MS))


def _days(ms: int) -> float:
    """Return a time as matplotlib counts it: in days since 1970."""
    return min(max(ms, 0), _LATEST_MS) / DAY_MS


def _shown(ms: int) -> str:
    return f"{_moment(ms):%Y-%m-%d %H:%M}" if ms <= _LATEST_MS else "after the year 9999"
