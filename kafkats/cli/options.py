"""Options that several commands share, and the values made from them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkats.cli.generated import options
from kafkats.cli.session import Session, session
from kafkats.cli.streams import warn
from kafkats.cli.terminal import progress_bar
from kafkats.config.given import Given
from kafkats.config.options import (
    BatchLimit,
    EveryFile,
    Json,
    Processes,
    Settings,
    Topics,
)
from kafkats.errors import UsageError
from kafkats.logdir.text import read_given
from kafkats.plans.current_user import this_user
from kafkats.plans.options import User

# Everything that imports numpy, pyarrow or numba is imported by the command that needs it: --help
# answers at once.
if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.execution.executor import Executor
    from kafkats.plans.units import Unit

LOG_DIRS = click.argument(
    "log_dirs", metavar="LOG_DIR...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
LOG_DIRS_OR_TABLE = click.argument(
    "paths", metavar="LOG_DIR...|TABLE", nargs=-1, required=True, type=click.Path(path_type=Path)
)
PLAN = click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))


def _print_json(context: click.Context, _parameter: click.Parameter, as_json: bool) -> None:
    context.ensure_object(Session).as_json = as_json


JSON = options(Json, as_json={"expose_value": False, "callback": _print_json})
FILES = options(EveryFile)
TOPICS = options(Topics)
POLICY = options(Settings)


def _executor(context: click.Context, _parameter: click.Parameter, jobs: int | None) -> Executor:
    """The session's executor; if there is none, one whose workers end with the command."""
    from kafkats.execution.local import LocalExecutor

    given = context.ensure_object(Session).executor
    if given is not None:
        if jobs is not None:
            raise UsageError(
                "--jobs is for processes of this machine: on Spark, its own settings count"
            )
        return given

    return context.with_resource(LocalExecutor(jobs, display=progress_bar))


JOBS = options(Processes, jobs={"dest": "executor", "callback": _executor})
BY = options(User, by={"default": this_user})


def _allow(context: click.Context, parameter: click.Parameter, limit: int) -> None:
    from kafkats.compression.limit import allow

    allow(limit)


MAX_BATCH_BYTES = options(BatchLimit, max_batch_bytes={"expose_value": False, "callback": _allow})


def units_of(log_dirs: Iterable[Path], topics: str, policy: Policy) -> list[Unit]:
    """Return the units of a command that is no request. Raises as `dialects.units_in`."""
    from kafkats.plans.dialects import units_in

    fine = session().front.fields.get("no_topic_is_fine", False)
    units = units_in(log_dirs, topics, policy=policy, none_is_fine=fine)
    tell_unidentified(sorted({unit.log_dir for unit in units}), policy)
    return units


def tell_unidentified(log_dirs: Iterable[str], policy: Policy | None) -> None:
    """Report on standard error, in a job, which log directories tasks recognise by their paths
    alone.
    """
    from kafkats.logdir.volume import volume_at

    if session().executor is None:
        return
    for log_dir in log_dirs:
        if volume_at(log_dir) is None:
            broker = policy.broker_of(Path(log_dir)) if policy else ""
            owner = f"broker {broker} of the policy and " if broker else ""
            warn(f"{log_dir}: has no readable meta.properties, and goes by {owner}its path")


def text_of_file(path: Path) -> str:
    """Return the text of a file that an option names. Raises UsageError, StorageFailed."""
    return read_given(path, "file").decode(errors="replace")


def given_policy(given: Given, *, reads: frozenset[str] | None = None) -> Policy:
    """Return the policy of a command, as `policy_of`."""
    settings, export = given.of(Settings), given.values.get("export")
    file = export if isinstance(export, Path) else None
    return policy_of(settings.policy_file, settings.settings, file, reads=reads)


def policy_of(
    file: Path | None,
    settings: Iterable[str],
    export: Path | None = None,
    *,
    reads: frozenset[str] | None = None,
) -> Policy:
    """Return the policy with the settings laid over it.

    If `reads` (the keys that the command reads) is given, report ignored keys on standard error.
    """
    from kafkats.config.policy import Policy

    policy, pairs = Policy.model_construct(), tuple(settings)
    if file or export is not None or pairs:
        from kafkats.config import reading  # it imports YAML

        policy = reading.read_policy(file) if file else policy
        policy = policy if export is None else reading.with_export_file(policy, export)
        policy = reading.with_settings(policy, pairs)
    for remark in policy.ignored(reads) if reads is not None else ():
        warn(remark)
    return policy
