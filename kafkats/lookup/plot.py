"""Plots of lookups: a table's answers over the records, lateness of records, coverage.

They need matplotlib (the extra `plot`), which is imported only when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kafkats.clock import DAY_MS, HOUR_MS, utc_text
from kafkats.counts import counted
from kafkats.lookup.marks import Mark
from kafkats.lookup.record_scatter import LATE, Cloud
from kafkats.plans.figure import begin_figure, date_axis, short, state_legend
from kafkats.tables import Manifest, OpenRun, Steps, View, busiest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints = NDArray[np.int64]
STATES: Final = {
    "not built": "#f0f0f0",
    "closed": "#56b4e9",
    "some open": "#e69f00",
    "some unreadable": "#d55e00",
}
"""States of an hour of a table, with their colours."""
_DAYS: Final = 92
_NAMED: Final = 6
_FEW_OFFSETS: Final = 4
"""A panel shows at least so many offsets, or its ticks would be fractions."""
_NONE: Final = np.empty(0, np.int64)
_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_000
"""The years 1 to 9999, the range of a calendar."""


def plot_staircase(
    view: View, clouds: Mapping[tuple[str, int], Cloud], path: Path, *, marks: Sequence[Mark] = ()
) -> None:
    """Draw a table's answers as PNG: a line over the records as points, a panel per partition.

    `marks` are answers to show. A record to the right of a step must not lie below it: the answer
    would have missed it. The `tables.busiest` partitions come first; the rest is left out. Raises
    UsageError when matplotlib is not installed, StorageFailed.
    """
    figure, save = begin_figure()
    chosen = busiest(view.rows)
    drawn = {key: steps for key in chosen if len((steps := view.steps(*key)).begins)}
    down = max(-(-len(drawn) // 2), 1)
    figure.set_size_inches(12.0, 1.4 + 2.2 * down)
    for number, (key, steps) in enumerate(drawn.items()):
        axes = figure.add_subplot(down, min(len(drawn), 2), number + 1)
        _stairs(axes, steps, clouds.get(key), view.step_ms)
        _show_marks(
            axes, [mark for mark in marks if (mark.topic, mark.partition) == key and not mark.word]
        )
        _label_axes(axes, key)
    title = "the first offset of a time or later (line), and the records (points)"
    figure.suptitle(f"{title}; the times asked for (rings); UTC" if marks else title, fontsize=10)
    figure.supxlabel(_without(drawn, chosen), fontsize=8)
    save(path)


def _without(drawn: Collection[tuple[str, int]], chosen: Sequence[tuple[str, int]]) -> str:
    """Return a sentence on the partitions that have no panel."""
    names = [short(f"{topic}-{n}", 40) for topic, n in chosen if (topic, n) not in drawn]
    if not names:
        return "" if chosen else "no partition has an answer"
    shown, rest = names[:_NAMED], len(names) - _NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"no record of these times or later: {', '.join(shown)}{more}"


def _label_axes(axes: Axes, key: tuple[str, int]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    low, high = axes.get_ylim()
    if high - low < _FEW_OFFSETS:
        least = max(low - _FEW_OFFSETS / 2, -0.5)
        axes.set_ylim(least, max(high, least) + _FEW_OFFSETS)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.set_ylabel("offset", fontsize=6)
    axes.set_title(short(f"{key[0]}-{key[1]}"), fontsize=8)
    axes.tick_params(labelsize=6)
    date_axis(axes)


def _stairs(axes: Axes, steps: Steps, cloud: Cloud | None, step_ms: int) -> None:
    """Draw the steps of a partition, at least one. The line breaks where cells are missing."""
    left, right = (np.clip(ms, _EARLIEST_MS, _LATEST_MS) for ms in (steps.begins, steps.ends))
    axes.hlines(steps.offsets, _moments(left), _moments(right), color="#0072b2", linewidth=1.5)
    begin, end = int(steps.begins.min()), int(steps.ends.max())
    shown = _NONE if cloud is None else _inside(cloud, begin, end)
    if cloud is not None and len(shown):
        axes.plot(
            _moments(cloud.timestamp[shown]),
            cloud.offset[shown],
            ".",
            color="#e69f00",
            markersize=3,
            zorder=3,
        )
        # Show the time of the records only, not the hours before and after them without changes.
        first, last = int(cloud.timestamp[shown].min()), int(cloud.timestamp[shown].max())
        pad = max((last - first) // 20, 2 * step_ms)
        axes.set_xlim(*_moments(np.array([first - pad, last + pad])))


def _inside(cloud: Cloud, begin: int, end: int) -> Ints:
    """Return which records are of the time from `begin` to `end`."""
    return np.flatnonzero(
        (cloud.timestamp >= max(begin, _EARLIEST_MS)) & (cloud.timestamp < min(end, _LATEST_MS))
    )


def _show_marks(axes: Axes, marks: Iterable[Mark]) -> None:
    """Draw a line at each time, and a ring where it meets the offset."""
    from matplotlib.dates import date2num

    for mark in marks:
        at = _moments(np.array([min(max(mark.target_ms, _EARLIEST_MS), _LATEST_MS)]))[0]
        axes.axvline(at, color="#d55e00", linewidth=0.8, linestyle="--")
        low, high = axes.get_xlim()
        number = float(date2num(at))  # type: ignore[no-untyped-call]
        margin = (high - low) / 40
        axes.set_xlim(min(low, number - margin), max(high, number + margin))
        if mark.offset >= 0:
            axes.plot(
                [at], [mark.offset], "o", color="#d55e00", markersize=6, fillstyle="none", zorder=4
            )


def plot_disorder(clouds: Mapping[tuple[str, int], Cloud], path: Path) -> None:
    """Draw how many records came how late, of all partitions, as PNG at `path`.

    Raises as `plot_staircase`.
    """
    figure, save = begin_figure()
    names = list(LATE)
    counts = np.sum(
        [np.zeros(len(names), np.int64), *(cloud.late for cloud in clouds.values())], axis=0
    )
    figure.set_size_inches(8.0, 3.2)
    axes = figure.add_subplot()
    axes.bar(range(len(names)), counts, color=["#56b4e9"] + ["#e69f00"] * (len(names) - 1))
    axes.set_yscale("symlog")
    axes.set_xticks(range(len(names)), names, fontsize=7)
    axes.set_ylabel("records", fontsize=8)
    figure.suptitle("how much older records are than the newest before them", fontsize=10)
    save(path)


def coverage(
    covered: Sequence[tuple[int, int]],
    runs: Iterable[OpenRun],
    around: tuple[int, int] | None = None,
) -> tuple[int, NDArray[np.int8]]:
    """Return the first day (ms) and the state of each hour from then on, shape (days, 24).

    States are numbers in STATES. At most 92 days are included: the last ones, or those of the times
    `around` (ms, end exclusive) and before, also where the table does not cover these.
    """
    if not covered:
        return 0, np.zeros((0, 24), np.int8)
    first, last = covered[0][0] // DAY_MS, -(-covered[-1][1] // DAY_MS)
    if around is not None:
        begin, end = around[0] // DAY_MS, -(-around[1] // DAY_MS)
        last = min(end + _DAYS // 3, max(last, end), begin + _DAYS)
        first = min(first, begin)
    first = max(first, last - _DAYS)
    hours = np.zeros((last - first) * 24, np.int8)
    spans = [(begin, end, 1) for begin, end in covered]
    spans += [(run.from_ms, run.to_ms, 3 if run.reason == "unreadable" else 2) for run in runs]
    for begin, end, state in spans:
        low, high = begin // HOUR_MS - first * 24, -(-end // HOUR_MS) - first * 24
        some = slice(max(low, 0), max(high, 0))
        hours[some] = np.maximum(hours[some], state)
    return first * DAY_MS, hours.reshape(-1, 24)


def plot_calendar(
    manifest: Manifest,
    runs: Iterable[OpenRun],
    path: Path,
    *,
    around: tuple[int, int] | None = None,
    asked: Iterable[int] = (),
) -> None:
    """Draw the hours of each day that a table has, and those with open or unreadable cells, as PNG.

    `tables.open_runs` returns `manifest` and `runs`. The picture shows the days of `around`, else
    the last ones (`coverage`), and rings at the times `asked` for (ms). Raises as `plot_staircase`.
    """
    figure, save = begin_figure()
    from matplotlib.colors import ListedColormap

    first, days = coverage(manifest.covered, runs, around)
    figure.set_size_inches(8.0, 2.0 + 0.2 * max(len(days), 4))
    axes = figure.add_subplot()
    if len(days):
        axes.pcolormesh(
            days,
            cmap=ListedColormap(list(STATES.values())),
            vmin=0,
            vmax=len(STATES) - 1,
            edgecolors="white",
        )
    for at in asked:
        day, rest = divmod(at - first, DAY_MS)
        if 0 <= day < len(days):
            axes.plot([rest / HOUR_MS], [day + 0.5], "o", color="black", fillstyle="none")
    names = [f"{_day(first + n * DAY_MS)}" for n in range(len(days))]
    axes.set_yticks(np.arange(len(days)) + 0.5, names, fontsize=7)
    axes.set_xticks(range(0, 25, 3), [f"{hour:02}:00" for hour in range(0, 25, 3)], fontsize=7)
    axes.set_xlim(0, 24)
    axes.invert_yaxis()
    drawn = np.unique(days)
    state_legend(figure, {s: colour for n, (s, colour) in enumerate(STATES.items()) if n in drawn})
    figure.suptitle(
        f"hours of the table, UTC; a cell every {manifest.step_ms / 1000:g} s\n"
        f"{_shown_of(manifest, first, len(days))}",
        fontsize=10,
    )
    save(path)


def _shown_of(manifest: Manifest, first: int, days: int) -> str:
    """Return a sentence on the part of a table that a calendar shows."""
    if not manifest.covered:
        return "the table has no hour"
    begin, end = manifest.covered[0][0], manifest.covered[-1][1] - 1
    whole = f"the table begins on {_day(begin)} and ends on {_day(end)}"
    return f"{whole}; shown: {counted(days, 'day')} from {_day(first)} on"


def _day(ms: int) -> str:
    return utc_text(min(max(ms, _EARLIEST_MS), _LATEST_MS))[:10]


def _moments(times: Ints) -> NDArray[np.datetime64]:
    return times.astype("datetime64[ms]")
