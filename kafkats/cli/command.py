"""The command `kafkats`: its commands, and the messages and exit codes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click

from kafkats import __version__
from kafkats.cli.catalogue import CATALOGUE, LoadedCommands
from kafkats.cli.examples import add_example
from kafkats.cli.generated import options
from kafkats.cli.registered import AllCommands
from kafkats.cli.session import Session
from kafkats.cli.spark import JSON_ASKED, spark_executor
from kafkats.cli.streams import add_help, ready_streams, say, shown, warn
from kafkats.config.program import PROGRAM
from kafkats.errors import DiskFull, KafkatsError, UsageError, is_out_of_memory, memory_ran_out


def _remember(context: click.Context, _option: click.Parameter, verbose: bool) -> None:
    context.meta["kafkats.verbose"] = verbose


def _json(context: click.Context, _option: click.Parameter, as_json: bool) -> None:
    context.meta[JSON_ASKED] = as_json


def _version(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    verbose = context.meta.get("kafkats.verbose", False)
    if not asked and verbose:
        raise click.UsageError("-v goes with --version")
    if not asked or context.resilient_parsing:
        return
    say(f"kafkats, version {__version__}")
    if verbose:
        from kafkats.segment.native import native_lines

        for line in native_lines():
            say(line)
    context.exit()


def _finish(name: str, command: click.Command) -> None:
    """Add the examples and --help to a command, and to those in it."""
    add_help(command)
    if not isinstance(command, click.Group):
        add_example(command, name)
        return
    for word, one in command.commands.items():
        _finish(f"{name} {word}", one)


@click.group(
    cls=AllCommands,
    commands=LoadedCommands(CATALOGUE, finish=_finish),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@options(
    PROGRAM,
    as_json={"expose_value": False, "callback": _json},
    verbose={"is_eager": True, "expose_value": False, "callback": _remember},
    version={"expose_value": False, "callback": _version},
)
@click.pass_context
def cli(context: click.Context, master: str | None) -> None:
    """Repair and maintain the log directories of Kafka brokers.

    LOG_DIR is a broker's log.dirs root, one partition directory, or one segment's .log. The usual
    order: verify, plan, show, apply; then purge, or undo. Only apply, undo and recover change a
    log directory, and only a stopped broker's.

    Exit codes: 0 fine, 1 findings, 2 bad usage or input, 3 refused for safety.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in (
        "",
        "0",
    ):  # else every log would be called unreadable
        raise UsageError(
            "NUMBA_DISABLE_JIT is set: unset it, kafkats reads logs with compiled code only"
        )
    if master is not None:
        session = context.ensure_object(Session)
        if session.executor is not None:
            raise UsageError(
                "--spark is for a shell: this job runs on the Spark to which it was submitted"
            )
        session.executor = context.with_resource(spark_executor(master))


add_help(cli)


def main(argv: Sequence[str] | None = None, end: Callable[[int], NoReturn] = sys.exit) -> NoReturn:
    """Run the command line. Ends with 0 fine, 1 findings, 2 bad usage or input, 3 refused for
    safety, 130 interrupted, 141 the reader of the output has gone.
    """
    end(run(sys.argv[1:] if argv is None else argv, Session()))


def run(words: Sequence[str], session: Session) -> int:
    """Run the command line in `session`, which then has the summary or the error. Returns the exit
    code.
    """
    ready_streams()
    try:
        if any("\0" in word for word in words):  # from programs that call this; a shell cannot
            raise UsageError("an argument has a NUL character: no file has such a name")
        code = cli.main(args=list(words), prog_name="kafkats", standalone_mode=False, obj=session)
    except click.exceptions.Abort as e:
        warn(f"kafkats: {str(e) or 'interrupted'}")
        return 130
    except click.ClickException as e:
        if isinstance(e, click.exceptions.NoArgsIsHelpError):
            for line in e.format_message().splitlines():
                warn(line)
            return 2
        said = shown(e.format_message().replace("\n\t", " "))  # click has a line per choice
        warn(f"kafkats: {said}")
        if isinstance(e, click.UsageError) and e.ctx is not None:
            warn(f"the options: {e.ctx.command_path} --help")
        session.error = UsageError(said)
        return 2
    except KafkatsError as e:
        again = " (trying again may help)" if e.retryable and not isinstance(e, DiskFull) else ""
        warn(f"kafkats: {e}{again}")
        session.error = e
        return e.exit_code
    except Exception as e:
        if not is_out_of_memory(e):
            raise
        session.error = memory_ran_out()
        warn(f"kafkats: {session.error}")
        return session.error.exit_code
    return code if isinstance(code, int) else 0
