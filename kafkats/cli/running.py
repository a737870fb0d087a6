"""apply, undo, purge and release: the verbs that change a log directory, or what keeps others from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.options import BY, HOLDER, JOBS, JSON, LOG_DIRS, MAX_BATCH_BYTES, PLACE, STOPPED
from kafkats.cli.planning import follows, show_plan
from kafkats.cli.terminal import freed_sentences, run_sentences, say_summary, show_rows
from kafkats.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution import Executor
    from kafkats.plans.plan import Plan


@click.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--digest",
    help="The digest that was approved (8 digits will do); `any` is for throw-away copies.",
)
@click.option(
    "--run",
    "run_folder",
    metavar="RUN",
    type=click.Path(path_type=Path),
    help="The run's folder; PLAN.run if not given.",
)
@STOPPED
@PLACE
@HOLDER
@BY
@JOBS
@JSON
@MAX_BATCH_BYTES
def apply(
    folder: Path,
    digest: str | None,
    run_folder: Path | None,
    owner_stopped: bool,
    place: Path | None,
    holder: str,
    by: str,
    executor: Executor,
    as_json: bool,
) -> int:
    """Do what the approved plan says. Repeating it finishes an interrupted run, and does nothing to a finished one."""
    from kafkats.flow.applying import Applied
    from kafkats.flow.applying import apply as flow
    from kafkats.plans.plan import check_digest, read_plan

    plan = read_plan(folder)
    if digest is None:
        digest = _ask_for_approval(plan, folder)
    check_digest(plan, digest)
    run = run_folder or folder.with_name(folder.name + ".run")

    def show(applied: Applied) -> None:
        _say_run(
            plan, run, applied.actions, applied.summary | {"remarks": applied.remarks}, as_json
        )

    applied = flow(
        executor,
        plan,
        folder,
        run,
        place=place,
        owner_stopped=owner_stopped,
        holder=holder,
        by=by,
        show=show,
    )
    return int(applied.summary["exit_code"])


def _say_run(
    made: Plan, run_folder: Path, actions: pa.Table, summary: dict[str, Any], as_json: bool
) -> None:
    rows = actions.to_pylist()
    shown = [
        row for row in rows if as_json or (row["outcome"] != "already" and not follows(made, row))
    ]
    show_rows(
        shown,
        ("outcome", "action", "partition_dir", "file", "after_bytes", "reason", "error"),
        as_json,
    )
    said = [*summary["remarks"], *run_sentences(summary, run_folder)]
    if made.blocked:
        said.append(f"blocked rows, left alone: {made.blocked}; kafkats show names them")
    say_summary(summary | {"run": str(run_folder)}, as_json, said)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@HOLDER
@BY
@JOBS
@JSON
def undo(folder: Path, holder: str, by: str, executor: Executor, as_json: bool) -> int:
    """Put back every file of a run. Bytes, times, mode, owner and attributes are as before."""
    from kafkats.flow.applying import undo as flow

    ended = flow(executor, folder, holder=holder, by=by)
    show_rows(ended.rows, ("outcome", "partition_dir", "files", "error"), as_json)
    if ended.remarks:
        say_summary({"remarks": ended.remarks}, as_json, ended.remarks)
    return ended.exit_code


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--abandon", is_flag=True, help="Also end an interrupted run: its files stay as they are now."
)
@JOBS
@JSON
def purge(folder: Path, abandon: bool, executor: Executor, as_json: bool) -> int:
    """End the undo window of a run: only this frees the old bytes."""
    from kafkats.flow.applying import purge as flow

    ended = flow(executor, folder, abandon=abandon)
    freed = ended.total("freed_bytes")
    show_rows(ended.rows, ("outcome", "partition_dir", "files", "freed_bytes", "error"), as_json)
    summary: dict[str, Any] = {"freed_bytes": freed, "exit_code": ended.exit_code}
    if ended.remarks:
        summary["note"] = ended.remarks[0]
    say_summary(summary, as_json, [*freed_sentences(freed), *ended.remarks])
    return ended.exit_code


@click.command()
@LOG_DIRS
@click.option(
    "--holder", metavar="WHO", help="Only what WHO has reserved; whoever it is if not given."
)
@PLACE
@JSON
def release(
    log_dirs: tuple[Path, ...], holder: str | None, place: Path | None, as_json: bool
) -> int:
    """Break the reservation of log directories: the plan that they are reserved for may find them changed."""
    from kafkats.reserving import release_all, release_sentences

    rows = release_all(log_dirs, holder=holder, place=place)
    code = max(int(row["exit_code"]) for row in rows)
    if as_json:
        show_rows(rows, (), as_json)
    say_summary({"exit_code": code}, as_json, release_sentences(rows))
    return code


def _ask_for_approval(made: Plan, folder: Path) -> str:
    if not sys.stdin.isatty():
        raise UsageError("apply needs --digest where nobody can be asked; `kafkats show` prints it")
    show_plan(made, folder, as_json=False)
    click.confirm("Apply this plan?", abort=True)
    return made.digest


VERBS: Final = (apply, undo, purge, release)
