"""Plots of reports: time-index health, formats on the disks, and the progress of a migration.

They need matplotlib (the extra `plot`), which is imported only when a plot is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import UsageError, storage
from kafkats.findings import KINDS, SEVERITIES
from kafkats.paths import LOG, TIME_INDEX

FINE: Final = "no defect"
NONE: Final = "no segment"
_COLOURS: Final = {"state": "Greys", "remark": "Blues", "damage": "YlOrRd", "danger": "magma"}
_SPAN: Final = {"state": (0.35, 0.6), "remark": (0.4, 0.8), "damage": (0.3, 1.0), "danger": (0.0, 0.1)}
_LABELLED_ROWS: Final = 60
_TALLEST_INCHES: Final = 40.0
_MAGIC_COLOURS: Final = ("#b2182b", "#f4a582", "#92c5de")
"""Colours of magic 0, 1 and 2."""


def plot_health(panels: Mapping[str, pa.Table], path: Path) -> None:
    """Draw one heatmap per panel (title -> report.SEGMENTS) as PNG at `path`.

    All panels share partitions and colours. Raises UsageError when matplotlib is not installed,
    StorageFailed when `path` cannot be written.
    """
    figure, save = begin_figure()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    grids = {title: worst_kinds(table) for title, table in panels.items()}
    rows = sorted({row for grid in grids.values() for row in grid})
    kinds = _present(grids)
    colours = _palette(kinds)
    width = max((len(cells) for grid in grids.values() for cells in grid.values()), default=1)

    panel_width = min(max(2.5, 0.18 * width), 14.0)
    height = min(1.6 + 0.17 * max(len(rows), 6), _TALLEST_INCHES)
    figure.set_size_inches(2.6 + (panel_width + 0.3) * len(grids) + 2.2, height)
    for n, (title, grid) in enumerate(grids.items()):
        axes = figure.add_subplot(1, max(len(grids), 1), n + 1)
        axes.imshow(
            _numbers(grid, rows, kinds, width),
            cmap=ListedColormap([colours[kind] for kind in kinds]),
            vmin=-0.5,
            vmax=len(kinds) - 0.5,
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_title(title)
        axes.set_xlabel("segment, oldest first")
        axes.set_yticks(*_labels(rows) if n == 0 else ([], []), fontsize=7)
    legend = [Patch(color=colours[kind], label=_label(kind)) for kind in kinds if kind != NONE]
    figure.legend(handles=legend, loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle("time-index health: worst defect of each segment", fontsize=10)
    save(path)


def plot_formats(census: pa.Table, path: Path) -> None:
    """Draw a census (`census.CENSUS`) as PNG: the share of bytes by magic, one bar per topic.

    There is one panel per log directory. Topics with the most bytes below magic 2 come first; the
    rest is one bar. Raises as `plot_health`.
    """
    figure, save = begin_figure()
    panels = format_shares(census)
    most = max((len(bars) for bars in panels.values()), default=1)
    figure.set_size_inches(min(3.0 + 4.0 * max(len(panels), 1), _TALLEST_INCHES), 1.6 + 0.22 * max(most, 6))
    for n, (title, bars) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), n + 1)
        left = np.zeros(len(bars))
        for magic, colour in enumerate(_MAGIC_COLOURS):
            widths = np.array([sizes[magic] / max(sum(sizes), 1) for _, sizes in bars])
            axes.barh(range(len(bars)), widths, left=left, color=colour, label=f"magic {magic}")
            left += widths
        axes.set_yticks(range(len(bars)), [f"{name}  {size_text(sum(sizes))}" for name, sizes in bars], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of bytes")
        axes.set_title(title, fontsize=9)
        if n == len(panels) - 1:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False)
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
    times = [datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms, _ in ordered]
    sizes = np.array([magic_bytes(census) for _, census in ordered], np.float64).reshape(-1, len(_MAGIC_COLOURS))
    for magic, colour in enumerate(_MAGIC_COLOURS):
        axes.plot(times, sizes[:, magic], color=colour, marker="o", markersize=4, label=f"magic {magic}")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda size, _: size_text(size))
    axes.set_xlabel("time of the census (UTC)")
    axes.legend(fontsize=8, frameon=False)
    figure.autofmt_xdate()
    figure.suptitle("bytes by message format", fontsize=10)
    save(path)


def plot_forecast(forecast: pa.Table, actions: pa.Table, path: Path) -> None:
    """Draw sizes and times per partition as PNG at `path`, forecast and actual.

    `forecast` is a table of `forecast.FORECAST`, `actions` of `report.ACTIONS`. The largest
    partitions come first; the smallest are left out if there are many. Raises as `plot_health`.
    """
    figure, save = begin_figure()
    rows = forecast_outcome(forecast, actions)[:_LABELLED_ROWS]
    figure.set_size_inches(10.0, min(1.6 + 0.5 * max(len(rows), 3), _TALLEST_INCHES))
    sizes, times = figure.subplots(1, 2, sharey=True)
    for axes, panel in ((sizes, "bytes"), (times, "seconds")):
        series = [name for name in ("before", "forecast", "outcome") if f"{name}_{panel}" in _OUTCOME]
        for n, name in enumerate(series):
            at = np.arange(len(rows)) + (n - (len(series) - 1) / 2) * 0.8 / len(series)
            axes.barh(at, [row[f"{name}_{panel}"] for row in rows], 0.8 / len(series), label=name, color=_SERIES[name])
        axes.set_xlabel(panel)
    sizes.xaxis.set_major_formatter(lambda size, _: size_text(size))
    sizes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=7)
    sizes.invert_yaxis()
    figure.legend(*sizes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle("forecast and outcome by partition", fontsize=10)
    save(path)


_SERIES: Final = {"before": "#bdbdbd", "forecast": "#92c5de", "outcome": "#2166ac"}
_OUTCOME: Final = ("before_bytes", "forecast_bytes", "outcome_bytes", "forecast_seconds", "outcome_seconds")


def forecast_outcome(forecast: pa.Table, actions: pa.Table) -> list[dict[str, Any]]:
    """Return, per partition with a segment to convert, its name and the numbers of _OUTCOME.

    The largest come first. Sizes are those of the logs. The outcome of an unconverted log is 0.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for segment in forecast.filter(pc.equal(forecast["action"], "convert")).to_pylist():
        row = rows.setdefault((segment["log_dir"], segment["partition_dir"]), dict.fromkeys(_OUTCOME, 0))
        row["before_bytes"] += segment["before_bytes"]
        row["forecast_bytes"] += segment["after_bytes"]
        row["forecast_seconds"] += segment["seconds"]
    for file in actions.filter(pc.is_in(actions["outcome"], pa.array(["done", "already"]))).to_pylist():
        if (where := (file["log_dir"], file["partition_dir"])) in rows:
            rows[where]["outcome_seconds"] += file["seconds"]
            rows[where]["outcome_bytes"] += file["after_bytes"] if file["file"].endswith(LOG) else 0
    shared = os.path.commonpath({log_dir for log_dir, _ in rows}) if rows else ""
    named = [{"name": str(Path(os.path.relpath(key[0], shared), key[1])), **row} for key, row in rows.items()]
    return sorted(named, key=lambda row: (-row["before_bytes"], row["name"]))


def magic_bytes(census: pa.Table) -> list[int]:
    """Return the bytes of magic 0, 1 and 2."""
    sums = census.group_by("magic", use_threads=False).aggregate([("bytes", "sum")]).to_pylist()
    found = {row["magic"]: row["bytes_sum"] for row in sums}
    return [found.get(magic, 0) for magic in range(len(_MAGIC_COLOURS))]


def format_shares(census: pa.Table) -> dict[str, list[tuple[str, list[int]]]]:
    """Return the bars per log directory: all topics together, then (topic, bytes of magic 0, 1, 2).

    Topics with the most bytes below magic 2 come first.
    """
    held = census.filter(pc.greater_equal(census["magic"], 0))
    sums = held.group_by(["log_dir", "topic", "magic"], use_threads=False).aggregate([("bytes", "sum")]).to_pylist()
    topics: dict[str, dict[str, list[int]]] = {}
    for row in sums:
        sizes = topics.setdefault(row["log_dir"], {}).setdefault(row["topic"], [0] * len(_MAGIC_COLOURS))
        sizes[row["magic"]] += row["bytes_sum"]
    return {log_dir: _bars(topics[log_dir]) for log_dir in sorted(topics)}


def _bars(topics: Mapping[str, list[int]]) -> list[tuple[str, list[int]]]:
    bars = sorted(topics.items(), key=lambda bar: (-sum(bar[1][:2]), -sum(bar[1]), bar[0]))
    shown, rest = bars[:_LABELLED_ROWS], bars[_LABELLED_ROWS:]
    others = [(f"{len(rest)} other topics", _together(rest))] if rest else []
    return [("all topics", _together(bars)), *shown, *others]


def _together(bars: Sequence[tuple[str, list[int]]]) -> list[int]:
    return [sum(sizes) for sizes in zip(*(sizes for _, sizes in bars), strict=True)]


def size_text(size: float) -> str:
    """Return a size in bytes with three digits, for axes."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def begin_figure() -> tuple[Any, Callable[[Path], None]]:
    """Return an empty figure, and a function that writes it.

    Raises UsageError when matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise UsageError("the plot needs matplotlib: pip install 'kafkats[plot]'") from e
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)

    def save(path: Path) -> None:
        with storage(path, "writing the plot"):
            figure.savefig(path, dpi=110, format="png")

    return figure, save


def worst_kinds(segments: pa.Table) -> dict[tuple[str, str], list[str]]:
    """Return each segment's worst kind of finding, or FINE, by (log dir, partition directory).

    Segments are in order of base offset. Among findings of one severity those about the time index
    come first.
    """
    real = segments.filter(pc.greater_equal(segments["base_offset"], 0))
    ordered = real.select(["log_dir", "partition_dir", "base_offset", "findings"]).sort_by([
        ("log_dir", "ascending"),
        ("partition_dir", "ascending"),
        ("base_offset", "ascending"),
    ])
    grid: dict[tuple[str, str], list[str]] = {}
    for row in ordered.to_pylist():
        grid.setdefault((row["log_dir"], row["partition_dir"]), []).append(_worst(row["findings"] or []))
    return grid


def _worst(findings: list[dict[str, Any]]) -> str:
    def rank(finding: dict[str, Any]) -> tuple[int, bool]:
        return SEVERITIES.index(finding["severity"]), finding["file"].endswith(TIME_INDEX)

    return str(max(findings, key=rank)["kind"]) if findings else FINE


def _present(grids: Mapping[str, Mapping[tuple[str, str], list[str]]]) -> list[str]:
    """Return the kinds in the grids, harmless first, after NONE and FINE."""
    found = {kind for grid in grids.values() for cells in grid.values() for kind in cells} - {FINE}
    order = list(KINDS)
    return [NONE, FINE, *sorted(found, key=lambda kind: (SEVERITIES.index(KINDS[kind][0]), order.index(kind)))]


def _palette(kinds: list[str]) -> dict[str, Any]:
    from matplotlib import colormaps

    chosen: dict[str, Any] = {NONE: "#ffffff", FINE: "#b7dfb9"}
    for severity in SEVERITIES:
        of_it = [kind for kind in kinds if kind in KINDS and KINDS[kind][0] == severity]
        shades = np.linspace(*_SPAN[severity], max(len(of_it), 1))
        chosen |= {kind: colormaps[_COLOURS[severity]](shade) for kind, shade in zip(of_it, shades, strict=False)}
    return chosen


def _numbers(
    grid: Mapping[tuple[str, str], list[str]], rows: list[tuple[str, str]], kinds: list[str], width: int
) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    numbers = np.zeros((max(len(rows), 1), width), np.int16)
    for y, row in enumerate(rows):
        cells = grid.get(row, [])
        numbers[y, : len(cells)] = [kinds.index(kind) for kind in cells]
    return numbers


def _labels(rows: list[tuple[str, str]]) -> tuple[list[int], list[str]]:
    """Return tick positions and names: up to _LABELLED_ROWS partitions, evenly chosen."""
    log_dirs = {log_dir for log_dir, _ in rows}
    shared = os.path.commonpath(log_dirs) if log_dirs else ""
    step = -(-len(rows) // _LABELLED_ROWS) or 1
    at = list(range(0, len(rows), step))
    return at, [str(Path(os.path.relpath(rows[y][0], shared), rows[y][1])) for y in at]


def _label(kind: str) -> str:
    return kind if kind == FINE else f"{kind} ({KINDS[kind][0]})"
