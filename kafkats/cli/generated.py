"""The options of the commands, made from what the operations declare (kafkats.config.option)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from kafkats import clock
from kafkats.config.declaration import (
    REQUIRED,
    ByRelease,
    Choice,
    Declared,
    Kind,
    Parsed,
    Worded,
)

# Models are pydantic's. The options of the program itself are made without it.
if TYPE_CHECKING:
    from kafkats.config.option import Options

F = TypeVar("F", bound=Callable[..., Any])
Command: TypeAlias = Callable[..., int]


class DeclaredOption(click.Option):
    """An option that knows its declaration."""

    def __init__(self, *args: Any, declared: Declared, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.declared = declared

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value. Raises click.MissingParameter with the option's help, which has an
        example.
        """
        try:
            taken = super().process_value(ctx, value)
        except click.MissingParameter:
            raise click.MissingParameter(_help(self.declared), ctx, self) from None
        written = self.declared.option.writes and not isinstance(self.type, UnseenPath)
        if written and isinstance(taken, Path):
            from kafkats.logdir.outputs import refuse_output

            refuse_output(self.declared.option.flags, taken)
        return taken


class Spread(DeclaredOption):
    """An option that takes all values up to the next one: `--undo A B` is `--undo A --undo B`."""


class Spreading(click.Command):
    """A command with options that take several values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {name for one in self.params if isinstance(one, Spread) for name in one.opts}
        words: list[str] = []
        option, values = "", 0
        for word in args:
            if word.startswith("-"):
                option, values = (word, 0) if word in names else ("", 0)
            elif option:
                words += [option] if values else []
                values += 1
            words.append(word)
        return super().parse_args(ctx, words)


class WholeNumber(click.IntRange):
    """A number in a range, by the name that messages call it."""

    name = "whole number"


class UnseenPath(click.ParamType):  # type: ignore[type-arg]  # no parameter before click 8.4
    """A path that is not looked at while words are parsed: its disk may not answer."""

    name = "path"

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> Path:
        return Path(value)


class ParsedType(click.ParamType):  # type: ignore[type-arg]  # no parameter before click 8.4
    """A value that is written as text. What the parser's ValueError says is shown."""

    def __init__(self, parsed: Parsed | ByRelease) -> None:
        self.name, self._parse = parsed.metavar, parsed.parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return value if isinstance(value, int) else self._parse(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)


Models: TypeAlias = "type[Options] | tuple[Declared, ...] | Callable[[Any], Any]"
"""A model, its options, or the decorator of an option that stands between those of models."""


def _declared(model: Models) -> tuple[Declared, ...]:
    """Return the options of a model; () for a decorator."""
    if isinstance(model, tuple):
        return model
    if not isinstance(model, type):
        return ()
    from kafkats.config.option import declared

    return tuple(declared(model))


def options(*models: Models, **more: Mapping[str, Any]) -> Callable[[F], F]:
    """Return a decorator that gives a command the options of models, in their order.

    The command gets each value by the name of the field. `more` has further arguments of
    click.Option for some of the fields, by name; `dest` is another name for the value.
    """

    def decorate(command: F) -> F:
        for model in reversed(models):
            if not isinstance(model, type | tuple):
                command = model(command)
                continue
            for one in reversed(_declared(model)):
                if one.option.flags:
                    command = _decorator(one, dict(more.get(one.name, {})))(command)
        return command

    return decorate


def taking(*models: Models, **more: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Add the options of models, whose values the command gets as one `given` (config.given)."""
    from kafkats.config.given import Given

    names = [one.name for model in models for one in _declared(model) if one.option.flags]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def gathering(*args: Any, **values: Any) -> int:
            source = click.get_current_context().get_parameter_source
            named = frozenset(name for name in names if source(name) == ParameterSource.COMMANDLINE)
            ours = {name: values.pop(name) for name in names}
            given = Given(ours, clock.now_ms(), named)
            return command(*args, given=given, **values)

        return options(*models, **more)(gathering)

    return decorate


def _decorator(one: Declared, more: dict[str, Any]) -> Callable[[F], F]:
    option, kind = one.option, one.kind
    names = [*option.flags.split(), more.pop("dest", one.name)]
    given: dict[str, Any] = {"help": _help(one), "metavar": option.metavar or None}
    given["hidden"] = option.hidden
    if option.choices:
        given["metavar"] = f"[{'|'.join(option.choices)}]"
    if isinstance(kind.text, Worded):
        given["metavar"] = kind.text.metavar
    if kind.base is bool:
        given |= {"is_flag": True, "default": one.default}
    elif kind.commas:
        given["callback"] = _words
    elif kind.many:
        given["multiple"] = True
    if one.default is REQUIRED:
        given["required"] = True
    elif one.default is not None and not isinstance(one.default, bool | tuple):
        given |= {"default": text_of(one), "show_default": not option.unset and one.default != ""}
    if kind.base is not bool:
        given["type"] = _type(kind)
    spread = kind.many and option.metavar.endswith("...")
    return click.option(
        *names, cls=Spread if spread else DeclaredOption, declared=one, **(given | more)
    )


def text_of(one: Declared) -> str:
    """Return the default as a person writes it, "" if there is none."""
    if one.default is REQUIRED or one.default is None or isinstance(one.default, bool):
        return ""
    parsed = one.kind.text
    units = _UNITS.get(parsed.metavar, {}) if isinstance(parsed, Parsed) else {}
    for unit, amount in units.items():
        if one.default and one.default % amount == 0:
            return f"{one.default // amount}{unit}"
    return ",".join(one.default) if one.kind.many else str(one.default)


_UNITS: Final[Mapping[str, Mapping[str, int]]] = {
    "SIZE": {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10},
    "DURATION": {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1},
}


def _help(one: Declared) -> str:
    """Return the sentence, and what holds without the option."""
    option, sentence = one.option, one.option.sentence
    sentence += "" if sentence.endswith(("?", ".")) else "."
    sentence += f" If not given: {option.unset}." if option.unset else ""
    return sentence + (" May be repeated." if one.kind.many and not one.kind.commas else "")


def _type(kind: Kind) -> click.ParamType[Any]:
    if isinstance(kind.text, Parsed | ByRelease):
        return ParsedType(kind.text)
    if isinstance(kind.text, Choice):
        return click.Choice(kind.text.values)
    if kind.base is Path:
        return click.Path(path_type=Path)
    if (kind.least, kind.most) != (None, None):
        return WholeNumber(kind.least, kind.most)
    return click.INT if kind.base is int else click.STRING


def _words(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> tuple[str, ...]:
    return tuple(word for word in (text or "").split(",") if word)
