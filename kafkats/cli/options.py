"""Words that several verbs share, and what they lead to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.session import Session, session
from kafkats.cli.terminal import progress_bar, shown
from kafkats.errors import UsageError
from kafkats.generations import RULES
from kafkats.plans.current_user import this_user

# Everything that imports numpy, pyarrow or numba is imported by the verb that needs it: --help answers at once.
if TYPE_CHECKING:
    from kafkats.config import Policy
    from kafkats.execution import Executor
    from kafkats.plans.units import Unit

LOG_DIRS = click.argument(
    "log_dirs", metavar="LOG_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
REPORT = click.option(
    "-o",
    "--output",
    "--report",
    "report",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Also write the full report into this folder.",
)
TOPICS = click.option(
    "--topics",
    default="*",
    show_default=True,
    metavar="GLOB",
    help="Only these topics: globs, separated by commas; * is every topic, and __* are by no other glob than one that begins so.",
)
POLICY = click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path),
    help="A policy file (YAML): settings by topic.",
)
CONFIG = click.option(
    "--config", "settings", multiple=True, metavar="KEY=VALUE",
    help="A topic setting by Kafka's name, over the policy (docs/policy.md has all); may be repeated.",
)  # fmt: skip
RULE = click.option(
    "--generation", "rule", type=click.Choice(list(RULES)), default="last-offset", show_default=True,
    help="Whose recovery to match: last-offset is Kafka 2.0 and later, first-offset 0.8 to 1.1, kip33 no broker's.",
)  # fmt: skip
EXPORT = click.option(
    "--export", type=click.Path(path_type=Path), metavar="FILE",
    help="What `kafka-configs --describe` said of the topics: over the policy's defaults, under its topics.",
)  # fmt: skip
ACCEPT_OFFSETS = click.option(
    "--accept-loss", default="", metavar="offsets", callback=lambda _context, _option, value: words_of(value),
    help="`offsets`: also change partitions in which records are missing, which no plan touches otherwise.",
)  # fmt: skip
STOPPED = click.option(
    "--owner-stopped", is_flag=True,
    help="You vouch that no broker runs on it, where a lock proves nothing: network file systems, snapshots.",
)  # fmt: skip


def _executor(context: click.Context, _parameter: click.Parameter, jobs: int | None) -> Executor:
    """The session's executor; if there is none, one whose workers end with the command."""
    from kafkats.execution import LocalExecutor

    given = context.ensure_object(Session).executor
    if given is not None:
        if jobs is not None:
            raise UsageError(
                "--jobs is for processes of this machine: on Spark, its own settings count"
            )
        return given

    return context.with_resource(LocalExecutor(jobs, display=progress_bar))


JOBS = click.option(
    "--jobs", "executor", type=click.IntRange(1), metavar="N", callback=_executor,
    help="Worker processes. If not given: one per 256 MiB of work, up to one per processor. Below 64 MiB none.",
)  # fmt: skip
BY = click.option(
    "--by",
    default=this_user,
    metavar="WHO",
    help="Whom a migration's ledger names; the user who runs this if not given.",
)
PLACE = click.option(
    "--work-area",
    "place",
    type=click.Path(path_type=Path),
    help="Where to keep undo material, instead of beside LOG_DIR.",
)
HOLDER = click.option(
    "--holder",
    default="",
    metavar="WHO",
    help="Whose reservation of the log directories is this run's, too; the plan's own if not given.",
)


class Spread(click.Option):
    """An option that takes all values up to the next option: `--undo A B` is `--undo A --undo B`."""


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


class _Parsed(click.ParamType[int]):
    """A value that a function reads, whose ValueError says what was wanted."""

    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return value if isinstance(value, int) else self._parse(value)
        except ValueError as e:
            self.fail(str(e), param, ctx)


def _time(text: str) -> int:
    from kafkats.config import parse_time

    return parse_time(text)


def _size(text: str) -> int:
    from kafkats.config import parse_size

    return parse_size(text)


def _span(text: str) -> int:
    from kafkats.config import parse_duration

    return parse_duration(text)


TIME: Final = _Parsed("TIME", _time)
SIZE: Final = _Parsed("SIZE", _size)
SPAN: Final = _Parsed("DURATION", _span)


def _allow(context: click.Context, parameter: click.Parameter, limit: int) -> None:
    from kafkats.compression.limit import allow

    allow(limit)


MAX_BATCH_BYTES = click.option(
    "--max-batch-bytes", type=SIZE, default=str(256 * 1024 * 1024), metavar="SIZE", expose_value=False, callback=_allow,
    help="What one batch may decompress to; 256 MiB if not given. Memory of up to twice as much is needed.",
)  # fmt: skip


def STEP(command: Any) -> Any:  # noqa: N802  # stands among the constants, and is used like one
    """The step of a cluster's migration that a verb belongs to: ledger, phase and broker."""
    for option in (
        click.option(
            "--broker", default="", metavar="NAME", help="Whose volumes these are; needs --ledger."
        ),
        click.option(
            "--phase",
            default="",
            metavar="phase-1|canary|phase-2|rollback",
            help="Of that migration; needs --ledger.",
        ),
        click.option(
            "--ledger",
            type=click.Path(path_type=Path),
            help="The cluster's migration: its phases are kept.",
        ),
    ):
        command = option(command)
    return command


def now_or(now_ms: int | None) -> int:
    """Return the given moment, else the clock's, in epoch milliseconds."""
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def words_of(text: str) -> tuple[str, ...]:
    """Words with commas between them."""
    return tuple(word for word in text.split(",") if word)


def check_step(ledger: Path | None, phase: str, broker: str, topics: str) -> None:
    """Raise UsageError, before anything is read, for words that would leave the ledger untold or tell it too much."""
    if len({bool(word) for word in (ledger, phase, broker)}) > 1:
        raise UsageError("a ledger, a phase and a broker go together: name all of them, or none")
    if ledger and topics != "*":
        raise UsageError("a ledger is told of brokers: look at all of their topics")


def tell_step(
    ledger: Path | None,
    event: str,
    phase: str,
    broker: str,
    *,
    by: str,
    now_ms: int,
    details: Mapping[str, Any],
) -> None:
    """Add a step to a migration's ledger; nothing without one. Raises Refused when it is not its turn."""
    if ledger is None:
        return
    from kafkats.migration import phases
    from kafkats.migration.ledger import append

    append(
        ledger,
        event,
        by=by,
        now_ms=now_ms,
        broker=broker,
        phase=phase,
        details=details,
        check=phases.check,
    )


def units_in(log_dirs: Iterable[str | os.PathLike[str]], topics: str) -> list[Unit]:
    from kafkats.plans.units import list_units

    units = list(list_units(log_dirs, topics=topics))
    matched = topics == "*" or any(unit.partition_dir for unit in units)
    if not matched and not session().scheduled:
        raise UsageError(f"no topic there matches {topics!r}")
    return units


def policy_of(
    file: Path | None,
    settings: Iterable[str],
    export: Path | None = None,
    *,
    reads: frozenset[str] | None = None,
) -> Policy:
    """Return the policy with the settings laid over it.

    If `reads` (the keys that the verb reads) is given, report ignored keys on standard error.
    """
    from kafkats.config import Policy, read_policy, with_export_file, with_settings

    policy = read_policy(file) if file else Policy()
    if export is not None:
        policy = with_export_file(policy, export)
    policy = with_settings(policy, settings)
    for remark in policy.ignored(reads) if reads is not None else ():
        click.echo(shown(remark), err=True)
    return policy
