"""Draws docs/session.svg, the picture at the top of the README, from the sessions of docs/tutorial.md.

python tools/session_picture.py [--check]     with --check it only compares
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

DOCS: Final = Path(__file__).parents[1] / "docs"
TUTORIAL: Final = DOCS / "tutorial.md"
PICTURE: Final = DOCS / "session.svg"
COLUMNS: Final = 104
SVG: Final = """\
<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own picture loads a font from another host; this one takes what the reader has."""


def session() -> list[str]:
    """The lines of the tutorial's sessions, from the first `kafkats verify` to the second."""
    sessions = re.findall(
        r"^```console\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL
    )
    lines = "".join(sessions).splitlines()
    begins = [n for n, line in enumerate(lines) if line.startswith("$ kafkats verify")]
    return lines[begins[0] : begins[1] + 2]


def styled(line: str) -> Text:
    """The line as a terminal shows it: commands bold, severities and outcomes in colour."""
    text = Text(line, no_wrap=True)
    if line.startswith("$ "):
        text.stylize("bold green", 0, 1)
        text.stylize("bold white", 2)
    text.highlight_regex(r"^(damage|danger)", "bold red")
    text.highlight_regex(r"^(done|add|replace)\b", "bold cyan")
    text.highlight_regex(r"^(next|to do it):", "bold yellow")
    text.highlight_regex(r"\b0 danger, 0 damage\b", "bold green")
    return text


def picture() -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in session():
        console.print(styled(line), overflow="ellipsis")
    svg = console.export_svg(title="kafkats", code_format=SVG, unique_id="session")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(
            0
            if PICTURE.read_text() == picture()
            else "docs/session.svg: draw it again: scripts/lint --fix"
        )
    PICTURE.write_text(picture())
