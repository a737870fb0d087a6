"""Shared by all pictures: a figure without a display, saved as PNG; axes of times and of sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkats.counts import size_text
from kafkats.errors import UsageError, storage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

LABELLED_ROWS: Final = 60
"""Rows of a picture that carry a label; the rest are added up or left out."""
TALLEST_INCHES: Final = 40.0
_SIZE_STEPS: Final = 6
"""At most so many steps on an axis of sizes."""


def short(name: str, most: int = 60) -> str:
    """Return `name` with at most `most` characters: an ellipsis replaces its middle."""
    half = most // 2
    return name if len(name) <= most else f"{name[: half - 1]}…{name[-half:]}"


def date_axis(axes: Axes) -> None:
    """Label the x axis with times in UTC. The date stands at its end where the labels have none."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    formatter = ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator,
        tz="UTC",
        formats=["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%H:%M:%S.%f"],
        zero_formats=["", "%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M:%S"],
        offset_formats=["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"],
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    axes.xaxis.get_offset_text().set_fontsize(7)
    axes.tick_params(axis="x", labelsize=6)


def size_axis(axis: Axis) -> None:
    """Label an axis with bytes. The steps are powers of two, so that binary units are round."""
    from matplotlib.ticker import Locator

    class Steps(Locator):
        def tick_values(self, vmin: float, vmax: float) -> list[float]:
            step = 2 ** max(math.ceil(math.log2(max(vmax - vmin, 1) / _SIZE_STEPS)), 0)
            return [n * step for n in range(math.floor(vmin / step), math.ceil(vmax / step) + 1)]

        def __call__(self) -> list[float]:
            least, most = self.axis.get_view_interval()  # type: ignore[union-attr]
            return self.tick_values(least, most)

    axis.set_major_locator(Steps())
    axis.set_major_formatter(lambda size, _: size_text(size))


def state_legend(figure: Figure, states: Mapping[str, str]) -> None:
    """Add a legend below the picture: a patch for each state, in its colour."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=state) for state, colour in states.items()]
    figure.legend(
        handles=patches, loc="outside lower center", ncols=len(patches), fontsize=8, frameon=False
    )


def side_legend(figure: Figure, axes: Axes) -> None:
    """Show the labels of what was drawn beside the picture."""
    labels = axes.get_legend_handles_labels()
    figure.legend(*labels, loc="outside right upper", fontsize=8, frameon=False)


def stacked_bars(
    axes: Axes,
    bars: Sequence[tuple[str, Sequence[int]]],
    series: Mapping[str, str],
    *,
    shares: bool = False,
) -> None:
    """Draw a bar per name, from the top down: its sizes in bytes, or as shares of their sum.

    `series` are the labels of the sizes, with their colours.
    """
    left = [0.0] * len(bars)
    for n, (label, colour) in enumerate(series.items()):
        widths = [sizes[n] / (max(sum(sizes), 1) if shares else 1) for _, sizes in bars]
        axes.barh(range(len(bars)), widths, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    names = [f"{name}  {size_text(sum(sizes))}" for name, sizes in bars]
    axes.set_yticks(range(len(bars)), names, fontsize=7)
    axes.invert_yaxis()


def begin_figure() -> tuple[Figure, Callable[[Path], None]]:
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
