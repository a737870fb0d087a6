"""model/pyproject.toml: the version of kafkats, and entry points that exist."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import click

import kafkats
import kafkats_model
from kafkats.cli import cli

ROOT = Path(__file__).parents[3]
MODEL = tomllib.loads((ROOT / "model" / "pyproject.toml").read_text())["project"]
TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_both_distributions_have_one_version() -> None:
    versions = {MODEL["version"], TOOL["version"], kafkats.__version__, kafkats_model.__version__}
    assert len(versions) == 1
    assert f"kafkats[compile]=={TOOL['version']}" in MODEL["dependencies"]


def test_it_asks_for_no_other_release_of_a_library_than_kafkats() -> None:
    others = {one for one in MODEL["dependencies"] if not one.startswith(("kafkats[", "llvmlite"))}
    assert others <= set(TOOL["dependencies"])


def test_entry_points_exist() -> None:
    for entries in MODEL["entry-points"].values():
        for target in entries.values():
            module, _, name = target.partition(":")
            assert hasattr(import_module(module), name), target


def test_kafkats_finds_its_commands() -> None:
    context = click.Context(cli)
    for name in MODEL["entry-points"]["kafkats.commands"]:
        assert name in cli.list_commands(context)
        assert name not in cli.commands
        command = cli.get_command(context, name)
        assert command is not None
        assert any("--help" in one.opts for one in command.params)
