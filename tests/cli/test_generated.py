"""Options of commands are made from their declarations, in one module."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from pydantic import Field

from kafkats.cli import cli
from kafkats.cli.generated import DeclaredOption, options, text_of
from kafkats.config.option import Choice, Duration, Option, Options, Size, Time, Words, declared

ROOT = Path(__file__).parents[2]


class Sample(Options):
    at: Annotated[Time, Option("Which offset was it?", "--at")]
    how: Annotated[str, Choice(("a", "b")), Option("How", "--how")] = "b"
    magic: Annotated[int, Choice((1, 2)), Option("Which format", "--magic")] = 2
    jobs: Annotated[int | None, Field(ge=1), Option("How many", "--jobs", "N")] = None
    limit: Annotated[Size, Option("How much", "-l --limit")] = 256 * 2**20
    step: Annotated[Duration | None, Option("How long", "--step", unset="no step")] = None
    names: Annotated[tuple[str, ...], Option("Which", "--name")] = ()
    words: Annotated[Words, Option("Which words", "--words", "WORD,...")] = ()
    file: Annotated[Path | None, Option("Where", "--file", "FILE")] = None
    deep: Annotated[bool, Option("All of it", "--deep")] = False
    form: Annotated[str, Option("Only in a form")] = ""


def run(*words: str) -> Any:
    given: dict[str, Any] = {}

    @click.command()
    @options(Sample, limit={"dest": "bytes"})
    def command(**values: Any) -> None:
        given.update(values)

    result = CliRunner().invoke(command, words)
    return given or result.output


def test_values_and_defaults() -> None:
    assert run("--at", "1970-01-01T00:00:01Z") == {
        "at": 1000, "how": "b", "magic": 2, "jobs": None, "bytes": 256 * 2**20, "step": None, "names": (),
        "words": (), "file": None, "deep": False,
    }  # fmt: skip
    words = "--at 5 --how a --magic 1 --jobs 3 -l 1KiB --step 2m --name x --name y --words p,q --file f --deep"
    assert run(*words.split()) == {
        "at": 5, "how": "a", "magic": 1, "jobs": 3, "bytes": 1024, "step": 120_000, "names": ("x", "y"),
        "words": ("p", "q"), "file": Path("f"), "deep": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing option '--at'"),
        ("--at noon", "is not a time: ISO 8601"),
        ("--at 5 --how c", "is not one of 'a', 'b'"),
        ("--at 5 --magic 3", "not in the range 1<=x<=2"),
        ("--at 5 --jobs 0", "not in the range x>=1"),
        ("--at 5 --limit much", "a size such as"),
        ("--at 5 --form x", "No such option"),
    ],
)
def test_a_value_that_cannot_be_is_refused(words: str, said: str) -> None:
    assert said in run(*words.split())


def test_help_has_the_sentence_and_what_holds_without_it() -> None:
    text = " ".join(run("--help").split())
    for said in (
        "-l, --limit SIZE How much. [default: 256MiB]",
        "--step DURATION How long. If not given: no step.",
        "--name TEXT Which. May be repeated.",
        "--at TIME Which offset was it? [required]",
        "--how [a|b] How. [default: b]",
    ):
        assert said in text


def test_defaults_are_shown_as_they_are_written() -> None:
    texts = {one.name: text_of(one) for one in declared(Sample)}
    assert {name: text for name, text in texts.items() if text} == {
        "how": "b",
        "magic": "2",
        "limit": "256MiB",
    }


def calls_of_click() -> dict[str, int]:
    """How often each file of the commands calls click.option."""
    counts = {}
    for path in sorted((ROOT / "kafkats" / "cli").glob("*.py")):
        calls = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
        ]
        counts[path.name] = sum(ast.unparse(call.func) == "click.option" for call in calls)
    return {name: count for name, count in counts.items() if count}


MADE = {"groups.py", "layouts.py"}
"""Files that take all their options from declarations."""


def test_options_are_made_in_one_place() -> None:
    counts = calls_of_click()
    assert counts["generated.py"] == 1
    assert MADE & counts.keys() == set()


def test_real_commands_know_their_declarations() -> None:
    diff = cli.commands["diff"]
    names = {one.declared.name for one in diff.params if isinstance(one, DeclaredOption)}
    assert {"margin", "begins", "until", "by"} <= names
