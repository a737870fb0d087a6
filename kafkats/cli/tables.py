"""A table as text: with bold heads and folded cells for a terminal, in whole lines for a pipe."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Final

_LONGEST_LINE: Final = 100_000
_GAP: Final = "  "


def table_text(head: Mapping[str, bool], rows: Sequence[Sequence[str]], *, tty: bool) -> str:
    """Return the table. `head` has the columns, and whether each has numbers.

    A pipe has no width: its lines are whole, for grep. Neither cells nor lines end with spaces.
    """
    rows = [[cell.rstrip() for cell in row] for row in rows]
    if not tty:
        widths = [len(name) for name in head]
        for row in rows:
            widths = [max(width, len(cell)) for width, cell in zip(widths, row, strict=True)]
        narrow = sum(widths) + len(_GAP) * len(widths) <= _LONGEST_LINE
        if narrow and all(cell.isascii() for row in rows for cell in row):
            numbers = list(head.values())
            lines = [_line(row, widths, numbers) for row in (list(head), *rows)]
            return "\n".join(lines)
    return _rich_text(head, rows, tty=tty)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numbers, strict=True)
    )
    return _GAP.join(padded).rstrip()


def _rich_text(head: Mapping[str, bool], rows: Sequence[Sequence[str]], *, tty: bool) -> str:
    """Return the table by a library that knows terminals and wide letters; it takes 0.1 s."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, number in head.items():
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    lines = io.StringIO()
    width = None if tty else _LONGEST_LINE
    Console(
        file=lines, force_terminal=tty, width=width, markup=False, emoji=False, highlight=False
    ).print(table)
    return "\n".join(line.rstrip() for line in lines.getvalue().rstrip("\n").split("\n"))
