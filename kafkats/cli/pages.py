"""kafkats help: the pages of docs/, which a wheel holds, too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from kafkats.cli.streams import say
from kafkats.errors import UsageError

_DOCS: Final = tuple(Path(__file__).parents[up] / "docs" for up in (1, 2))
"""The folders of the pages: the wheel's, the clone's. One of them is there."""
_GUARD: Final = "recover"
"""The command whose page is that of the guard: the page of its name is of `plan recover`."""


@click.command(name="help")
@click.argument("words", metavar="[TOPIC]", nargs=-1)
@click.pass_context
def show_page(context: click.Context, words: tuple[str, ...]) -> int:
    """Show a page of the documentation, or the help of a command.

    Without a TOPIC it lists the pages.
    """
    topic = " ".join(words)
    found = (page for folder in _DOCS for page in folder.glob("*.md") if page.stem != "README")
    pages = dict(sorted((page.stem.lower(), page) for page in found))
    if not topic:
        for name, page in pages.items():
            say(f"{name:16}{_title(page)}")
        return 0
    if topic == _GUARD:
        say("The page of kafkats plan recover is another one: kafkats help recover.md\n")
        topic = "guard"
    name = topic.removeprefix("docs/").removesuffix(".md").lower()
    if name in pages:
        _show(pages[name].read_text("utf-8"))
        return 0
    command: click.Command | None = context.find_root().command
    above = context.find_root()
    for word in words:
        command = command.commands.get(word) if isinstance(command, click.Group) else None
        if command is None:
            source = f"; docs/{name}.md is in the source only" if "/" in name else ""
            raise UsageError(f"no page is named {topic!r}{source}; the pages: {', '.join(pages)}")
        above = click.Context(command, info_name=word, parent=above)
    say(above.command.get_help(above))
    return 0


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line[2:].strip() for line in lines if line.startswith("# ")), "")


def _show(text: str) -> None:
    """Print a page: laid out and in pages on a terminal, else as it is written."""
    if not sys.stdout.isatty():
        say(text.removesuffix("\n"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
