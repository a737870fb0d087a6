"""Commands that another installed distribution registers by the entry points `kafkats.commands`.

They are looked up for the list of commands and for an unknown word only: reading the metadata of
all installed packages takes longer than a small command.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import click

from kafkats.cli.catalogue import CATALOGUE
from kafkats.cli.spark import Commands
from kafkats.cli.streams import add_help
from kafkats.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP: Final = "kafkats.commands"
_ELSEWHERE: Final = {"layouts": "kafkats-model", "replay": "kafkats-model"}
"""Command -> the distribution that has it."""


@cache
def _registered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {one.name: one for one in sorted(entry_points(group=_GROUP))}


@cache
def _load(name: str) -> click.Command:
    command: click.Command = _registered()[name].load()
    add_help(command)
    return command


class AllCommands(Commands):
    """The program's commands, and behind them those of other distributions."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command. Raises UsageError for one whose distribution is not installed."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name.startswith("-"):
            return own
        if cmd_name in _registered():
            return _load(cmd_name)
        if cmd_name in _ELSEWHERE:
            distribution = _ELSEWHERE[cmd_name]
            raise UsageError(f"{cmd_name} is a command of {distribution}, which is not installed")
        from kafkats.operations import OPERATIONS  # with the options of all

        if cmd_name in OPERATIONS:
            raise UsageError(
                f"{cmd_name} begins with a plan: kafkats plan {cmd_name} LOG_DIR... -o PLAN"
            )
        return None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, the program's own first."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in _registered() if name not in own)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, those of each other distribution under its name."""
        own = super().list_commands(ctx)
        sections: dict[str, dict[str, click.Command]] = {"Commands": {}}
        for name in own:  # by their sentences: none is loaded
            sentence = CATALOGUE[name].sentence
            sections["Commands"][name] = click.Command(name, help=sentence)
        for name, entry in _registered().items():
            if name not in own:
                title = entry.dist.name if entry.dist else entry.value
                found = self.get_command(ctx, name)
                if found is not None:
                    sections.setdefault(f"Commands of {title}", {})[name] = found
        for title, commands in sections.items():
            limit = formatter.width - 6 - max(map(len, commands))
            with formatter.section(title):
                formatter.write_dl([
                    (name, one.get_short_help_str(limit)) for name, one in commands.items()
                ])
