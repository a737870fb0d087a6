"""The picture of index health: the worst finding of each segment.

It needs matplotlib (the extra `plot`), which is imported only when a plot is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats.findings import KINDS, SEVERITIES
from kafkats.paths import TIME_INDEX
from kafkats.plans.figure import LABELLED_ROWS, TALLEST_INCHES, begin_figure
from kafkats.plans.rows import FindingRow, PartitionKey, SegmentKey, partition_of, segment_rows

FINE: Final = "no defect"
NONE: Final = "no segment"
_SHADES: Final = {
    "state": ("#d4d4d4", "#7f7f7f"),
    "remark": ("#a6d3ef", "#0072b2"),
    "damage": ("#f5b87a", "#b34700"),
    "danger": ("#6b2452", "#1a0014"),
}
"""One hue per severity, from the light to the dark shade of its kinds, for the colour-blind too."""

Grid: TypeAlias = dict[PartitionKey, list[str]]
"""The worst kind of finding of each segment, or FINE, by partition."""


def plot_health(panels: Mapping[str, pa.Table], path: Path) -> None:
    """Draw one heatmap per panel (title -> facts.SEGMENTS) as PNG at `path`.

    All panels share partitions and colours. Raises UsageError when matplotlib is not installed,
    StorageFailed when `path` cannot be written.
    """
    figure, save = begin_figure()
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    grids = {title: worst_kinds(table) for title, table in panels.items()}
    rows = sorted({row for grid in grids.values() for row in grid})
    kinds = _present(grids)
    colours = palette(kinds)
    width = max((len(cells) for grid in grids.values() for cells in grid.values()), default=1)

    panel_width = min(max(2.5, 0.18 * width), 14.0)
    height = min(max(1.6 + 0.17 * max(len(rows), 6), 0.8 + 0.19 * len(kinds)), TALLEST_INCHES)
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
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.set_yticks(*_labels(rows) if n == 0 else ([], []), fontsize=7)
    legend = [Patch(color=colours[kind], label=_label(kind)) for kind in kinds if kind != NONE]
    figure.legend(handles=legend, loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle("time-index health: worst defect of each segment", fontsize=10)
    save(path)


def worst_kinds(segments: pa.Table) -> Grid:
    """Return each segment's worst kind of finding.

    Segments are in order of base offset. Among findings of one severity those about the time index
    come first.
    """
    real = segments.filter(pc.greater_equal(segments["base_offset"], 0))
    order = [(name, "ascending") for name in SegmentKey._fields]
    grid: Grid = {}
    for row in segment_rows(real.select([*SegmentKey._fields, "findings"]).sort_by(order)):
        grid.setdefault(partition_of(row), []).append(_worst(row["findings"] or []))
    return grid


def _worst(findings: Sequence[FindingRow]) -> str:
    def rank(finding: FindingRow) -> tuple[int, bool]:
        return SEVERITIES.index(finding["severity"]), finding["file"].endswith(TIME_INDEX)

    return max(findings, key=rank)["kind"] if findings else FINE


def _present(grids: Mapping[str, Grid]) -> list[str]:
    """Return the kinds in the grids, harmless first, after NONE and FINE."""
    present = {kind for grid in grids.values() for cells in grid.values() for kind in cells} - {
        FINE
    }
    order = list(KINDS)
    return [
        NONE,
        FINE,
        *sorted(present, key=lambda kind: (SEVERITIES.index(KINDS[kind][0]), order.index(kind))),
    ]


def palette(kinds: Sequence[str]) -> dict[str, str]:
    """Return a colour (#rrggbb) for each kind of finding, NONE and FINE. A severity has one hue."""
    chosen = {NONE: "#ffffff", FINE: "#d9efe6"}
    for severity in SEVERITIES:
        of_it = [kind for kind in kinds if kind in KINDS and KINDS[kind][0] == severity]
        light, dark = (_rgb(colour) for colour in _SHADES[severity])
        for n, kind in enumerate(of_it):
            share = n / max(len(of_it) - 1, 1)
            mixed = (round(a + (b - a) * share) for a, b in zip(light, dark, strict=True))
            chosen[kind] = "#" + "".join(f"{part:02x}" for part in mixed)
    return chosen


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def _numbers(
    grid: Grid,
    rows: list[PartitionKey],
    kinds: list[str],
    width: int,
) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    numbers = np.zeros((max(len(rows), 1), width), np.int16)
    for y, row in enumerate(rows):
        cells = grid.get(row, [])
        numbers[y, : len(cells)] = [kinds.index(kind) for kind in cells]
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
