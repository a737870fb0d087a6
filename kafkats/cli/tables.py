"""A table as text: in whole lines for a pipe, within the columns of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

import click

_WIDEST: Final = 1000
"""A longer cell does not widen its column for other rows."""
_LEAST_TEXT: Final = 30
"""Columns of a terminal in which sentences are wrapped beside the other cells."""
_GAP: Final = "  "
_SMALL_GAP: Final = " "
_INDENT: Final = "    "

Heads: TypeAlias = Sequence[tuple[Sequence[str], bool]]
"""The lines of each column's name, and whether it has numbers."""
Rows: TypeAlias = Sequence[Sequence[str]]


def table_text(head: Mapping[str, bool], rows: Rows, *, columns: int | None) -> str:
    """Return the table. `head` has the columns, and whether each has numbers.

    `columns` is the width of a terminal, None for a pipe: its lines are whole, for grep. For a
    terminal that is too narrow, names of columns take several lines; then the last column is
    wrapped, or goes below its row, if it has sentences; then columns are one space apart; then each
    row becomes names and values. No other cell is cut. Neither cells nor lines end with spaces.
    """
    rows = [[cell.rstrip() for cell in row] for row in rows]
    heads: Heads = [([name], number) for name, number in head.items()]
    if columns is not None and _needed(heads, rows) > columns:
        heads = [(name.split(" "), number) for name, number in head.items()]
        if _needed(heads, rows) > columns:
            return "\n".join(_narrow(heads, rows, columns))
    return "\n".join(_lines(heads, rows, bold=columns is not None))


def _narrow(heads: Heads, rows: Rows, columns: int) -> Iterator[str]:
    """Yield the lines of a table that is wider than the terminal."""
    room = columns - _needed(heads[:-1], [row[:-1] for row in rows]) - len(_GAP)
    if not any(" " in row[-1] for row in rows) or len(heads) == 1 or room < -len(_GAP):
        if _needed(heads, rows, _SMALL_GAP) <= columns:
            yield from _lines(heads, rows, bold=True, gap=_SMALL_GAP)
        else:
            yield from _named(heads, rows, columns)
    elif room >= max(_LEAST_TEXT, *(len(word) for row in rows for word in row[-1].split())):
        wrapped = [
            [*([""] * (len(row) - 1) if n else row[:-1]), text]
            for row in rows
            for n, text in enumerate(_wrap(row[-1], room) or [""])
        ]
        yield from _lines(heads, wrapped, bold=True)
    else:
        lines = list(_lines(heads[:-1], [row[:-1] for row in rows], bold=True))
        first, name = len(lines) - len(rows), " ".join(heads[-1][0])
        yield from lines[:first]
        for line, row in zip(lines[first:], rows, strict=True):
            yield line
            text = f"{name}: {row[-1]}" if row[-1] else ""
            yield from _indented(text, columns)


def _named(heads: Heads, rows: Rows, columns: int) -> Iterator[str]:
    """Yield each row as names and values, without what is empty. The first column has no name."""
    for row in rows:
        line = row[0]
        for (name, _), cell in zip(heads[1:], row[1:], strict=True):
            part = f"{' '.join(name)}: {cell}"
            if not cell:
                continue
            if line and _width(line) + len(_GAP) + _width(part) > columns:
                yield from _wrapped(line, columns)
                line = f"{_INDENT}{part}"
            else:
                line += f"{_GAP if line else ''}{part}"
        yield from _wrapped(line, columns)


def _wrapped(line: str, columns: int) -> Iterator[str]:
    """Yield a line, or the lines of a sentence that does not fit below its row."""
    if _width(line) > columns and line.startswith(_INDENT):
        yield from _indented(line.strip(), columns)
    else:
        yield line


def _indented(text: str, columns: int) -> Iterator[str]:
    """Yield the lines of a text below its row."""
    yield from (_INDENT + part for part in _wrap(text, columns - len(_INDENT)))


def _wrap(text: str, columns: int) -> list[str]:
    """Return the lines of a text. A word that is too long, such as a path, stays whole."""
    return textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False)


def _lines(heads: Heads, rows: Rows, *, bold: bool, gap: str = _GAP) -> Iterator[str]:
    widths = _widths(heads, rows)
    numbers = [number for _, number in heads]
    for names in zip_longest(*(name for name, _ in heads), fillvalue=""):
        line = _line(names, widths, numbers, gap)
        yield click.style(line, bold=True) if bold else line
    for row in rows:
        yield _line(row, widths, numbers, gap)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool], gap: str) -> str:
    blanks = (" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True))
    padded = (
        f"{blank}{cell}" if number else f"{cell}{blank}"
        for cell, blank, number in zip(cells, blanks, numbers, strict=True)
    )
    return gap.join(padded).rstrip()


def _needed(heads: Heads, rows: Rows, gap: str = _GAP) -> int:
    """Return the columns of a terminal that a table needs."""
    return sum(_widths(heads, rows)) + len(gap) * max(len(heads) - 1, 0)


def _widths(heads: Heads, rows: Rows) -> list[int]:
    widths = [max(map(len, name)) for name, _ in heads]
    for row in rows:
        cells = (_width(cell) for cell in row)
        widths = [
            max(width, cell if cell <= _WIDEST else 0)
            for width, cell in zip(widths, cells, strict=True)
        ]
    return widths


def _width(text: str) -> int:
    """Return the columns that `text` takes: wide letters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
