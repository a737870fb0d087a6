"""Pictures of a migration: formats on the disks, burn-down, forecast against outcome.

They need matplotlib (the extra `plot`), which is imported only when a picture is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats.counts import counted
from kafkats.paths import LOG
from kafkats.plans.figure import (
    LABELLED_ROWS,
    TALLEST_INCHES,
    begin_figure,
    side_legend,
    size_axis,
    stacked_bars,
)
from kafkats.plans.rows import grouped
from kafkats.plans.run import WROTE

_MAGICS: Final = {"magic 0": "#b2182b", "magic 1": "#f4a582", "magic 2": "#92c5de"}
"""Colours of magic 0, 1 and 2."""


def plot_formats(census: pa.Table, path: Path) -> None:
    """Draw a census (`census.CENSUS`) as PNG: the share of bytes by magic, one bar per topic.

    There is one panel per log directory. Topics with the most bytes below magic 2 come first; the
    rest is one bar. Raises as `plot_health`.
    """
    figure, save = begin_figure()
    panels = format_shares(census)
    most = max((len(bars) for bars in panels.values()), default=1)
    figure.set_size_inches(
        min(3.0 + 4.0 * max(len(panels), 1), TALLEST_INCHES), 1.6 + 0.22 * max(most, 6)
    )
    for n, (title, bars) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), n + 1)
        stacked_bars(axes, bars, _MAGICS, shares=True)
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of bytes")
        axes.set_title(title, fontsize=9)
        if n == len(panels) - 1:
            side_legend(figure, axes)
    figure.suptitle("message formats by topic", fontsize=10)
    save(path)


def plot_burn_down(runs: Sequence[tuple[int, pa.Table]], path: Path) -> None:
    """Draw the bytes of each magic over time as PNG at `path`.

    `runs` are censuses with their times in epoch milliseconds. Raises as `plot_health`.
    """
    figure, save = begin_figure()
    figure.set_size_inches(8.0, 4.0)
    axes = figure.add_subplot()
    ordered = sorted(runs, key=lambda run: run[0])
    times = np.array([at_ms for at_ms, _ in ordered], "datetime64[ms]")
    sizes = np.array([magic_bytes(census) for _, census in ordered], np.float64).reshape(
        -1, len(_MAGICS)
    )
    for magic, (label, colour) in enumerate(_MAGICS.items()):
        axes.plot(times, sizes[:, magic], color=colour, marker="o", markersize=4, label=label)
    axes.set_ylim(bottom=0)
    size_axis(axes.yaxis)
    axes.set_xlabel("time of the census (UTC)")
    axes.legend(fontsize=8, frameon=False)
    figure.autofmt_xdate()
    figure.suptitle("bytes by message format", fontsize=10)
    save(path)


def plot_forecast(forecast: Iterable[pa.Table], actions: Iterable[pa.Table], path: Path) -> None:
    """Draw sizes and times per partition as PNG at `path`, forecast and actual.

    `forecast` are pieces of a table of `forecast.FORECAST`, `actions` of `facts.ACTIONS`. The
    largest partitions come first; the smallest are left out if there are many. Raises as
    `plot_health`.
    """
    figure, save = begin_figure()
    rows = forecast_outcome(forecast, actions)[:LABELLED_ROWS]
    figure.set_size_inches(10.0, min(1.6 + 0.5 * max(len(rows), 3), TALLEST_INCHES))
    sizes, times = figure.subplots(1, 2, sharey=True)
    for axes, panel in ((sizes, "bytes"), (times, "seconds")):
        series = [name for name in _SERIES if hasattr(Outcome, f"{name}_{panel}")]
        for n, name in enumerate(series):
            at = np.arange(len(rows)) + (n - (len(series) - 1) / 2) * 0.8 / len(series)
            axes.barh(
                at,
                [getattr(row, f"{name}_{panel}") for row in rows],
                0.8 / len(series),
                label=name,
                color=_SERIES[name],
            )
        axes.set_xlabel(panel)
    size_axis(sizes.xaxis)
    sizes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=7)
    sizes.invert_yaxis()
    side_legend(figure, sizes)
    figure.suptitle("forecast and outcome by partition", fontsize=10)
    save(path)


_SERIES: Final = {"before": "#bdbdbd", "forecast": "#92c5de", "outcome": "#2166ac"}


@dataclass
class Outcome:
    """A partition's sizes and times, forecast and actual."""

    name: str = ""
    before_bytes: int = 0
    forecast_bytes: int = 0
    outcome_bytes: int = 0
    forecast_seconds: float = 0
    outcome_seconds: float = 0


def forecast_outcome(forecast: Iterable[pa.Table], actions: Iterable[pa.Table]) -> list[Outcome]:
    """Return the outcome of each partition with a segment to convert, from pieces of both tables.

    The largest come first. Sizes are those of the logs. The outcome of an unconverted log is 0.
    """
    rows: dict[tuple[str, str], Outcome] = {}
    for segment in _rows_with(forecast, "action", ["convert"]):
        row = rows.setdefault((segment["log_dir"], segment["partition_dir"]), Outcome())
        row.before_bytes += segment["before_bytes"]
        row.forecast_bytes += segment["after_bytes"]
        row.forecast_seconds += segment["seconds"]
    for file in _rows_with(actions, "outcome", WROTE):
        if (where := (file["log_dir"], file["partition_dir"])) in rows:
            rows[where].outcome_seconds += file["seconds"]
            rows[where].outcome_bytes += file["after_bytes"] if file["file"].endswith(LOG) else 0
    shared = os.path.commonpath({log_dir for log_dir, _ in rows}) if rows else ""
    for (log_dir, partition_dir), row in rows.items():
        row.name = str(Path(os.path.relpath(log_dir, shared), partition_dir))
    return sorted(rows.values(), key=lambda row: (-row.before_bytes, row.name))


def _rows_with(
    pieces: Iterable[pa.Table], name: str, values: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows that have one of these values in a column."""
    for piece in pieces:
        yield from piece.filter(pc.is_in(piece[name], pa.array(values))).to_pylist()


def magic_bytes(census: pa.Table) -> list[int]:
    """Return the bytes of magic 0, 1 and 2."""
    sums = grouped(census, "magic", [("bytes", "sum")]).to_pylist()
    sizes = {row["magic"]: row["bytes_sum"] for row in sums}
    return [sizes.get(magic, 0) for magic in range(len(_MAGICS))]


def format_shares(census: pa.Table) -> dict[str, list[tuple[str, list[int]]]]:
    """Return the bars per log directory: all topics together, then (topic, bytes of magic 0, 1, 2).

    Topics with the most bytes below magic 2 come first.
    """
    held = census.filter(pc.greater_equal(census["magic"], 0))
    sums = grouped(held, ["log_dir", "topic", "magic"], [("bytes", "sum")]).to_pylist()
    topics: dict[str, dict[str, list[int]]] = {}
    for row in sums:
        sizes = topics.setdefault(row["log_dir"], {}).setdefault(row["topic"], [0] * len(_MAGICS))
        sizes[row["magic"]] += row["bytes_sum"]
    return {log_dir: _bars(topics[log_dir]) for log_dir in sorted(topics)}


def _bars(topics: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
    bars = sorted(topics.items(), key=lambda bar: (-sum(bar[1][:2]), -sum(bar[1]), bar[0]))
    shown, rest = bars[:LABELLED_ROWS], bars[LABELLED_ROWS:]
    others = [(counted(len(rest), "other topic"), _together(rest))] if rest else []
    return [("all topics", _together(bars)), *shown, *others]


def _together(bars: Sequence[tuple[str, list[int]]]) -> list[int]:
    return [sum(sizes) for sizes in zip(*(sizes for _, sizes in bars), strict=True)]
