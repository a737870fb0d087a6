"""The list of commands is shown without the commands, and says what they say."""

from __future__ import annotations

import subprocess
import sys

import click

from kafkats.cli import cli
from kafkats.cli.catalogue import CATALOGUE, LoadedCommands

PROGRAM = """
import atexit, sys
atexit.register(lambda: print(
    *sorted(name for name in sys.modules if name == "pydantic" or name.startswith("kafkats.cli.")), file=sys.stderr
))
from kafkats.cli import main
sys.argv = ["kafkats", *sys.argv[1:]]
main()
"""


def loaded(*words: str) -> set[str]:
    """Modules of commands, and pydantic, that a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    commands = {f"kafkats.cli.{one.module}" for one in CATALOGUE.values()} | {"pydantic"}
    return commands & {*done.stderr.splitlines()[-1].split()}


def test_each_command_has_its_own_first_sentence() -> None:
    own = {name: command.get_short_help_str(1000) for name, command in cli.commands.items()}
    assert own == {name: one.sentence for name, one in CATALOGUE.items()}
    assert {name: command.name for name, command in cli.commands.items()} == {
        name: name for name in CATALOGUE
    }


def test_a_command_loads_its_module_alone() -> None:
    assert loaded("--version") == set()
    assert loaded("dump", "--help") == {"kafkats.cli.reading", "pydantic"}


def test_a_command_is_loaded_once_and_finished() -> None:
    finished: list[tuple[str, click.Command]] = []
    commands = LoadedCommands(CATALOGUE, finish=lambda *one: finished.append(one))
    assert [*commands] == [*CATALOGUE] and len(commands) == len(CATALOGUE) and not finished
    assert commands.get("no-such-command") is None
    assert commands["help"] is commands["help"]
    assert finished == [("help", commands["help"])]
    commands["more"] = click.Command("more")
    assert [*commands] == [*CATALOGUE, "more"]
    del commands["more"]
    assert "more" not in commands
