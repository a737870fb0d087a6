"""`scripts/seeds [PART...]`: print the documents' estimates and options, and write their page."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.seeds import walks
from bench.seeds.enriched_sizes import enriched_sizes
from bench.seeds.estimates import estimates
from bench.seeds.page import (
    Section,
    estimate_sections,
    markdown,
    option_sections,
    walk_sections,
)
from bench.seeds.play import play_all

PAGE: Final = Path(__file__).parents[2] / "model/docs/seeds-estimates.md"
WIDTH: Final = 100


def _estimates(folder: Path) -> list[Section]:
    return estimate_sections([*estimates(folder), *enriched_sizes()])


def _options(folder: Path) -> list[Section]:
    return option_sections(play_all(folder))


def _walks(folder: Path) -> list[Section]:
    return walk_sections(
        walks.mirror_maker(folder / "mirror"),
        walks.crossing(folder / "crossing"),
        walks.leader_migration(),
        walks.index_only(),
        walks.minute_map(),
    )


PARTS: Final = {"estimates": _estimates, "options": _options, "walks": _walks}


def sections(parts: Sequence[str]) -> list[Section]:
    """Compute, measure and play these parts."""
    found = []
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            found += PARTS[part](Path(folder))
    return found


def show(found: Sequence[Section], console: Console) -> None:
    """Print the sections."""
    for section in found:
        console.print(f"\n[bold]{section.title}[/bold]")
        if section.text:
            console.print(section.text)
        table = Table(box=None, pad_edge=False)
        for column in section.columns:
            table.add_column(column, overflow="fold")
        groups = len({row[0] for row in section.rows}) < len(section.rows)
        for before, row in zip([None, *section.rows], section.rows, strict=False):
            if groups and before and before[0] != row[0]:
                table.add_row()
            table.add_row(*row)
        console.print(table)
        if section.after:
            console.print(section.after)


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables and write the page; with --check return 1 if the page differs."""
    parser = argparse.ArgumentParser(prog="scripts/seeds", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--check", action="store_true", help="compare the page, do not write it")
    parser.add_argument("-o", "--output", type=Path, default=PAGE, help="the page to write")
    given = parser.parse_args(words)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if given.parts and (given.check or given.output == PAGE):
        parser.error("some parts are not the page: name a file with -o, and leave out --check")
    found = sections(given.parts or [*PARTS])
    show(found, Console(width=WIDTH, highlight=False))
    page = markdown(found)
    if given.check:
        same = given.output.exists() and given.output.read_text(encoding="utf-8") == page
        print(f"{given.output.name} {'is as played' if same else 'differs: run scripts/seeds'}")
        return int(not same)
    given.output.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
