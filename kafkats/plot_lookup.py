"""The pictures of looking up: which offset a table gives for a time, over the records themselves; how late these came; what a table covers.

Needs matplotlib (the extra `plot`), as kafkats.plot does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.plot import begin_figure
from kafkats.segment.columns import columns
from kafkats.segment.reader import open_source
from kafkats.tables import View, closed

Ints = NDArray[np.int64]
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
STATES: Final = {"not built": "#f0f0f0", "closed": "#67a9cf", "some open": "#e08214", "some unreadable": "#b2182b"}
"""Of an hour of a table; with its colour."""
_PANELS: Final = 12
_DAYS: Final = 92
_POINTS: Final = 20_000
_NONE: Final = np.empty(0, np.int64)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_000
"""The last that a calendar can show."""


class Cloud(NamedTuple):
    """Records in the order of the log: times (ms) and offsets, int64, both of shape (n,)."""

    timestamp: Ints
    offset: Ints

    @property
    def lateness(self) -> Ints:
        """By how much (ms) each record is older than the newest before it; 0 where it is not."""
        return np.maximum.accumulate(self.timestamp) - self.timestamp


def read_cloud(partition: Path) -> Cloud:
    """All records of a partition's segments that have a time. Raises CorruptBatch, Changed, Vanished, StorageFailed."""
    times, offsets = [_NONE], [_NONE]
    for log in sorted(partition.glob("[0-9]*.log")):
        with open_source(log) as source:
            for chunk in columns(source, control=False, key=False, value=False, headers=False):
                has = chunk.timestamp >= 0
                times.append(chunk.timestamp[has])
                offsets.append(chunk.offset[has])
    return Cloud(np.concatenate(times), np.concatenate(offsets))


def plot_staircase(view: View, clouds: Mapping[tuple[str, int], Cloud], path: Path) -> None:
    """Draw, a panel per partition, what the table answers for each time as a line, over its records as points, as PNG at `path`.

    No record that is to the right of a step lies below it, else the answer missed it; but those below the log start do, which are
    still in their segment. Partitions with the most different answers come first; what does not fit is left out. Raises UsageError when matplotlib is not installed, StorageFailed.
    """
    figure, save = begin_figure()
    steps = {key: _cells(view, number) for number, key in enumerate(view.partitions)}
    chosen = sorted(steps, key=lambda key: (-len(np.unique(steps[key][1])), key))[:_PANELS]
    down = max(-(-len(chosen) // 2), 1)
    figure.set_size_inches(12.0, 1.0 + 2.2 * down)
    for number, key in enumerate(chosen):
        axes = figure.add_subplot(down, 2, number + 1)
        _stairs(axes, *steps[key], clouds.get(key), view.step_ms)
        axes.set_title(f"{key[0]}-{key[1]}", fontsize=8)
        axes.tick_params(labelsize=6)
    figure.suptitle("the first offset of a time or later (line), and the records (points)", fontsize=10)
    save(path)


def _cells(view: View, number: int) -> tuple[Ints, Ints]:
    """Times and offsets of a partition's closed cells."""
    topic, partition = view.partitions[number]
    mine = pc.and_(pc.equal(view.rows["topic"].cast("string"), topic), pc.equal(view.rows["partition"], partition))
    rows = view.rows.filter(mine)
    rows = rows.filter(closed(rows))
    return rows["timestamp"].to_numpy(), rows["offset"].to_numpy()


def _stairs(axes: Any, times: Ints, offsets: Ints, cloud: Cloud | None, step_ms: int) -> None:
    if len(times):
        # One point per change is enough, and where cells are missing the line is broken.
        edges = np.flatnonzero(np.concatenate(([True], (np.diff(offsets) != 0) | (np.diff(times) != step_ms))))
        ends = np.append(edges[1:], len(times)) - 1
        left, right = np.minimum(times[edges], _LATEST_MS), np.minimum(times[ends] + step_ms, _LATEST_MS)
        axes.hlines(offsets[edges], _moments(left), _moments(right), color="#2166ac", linewidth=1.5)
    shown = _NONE if cloud is None or not len(times) else _inside(cloud, int(times.min()), int(times.max()) + step_ms)
    if cloud is not None and len(shown):
        axes.plot(_moments(cloud.timestamp[shown]), cloud.offset[shown], ".", color="#e08214", markersize=3, zorder=3)
        # Where records are, not the hours before and after them, in which nothing changes.
        first, last = int(cloud.timestamp[shown].min()), int(cloud.timestamp[shown].max())
        pad = max((last - first) // 20, 2 * step_ms)
        axes.set_xlim(*_moments(np.array([first - pad, last + pad])))
    if not len(times):
        axes.text(
            0.5,
            0.5,
            "no record of these times or later",
            ha="center",
            va="center",
            transform=axes.transAxes,
            fontsize=7,
        )
        axes.set_xticks([])
        axes.set_yticks([])
    axes.set_ylabel("offset", fontsize=6)


def _inside(cloud: Cloud, begin: int, end: int) -> Ints:
    """Which records are of the time from `begin` to `end`; not more than can be told apart."""
    near = np.flatnonzero((cloud.timestamp >= begin) & (cloud.timestamp < min(end, _LATEST_MS)))
    return near[:: max(len(near) // _POINTS, 1)]


def plot_disorder(clouds: Mapping[tuple[str, int], Cloud], path: Path) -> None:
    """Draw how many records came how much later than newer ones, of all partitions, as PNG at `path`. Raises as `plot_staircase`."""
    figure, save = begin_figure()
    late = np.concatenate([_NONE, *(cloud.lateness for cloud in clouds.values())])
    edges = np.array([1, 10, 100, 1000, 10_000, 60_000, 600_000, HOUR_MS, DAY_MS, 30 * DAY_MS, 2**62])
    names = [
        "in order",
        "< 10 ms",
        "< 100 ms",
        "< 1 s",
        "< 10 s",
        "< 1 min",
        "< 10 min",
        "< 1 h",
        "< 1 d",
        "< 30 d",
        "more",
    ]
    counts = np.bincount(np.searchsorted(edges, late, side="right").clip(0, len(names) - 1), minlength=len(names))
    figure.set_size_inches(8.0, 3.2)
    axes = figure.add_subplot()
    axes.bar(range(len(names)), counts, color=["#67a9cf"] + ["#e08214"] * (len(names) - 1))
    axes.set_yscale("symlog")
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.set_ylabel("records", fontsize=8)
    figure.suptitle("how much older records are than the newest before them", fontsize=10)
    save(path)


def coverage(view: View) -> tuple[int, NDArray[np.int8]]:
    """The first day (ms), and the state of each hour from then on as its number in STATES, shape (days, 24); the last days only."""
    if not view.covered:
        return 0, np.zeros((0, 24), np.int8)
    first, last = view.covered[0][0] // DAY_MS, -(-view.covered[-1][1] // DAY_MS)
    first = max(first, last - _DAYS)
    hours = np.zeros((last - first) * 24, np.int8)
    for begin, end in view.covered:
        low, high = begin // HOUR_MS - first * 24, -(-end // HOUR_MS) - first * 24
        hours[max(low, 0) : max(high, 0)] = 1
    hour = view.rows["timestamp"].to_numpy() // HOUR_MS - first * 24
    unreadable = pc.equal(view.rows["reason"].cast("string"), "unreadable").to_numpy()
    for state, rows in ((2, ~closed(view.rows)), (3, unreadable)):
        hours[hour[rows & (hour >= 0)]] = state
    return first * DAY_MS, hours.reshape(-1, 24)


def plot_calendar(view: View, path: Path) -> None:
    """Draw which hours of which days a table has, and where cells are open or unreadable, as PNG at `path`. Raises as `plot_staircase`."""
    figure, save = begin_figure()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    first, days = coverage(view)
    figure.set_size_inches(8.0, 1.6 + 0.2 * max(len(days), 4))
    axes = figure.add_subplot()
    if len(days):
        axes.pcolormesh(
            days, cmap=ListedColormap(list(STATES.values())), vmin=0, vmax=len(STATES) - 1, edgecolors="white"
        )
    names = [f"{_moment(first + n * DAY_MS):%Y-%m-%d}" for n in range(len(days))]
    axes.set_yticks(np.arange(len(days)) + 0.5, names, fontsize=7)
    axes.set_xticks(range(0, 25, 3), [f"{hour:02}:00" for hour in range(0, 25, 3)], fontsize=7)
    axes.invert_yaxis()
    patches = [Patch(color=colour, label=state) for state, colour in STATES.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), fontsize=8, frameon=False)
    figure.suptitle(f"hours of the table, UTC; a cell every {view.step_ms / 1000:g} s", fontsize=10)
    save(path)


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=min(max(ms, 0), _LATEST_MS))


def _moments(times: Ints) -> NDArray[np.datetime64]:
    return times.astype("datetime64[ms]")
