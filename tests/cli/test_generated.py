"""Options of commands are made from their declarations, in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner
from pydantic import Field

from kafkats.cli import cli
from kafkats.cli.generated import DeclaredOption, Spreading, options, text_of
from kafkats.config.option import Choice, Duration, Option, Options, Size, Time, Words, declared

ROOT = Path(__file__).parents[2]


class Sample(Options):
    at: Annotated[Time, Option("Which offset was it?", "--at")]
    how: Annotated[str, Choice(("a", "b"))] = Option("How", "--how").default("b")
    magic: Annotated[int, Choice((1, 2))] = Option("Which format", "--magic").default(2)
    jobs: Annotated[int | None, Field(ge=1)] = Option("How many", "--jobs", "N").default(None)
    limit: Size = Option("How much", "-l --limit").default(256 * 2**20)
    step: Duration | None = Option("How long", "--step", unset="no step").default(None)
    names: tuple[str, ...] = Option("Which", "--name").default(())
    words: Words = Option("Which words", "--words", "WORD,...").default(())
    file: Path | None = Option("Where", "--file", "FILE").default(None)
    deep: bool = Option("All of it", "--deep").default(False)
    prove: bool | None = Option("Check it", "--prove/--no-proof").default(None)
    runs: tuple[str, ...] = Option("Whose", "--runs", "RUN...").default(())
    form: str = Option("Only in a form").default("")


class Ruled(Sample):
    rule: Annotated[str, Choice(("c", "d", "e")), Option("Rule", "--rule", choices=("c", "d"))] = (
        "c"
    )


def run(*words: str, model: type[Sample] = Sample) -> Any:
    given: dict[str, Any] = {}

    @click.command(cls=Spreading)
    @options(model, limit={"dest": "bytes"})
    def command(**values: Any) -> None:
        given.update(values)

    result = CliRunner().invoke(command, words)
    return given or result.output


def test_values_and_defaults() -> None:
    assert run("--at", "1970-01-01T00:00:01Z") == {
        "at": 1000, "how": "b", "magic": 2, "jobs": None, "bytes": 256 * 2**20, "step": None, "names": (),
        "words": (), "file": None, "deep": False, "prove": None, "runs": (),
    }  # fmt: skip
    words = "--at 1970-01-01T00:00:00.005Z --how a --magic 1 --jobs 3 -l 1KiB --step 2m --name x --name y --words p,q --file f --deep --no-proof --runs r s"
    assert run(*words.split()) == {
        "at": 5, "how": "a", "magic": 1, "jobs": 3, "bytes": 1024, "step": 120_000, "names": ("x", "y"),
        "words": ("p", "q"), "file": Path("f"), "deep": True, "prove": False, "runs": ("r", "s"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Missing option '--at'"),
        ("", "Which offset was it?"),
        ("--at noon", "is not a time: ISO 8601"),
        ("--at 1970-01-01T00:00:00.005Z --how c", "is not one of 'a', 'b'"),
        ("--at 1970-01-01T00:00:00.005Z --magic 3", "'3' is not one of '1', '2'"),
        ("--at 1970-01-01T00:00:00.005Z --jobs 0", "not in the range x>=1"),
        ("--at 1970-01-01T00:00:00.005Z --jobs many", "'many' is not a valid whole number"),
        ("--at 1970-01-01T00:00:00.005Z --limit much", "a size such as"),
        ("--at 1970-01-01T00:00:00.005Z --form x", "No such option"),
    ],
)
def test_a_value_that_cannot_be_is_refused(words: str, said: str) -> None:
    assert said in run(*words.split())


def test_help_lists_the_values_that_operators_need_and_others_are_accepted() -> None:
    assert "--rule [c|d] " in run("--help", model=Ruled)
    assert run("--at", "1970-01-01T00:00:00.005Z", "--rule", "e", model=Ruled)["rule"] == "e"


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


def test_options_are_made_in_one_place() -> None:
    assert calls_of_click() == {"generated.py": 1}


def test_no_job_declares_options() -> None:
    for path in (ROOT / "spark_jobs").glob("*.py"):
        assert "add_argument" not in path.read_text(), path.name


def every(group: click.Group) -> Iterator[click.Command]:
    """The command itself, and all below it."""
    yield group
    for command in group.commands.values():
        yield from every(command) if isinstance(command, click.Group) else [command]


def test_every_option_is_declared() -> None:
    found = [
        one for command in every(cli) for one in command.params if isinstance(one, click.Option)
    ]
    assert {one.name for one in found if not isinstance(one, DeclaredOption)} == {"help"}
    assert len(found) > 200
