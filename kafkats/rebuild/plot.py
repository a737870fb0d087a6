"""The picture of index health: the worst finding of each segment.

It needs matplotlib (the extra `plot`), which is imported only when a plot is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkats.findings import KINDS
from kafkats.plans.figure import LABELLED_ROWS, TALLEST_INCHES, begin_figure
from kafkats.plans.rows import PartitionKey
from kafkats.rebuild.health import CELLS, FINE, NONE, Health, health_of, palette

Ints: TypeAlias = NDArray[np.uint8]


def plot_health(panels: Mapping[str, pa.Table], path: Path) -> None:
    """Draw one heatmap per panel (title -> facts.SEGMENTS) as PNG at `path`.

    All panels share partitions and colours. Raises UsageError when matplotlib is not installed,
    StorageFailed when `path` cannot be written.
    """
    figure, save = begin_figure()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    grids = {title: health_of(table) for title, table in panels.items()}
    rows = sorted({row for grid in grids.values() for row in grid.partitions})
    present = np.unique(np.concatenate([[0, 1], *(grid.cells for grid in grids.values())]))
    kinds = [CELLS[int(number)] for number in present]
    colours = palette(kinds)
    width = max((int(np.diff(grid.starts).max(initial=1)) for grid in grids.values()), default=1)

    panel_width = min(max(2.5, 0.18 * width), 14.0)
    height = min(max(1.6 + 0.17 * max(len(rows), 6), 0.8 + 0.19 * len(kinds)), TALLEST_INCHES)
    figure.set_size_inches(2.6 + (panel_width + 0.3) * len(grids) + 2.2, height)
    for n, (title, grid) in enumerate(grids.items()):
        axes = figure.add_subplot(1, max(len(grids), 1), n + 1)
        axes.imshow(
            _numbers(grid, rows, present, width),
            cmap=ListedColormap([colours[kind] for kind in kinds]),
            vmin=-0.5,
            vmax=len(kinds) - 0.5,
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_title(title)
        axes.set_xlabel("segment, oldest first")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_yticks(*_labels(rows) if n == 0 else ([], []), fontsize=7)
    legend = [Patch(color=colours[kind], label=_label(kind)) for kind in kinds if kind != NONE]
    figure.legend(handles=legend, loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle("time-index health: worst defect of each segment", fontsize=10)
    save(path)


def _numbers(
    grid: Health, rows: Sequence[PartitionKey], present: Ints, width: int
) -> NDArray[np.int64]:
    """Return the place of each cell in `present`; partitions without segments stay empty."""
    numbers = np.zeros((max(len(rows), 1), width), np.int64)
    at = {row: y for y, row in enumerate(rows)}
    for n, row in enumerate(grid.partitions):
        cells = grid.row(n)
        numbers[at[row], : len(cells)] = np.searchsorted(present, cells)
    return numbers


def _labels(rows: list[PartitionKey]) -> tuple[list[int], list[str]]:
    """Return tick positions and names: up to LABELLED_ROWS partitions, evenly chosen."""
    log_dirs = {log_dir for log_dir, _ in rows}
    shared = os.path.commonpath(log_dirs) if log_dirs else ""
    step = -(-len(rows) // LABELLED_ROWS) or 1
    at = list(range(0, len(rows), step))
    return at, [str(Path(os.path.relpath(rows[y][0], shared), rows[y][1])) for y in at]


def _label(kind: str) -> str:
    return kind if kind == FINE else f"{kind} ({KINDS[kind][0]})"
