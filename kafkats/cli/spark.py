"""kafkats --spark MASTER: a command's stages as tasks of a Spark application."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.session import LazyExecutor
from kafkats.cli.startup import show_hidden
from kafkats.cli.streams import warn
from kafkats.errors import UsageError

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor


_UNITS: Final = "{stage}: {units} of {of_units} units"


def spark_executor(master: str) -> LazyExecutor:
    """An executor on that master, started at its first stage. Raises UsageError where pyspark is
    not installed.
    """
    if not master:
        raise UsageError("--spark wants a master, such as local[4]")
    show_hidden()
    try:  # by name: the library does without Spark
        spark = importlib.import_module("pyspark_kafkats.session")
    except ImportError as e:
        raise UsageError(
            f"--spark needs pyspark ({e}): pip install 'kafkats[spark]', or leave --spark out"
        ) from e
    return LazyExecutor(partial(_opened, spark, master))


def _opened(spark: Any, master: str) -> AbstractContextManager[Executor]:
    logging.getLogger().addFilter(_is_no_interrupt)
    opened: AbstractContextManager[Executor] = spark.open_executor(
        "kafkats", master=master, progress=_show_progress
    )
    return opened


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Return False for the traceback that py4j logs at Ctrl-C, and then raises."""
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


def _show_progress(progress: Mapping[str, Any]) -> None:
    if sys.stderr.isatty():
        only_counted = progress["of_bytes"] == progress["of_units"]
        shown = _UNITS if only_counted else f"{_UNITS}, {{bytes}} of {{of_bytes}} bytes"
        warn(shown.format_map(progress))


JSON_ASKED: Final = "kafkats.json"
"""The key in a context's `meta` of a --json before the command."""


class Commands(click.Group):
    """A group whose commands take --spark and --json of the program. A command that has no stages,
    or no rows, refuses them.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        spread = command is None or any(one.name == "executor" for one in command.params)
        group = isinstance(command, click.Group)
        given = ctx.find_root().params.get("master")
        if given is not None and not spread and not group and not {"-h", "--help"} & {*rest}:
            raise UsageError(f"--spark: {name} does its work in one process, leave --spark out")
        if command is not None and not group and ctx.meta.get(JSON_ASKED):
            if not any(one.name == "as_json" for one in command.params):
                raise UsageError(f"--json: {name} prints no rows, leave --json out")
            rest = ["--json", *rest]
        return name, command, rest
