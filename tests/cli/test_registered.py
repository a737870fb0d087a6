"""Commands of other distributions are found by entry points, and only where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import click
import pytest

from kafkats.cli import cli, registered
from tests.builders.commands import run
from tests.golden import Unpacked


@click.command(name="extra")
def extra() -> int:
    """Do what another distribution does."""
    return 1


class Found(EntryPoint):
    """An entry point of this file."""

    def load(self) -> click.Command:
        return extra


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    """What is registered in a test; at first nothing, as without kafkats-model."""
    known: dict[str, EntryPoint] = {}
    monkeypatch.setattr(registered, "_registered", lambda: known)
    registered._load.cache_clear()
    yield known
    registered._load.cache_clear()


def test_a_command_of_a_distribution_that_is_missing(
    installed: dict[str, EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("layouts", "replay"):
        code, _, err = run(capsys, name, "--help")
        assert code == 2
        assert err == f"kafkats: {name} is a command of kafkats-model, which is not installed\n"
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "layouts" not in out
    assert "kafkats-model" not in out


def test_the_list_of_commands_is_one_screen(installed: dict[str, EntryPoint]) -> None:
    context = click.Context(cli, terminal_width=80)
    assert len(cli.get_help(context).splitlines()) <= 40


def test_an_unknown_command(
    installed: dict[str, EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "verfy")
    assert code == 2
    assert "No such command 'verfy'" in err


def test_a_registered_command_runs_and_is_listed(
    installed: dict[str, EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    installed["extra"] = Found("extra", "other.module:extra", "kafkats.commands")
    assert run(capsys, "extra")[0] == 1
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert out.index("Commands:") < out.index("Do what another distribution does.")
    assert "Show this message and exit." in run(capsys, "extra", "--help")[1]


def test_a_command_of_its_own_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Unpacked
) -> None:
    """Reading the metadata of all installed packages takes longer than a small command."""

    def ask() -> dict[str, EntryPoint]:
        raise AssertionError("the installed packages were searched")

    monkeypatch.setattr(registered, "_registered", ask)
    data = golden("matrix-2.8.2-v1", "data")
    log = next(data.glob("*/*.timeindex"))
    for words in (("--version",), ("plan", "--help"), ("verify", data), ("dump", log)):
        assert run(capsys, *words)[0] == 0
