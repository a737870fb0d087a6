"""Shared by all pictures: a figure without a display, saved as PNG; sizes as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkats.errors import UsageError, storage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELLED_ROWS: Final = 60
"""Rows of a picture that carry a label; the rest are added up or left out."""
TALLEST_INCHES: Final = 40.0


def size_text(size: float) -> str:
    """Return a size in bytes with three digits, for axes."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def state_legend(figure: Figure, states: Mapping[str, str]) -> None:
    """Add a legend below the picture: a patch for each state, in its colour."""
    from matplotlib.patches import Patch

    patches = [Patch(color=colour, label=state) for state, colour in states.items()]
    figure.legend(
        handles=patches, loc="outside lower center", ncols=len(patches), fontsize=8, frameon=False
    )


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
