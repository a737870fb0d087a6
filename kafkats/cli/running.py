"""apply, undo, purge and release: the verbs that change a log directory, or what keeps others from it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from kafkats.cli.options import BY, HOLDER, JSON, LOG_DIRS, MAX_BATCH_BYTES, PLACE, STOPPED, table_of
from kafkats.cli.planning import follows, show_plan
from kafkats.errors import UsageError
from kafkats.terminal import freed_sentences, progress, run_sentences, say_summary, show_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plan import Plan


@click.command()
@click.argument("folder", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--digest", help="The digest that was approved (8 digits will do); `any` is for throw-away copies.")
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
    as_json: bool,
) -> int:
    """Do what the approved plan says. Repeating it finishes an interrupted run, and does nothing to a finished one."""
    from kafkats.operations.apply import apply_partition, partition_works, rounds, summarize, tell_ledger
    from kafkats.plan import check_digest, read_plan
    from kafkats.report import ACTIONS
    from kafkats.reserving import changing
    from kafkats.run import finish_run, open_run, run_of

    made = read_plan(folder)
    if digest is None:
        digest = _ask_for_approval(made, folder)
    check_digest(made, digest)
    run_folder = run_folder or folder.with_name(folder.name + ".run")
    run = run_of(made, place=place, owner_stopped=owner_stopped)
    with changing(run, run_folder, holder=holder, plan_folder=folder) as held:
        run, _ = open_run(made, folder, run_folder, place=place, owner_stopped=owner_stopped)
        held.record(run_folder)
        works = [work for together in rounds(partition_works(made, run, run_folder)) for work in together]
        tell_ledger(run, "started", folder=run_folder, by=by, now_ms=_now_ms())
        batches = [apply_partition(work) for work in progress(works, "writing", lambda w: w.bytes)]
        actions = table_of(batches, ACTIONS)
        summary = summarize(actions)
        try:
            finish_run(run_folder, actions, summary)
            if not summary["exit_code"]:
                tell_ledger(run, "finished", folder=run_folder, by=by, now_ms=_now_ms())
        finally:  # should the report not be written, this is all there is to know of what was done
            _say_run(made, run_folder, actions, summary | {"remarks": held.remarks}, as_json)
    return int(summary["exit_code"])


def _say_run(made: Plan, run_folder: Path, actions: pa.Table, summary: dict[str, Any], as_json: bool) -> None:
    rows = actions.to_pylist()
    shown = [row for row in rows if as_json or (row["outcome"] != "already" and not follows(made, row))]
    show_rows(shown, ("outcome", "action", "partition_dir", "file", "after_bytes", "reason", "error"), as_json)
    said = [*summary["remarks"], *run_sentences(summary, run_folder)]
    if made.blocked:
        said.append(f"blocked rows, left alone: {made.blocked}; kafkats show names them")
    say_summary(summary | {"run": str(run_folder)}, as_json, said)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@HOLDER
@BY
@JSON
def undo(folder: Path, holder: str, by: str, as_json: bool) -> int:
    """Put back every file of a run. Bytes, times, mode, owner and attributes are as before."""
    from kafkats.reserving import changing
    from kafkats.run import read_run

    with changing(read_run(folder), folder, holder=holder, going_back=True) as held:
        code = _end_of_run(folder, "undo", as_json, by=by)
    if held.remarks:
        say_summary({"remarks": held.remarks}, as_json, held.remarks)
    return code


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--abandon", is_flag=True, help="Also end an interrupted run: its files stay as they are now.")
@JSON
def purge(folder: Path, abandon: bool, as_json: bool) -> int:
    """End the undo window of a run: only this frees the old bytes."""
    return _end_of_run(folder, "purge", as_json, abandon=abandon)


@click.command()
@LOG_DIRS
@click.option("--holder", metavar="WHO", help="Only what WHO has reserved; whoever it is if not given.")
@PLACE
@JSON
def release(log_dirs: tuple[Path, ...], holder: str | None, place: Path | None, as_json: bool) -> int:
    """Break the reservation of log directories: the plan that they are reserved for may find them changed."""
    from kafkats.reserving import release_all, release_sentences

    rows = release_all(log_dirs, holder=holder, place=place)
    code = max(int(row["exit_code"]) for row in rows)
    if as_json:
        show_rows(rows, (), as_json)
    say_summary({"exit_code": code}, as_json, release_sentences(rows))
    return code


def _end_of_run(
    folder: Path, verb: Literal["undo", "purge"], as_json: bool, *, abandon: bool = False, by: str = ""
) -> int:
    from kafkats.operations.apply import tell_ledger
    from kafkats.operations.ending import end_partition, note_purged, note_undone
    from kafkats.run import directories, read_run, wrote_in

    run, written = read_run(folder), wrote_in(folder)
    rows = [end_partition(run, verb, *where, wrote=where in written, abandon=abandon) for where in directories(run)]
    freed = sum(row["freed_bytes"] for row in rows)
    columns = ("outcome", "partition_dir", "files", *(("freed_bytes",) if verb == "purge" else ()), "error")
    show_rows(rows, columns, as_json)
    worst = max((row["exit_code"] for row in rows), default=0)
    if verb == "purge":
        remark = "" if worst else note_purged(folder, rows, now_ms=_now_ms())
        summary = {"freed_bytes": freed, "exit_code": worst} | ({"note": remark} if remark else {})
        say_summary(summary, as_json, [*freed_sentences(freed), *([remark] if remark else [])])
    elif not worst:
        note_undone(folder, now_ms=_now_ms())
        tell_ledger(run, "undone", folder=folder, by=by, now_ms=_now_ms())
    return worst


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _ask_for_approval(made: Plan, folder: Path) -> str:
    if not sys.stdin.isatty():
        raise UsageError("apply needs --digest where nobody can be asked; `kafkats show` prints it")
    show_plan(made, folder, as_json=False)
    click.confirm("Apply this plan?", abort=True)
    return made.digest


VERBS: Final = (apply, undo, purge, release)
