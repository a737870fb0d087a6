"""The standard streams of a command: its lines, and what happens if nobody takes them."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

import click

from kafkats.errors import StorageFailed

READER_GONE: Final = 141
"""Exit code if the reader of the output has gone: that of a process which SIGPIPE (13) ended."""


def ready_streams() -> None:
    """Prepare the streams: one that the parent process closed leads nowhere, and a character that
    cannot be encoded is escaped.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):  # as numbered: 0, 1, 2
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an unencodable character must not end the work
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print a line, or several.

    Exits with READER_GONE if the reader of a pipe has gone. Raises StorageFailed for other errors.
    """
    try:
        click.echo(text)
    except OSError as e:
        _lead_nowhere(sys.stdout)
        if isinstance(e, BrokenPipeError):
            raise click.exceptions.Exit(READER_GONE) from e
        raise StorageFailed(f"writing the output: {e.strerror or e}") from e


def warn(text: str) -> None:
    """Print a line on standard error. If that fails, nobody can be told."""
    try:
        click.echo(shown(text), err=True)
    except OSError:
        _lead_nowhere(sys.stderr)


def shown(text: str) -> str:
    """Return `text` for a terminal, with control characters and broken UTF-8 escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def add_help(command: click.Command) -> None:
    """Give a command the option --help. It prints as every other output."""
    option = click.Option(
        ["-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        help="Show this message and exit.",
        callback=_say_help,
    )
    command.add_help_option = False
    command.params.append(option)


def _say_help(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        say(context.get_help())
        context.exit()


def _lead_nowhere(stream: TextIO) -> None:
    """Drop what is left in the buffer of a stream: it would fail again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
