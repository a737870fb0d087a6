"""apply and undo change a log directory, purge deletes old files, release ends reservations."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

import click

from kafkats.cli.generated import Spreading, taking
from kafkats.cli.making import show_plan
from kafkats.cli.options import BY, FILES, JOBS, JSON, LOG_DIRS, PLAN
from kafkats.cli.performing import perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.session import LazyExecutor, session
from kafkats.cli.streams import warn
from kafkats.cli.terminal import (
    certificate_sentences,
    released_sentences,
    run_sentences,
    show_rows,
)
from kafkats.counts import counted, size_text
from kafkats.errors import UsageError
from kafkats.flow import Show
from kafkats.plans.options import Apply, Approval, Holder, Release
from kafkats.request import ApprovalAsked, Folder, models_of
from kafkats.reserving.plans import Wish

if TYPE_CHECKING:
    from kafkats.config.given import Given
    from kafkats.execution.executor import Executor
    from kafkats.result import Result

_RUNS = click.argument(
    "folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@click.command()
@PLAN
@taking(*models_of("apply"), Approval, Holder, BY, JOBS, FILES, JSON)
def apply(folder: Path, given: Given, executor: Executor, by: str, files: bool) -> int:
    """Carry out an approved plan, and prove the result.

    Exits with 1 if a written file is not as planned, or if a recovery has blocked rows. Repeat it
    to finish an interrupted run; after success it changes nothing.
    """
    asked, separate = given.of(Apply), session().front.separate
    digest = _ask_for_approval(folder) if asked.digest is None else asked.digest
    prove = not separate if asked.prove is None else asked.prove
    given = replace(
        given,
        values={**given.values, "prove": prove},
        named=(given.named | {"prove"}) - {"digest"},
    )
    plan = Folder(folder=folder, digest=digest)
    request = request_of("apply", given, plan=plan, by=by, **_who(given))
    rows = Rows(files=files)

    def sentences(result: Result) -> list[str]:
        assert rows.plan is not None
        run, blocked = Path(result.runs[0].folder), rows.plan.blocked
        told = run_sentences(result.summary(), rows.plan, folder, run, rows.said)
        left = f"blocked rows, left alone: {blocked}; kafkats show names them"
        return [*result.remarks, *told, *([left] if blocked else [])]

    def code_of(result: Result) -> int:
        left = not separate and any(run.left for run in result.runs)
        return result.exit_code or int(left)

    from kafkats.plans.run import run_folder_of

    again = _apply_words(folder, digest)
    with _interrupted("done", again, run_folder_of(folder)):
        return perform(request, executor, rows, sentences, code_of=code_of)


@click.command(cls=Spreading)
@_RUNS
@taking(*models_of("undo"), Approval, Holder, BY, JOBS, JSON)
def undo(folders: tuple[Path, ...], given: Given, executor: Executor, by: str) -> int:
    """Put back every file of a run.

    Bytes, times, mode, owner and attributes are as before. Name the latest of several runs first.
    If a run cannot be undone, the runs named after it are not undone either.
    """
    request = request_of("undo", given, runs=_runs(folders), by=by, **_who(given))

    def sentences(result: Result) -> list[str]:
        return [*result.remarks, *certificate_sentences(result.certificate)]

    with _interrupted("undone", f"kafkats undo {_words(folders)}", *folders):
        return perform(request, executor, Rows(), sentences)


@click.command()
@_RUNS
@taking(*models_of("purge"), JOBS, JSON)
def purge(folders: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Delete the old files of a run: only this frees their space.

    The run cannot be undone after that.
    """
    request = request_of("purge", given, runs=_runs(folders))

    def sentences(result: Result) -> list[str]:
        freed = size_text(sum(run.freed_bytes for run in result.runs))
        not_due = [run.folder for run in result.runs if run.not_due]
        left = [f"{folder}: ended too recently, left alone" for folder in not_due]
        return [f"{freed} freed", *result.remarks, *left]

    with _interrupted("purged", f"kafkats purge {_words(folders)}", *folders):
        return perform(request, executor, Rows(), sentences)


@click.command()
@LOG_DIRS
@taking(*models_of("release"), Release, JSON)
def release(log_dirs: tuple[Path, ...], given: Given) -> int:
    """Break the reservation of log directories.

    Others can then plan and apply there. The plan that held the reservation is refused if they
    change its files.
    """
    from kafkats.execution.local import LocalExecutor

    holder = given.of(Release).holder
    reservation = None if holder is None else Wish(holder)
    request = request_of("release", given, log_dirs, reservation=reservation)

    def sentences(result: Result) -> list[str]:
        if session().as_json:
            show_rows([asdict(one) for one in result.released], ())
        else:
            for error in filter(None, (one.error for one in result.released)):
                warn(f"kafkats: {error}")
        return released_sentences(result.released)

    executor = session().executor or LazyExecutor(LocalExecutor)  # nothing is run in one
    return perform(request, executor, Show(), sentences)


@contextmanager
def _interrupted(done: str, again: str, *runs: Path) -> Generator[None]:
    """Say at Ctrl-C how many directories of the runs are in the phase `done`, and that `again`
    finishes the work. A run that is not there changed nothing.
    """
    try:
        yield
    except KeyboardInterrupt as e:
        from kafkats.flow.ending import phases

        known = [run for run in runs if (run / "run.json").exists()]
        found = sum((phases(run) for run in known), Counter[str]())
        if not found:
            raise click.exceptions.Abort(
                f"interrupted before any file was changed; {again} does it"
            ) from e
        said = f"interrupted: {found[done]} of {counted(found.total(), 'directory')} {done}"
        begun = found["intent"] + found["undo"]
        half = f", {begun} begun" if begun else ""
        back = f"; kafkats undo {_words(runs)} takes it back" if done == "done" else ""
        raise click.exceptions.Abort(
            f"{said}{half}; every file is whole, as before or as planned. {again} finishes it{back}"
        ) from e


def _words(paths: Iterable[Path]) -> str:
    return join(map(str, paths))


def _apply_words(folder: Path, digest: str) -> str:
    return f"kafkats apply {_words([folder])} --digest {digest}"


def _runs(folders: Sequence[Path]) -> list[Folder]:
    return [Folder(folder=folder) for folder in folders]


def _who(given: Given) -> dict[str, Any]:
    """Return the fields of a request that say who approved and who reserved."""
    record, holder = given.of(Approval).approval, given.of(Holder).holder
    return {
        "approval": None if record is None else ApprovalAsked(record=record),
        "reservation": Wish(holder) if holder else None,
    }


def _ask_for_approval(folder: Path) -> str:
    from kafkats.plans.parts import open_plan

    made = open_plan(folder)
    if not sys.stdin.isatty():
        raise UsageError(
            "apply needs --digest: no terminal to ask on;"
            f" kafkats show {_words([folder])} prints it"
        )
    as_json, session().as_json = session().as_json, False  # a person reads it
    show_plan(made, folder)
    session().as_json = as_json
    if not click.confirm("Apply this plan?"):
        again = _apply_words(folder, made.digest)
        raise click.exceptions.Abort(f"not applied, and nothing was changed; {again} does it")
    return made.digest
