"""apply and undo change a log directory, purge deletes old files, release ends reservations."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.approving import APPROVAL, check_approval, check_guards
from kafkats.cli.formats import keep_census, keep_certificate
from kafkats.cli.generated import Spreading, options
from kafkats.cli.making import follows, show_plan, together
from kafkats.cli.options import (
    BY,
    FILES,
    HOLDER,
    JOBS,
    JSON,
    LOG_DIRS,
    MAX_BATCH_BYTES,
    PLACE,
    PLAN,
    STOPPED,
    now_or,
)
from kafkats.cli.proving import proof_sentences
from kafkats.cli.session import session
from kafkats.cli.streams import warn
from kafkats.cli.terminal import freed_sentences, run_sentences, say_summary, show_rows
from kafkats.errors import UsageError
from kafkats.migration.options import UndoCertify
from kafkats.plans.options import Apply, Purge, Release

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.flow.applying import Applied
    from kafkats.plans.plan import Plan

_RUNS = click.argument(
    "folders", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


@click.command()
@PLAN
@options(Apply)
@APPROVAL
@STOPPED
@PLACE
@HOLDER
@BY
@JOBS
@FILES
@JSON
@MAX_BATCH_BYTES
def apply(
    folder: Path,
    digest: str | None,
    run_folder: Path | None,
    approval: Path | None,
    prove: bool | None,
    owner_stopped: bool,
    place: Path | None,
    holder: str,
    by: str,
    executor: Executor,
    files: bool,
    as_json: bool,
) -> int:
    """Carry out an approved plan, and prove the result.

    Exits with 1 if a written file is not as planned. Repeat it to finish an interrupted run;
    after success it changes nothing.
    """
    from kafkats.flow.applying import apply as flow
    from kafkats.plans.plan import check_digest, read_plan
    from kafkats.plans.run import run_folder_of

    plan = read_plan(folder)
    if digest is None:
        digest = _ask_for_approval(plan, folder)
    check_digest(plan, digest)
    check_approval(approval, [plan.digest])
    check_guards(plan)
    run = run_folder or run_folder_of(folder)

    def show(applied: Applied) -> None:
        _say_run(plan, run, applied, as_json, files=files)

    applied = flow(
        executor,
        plan,
        folder,
        run,
        place=place,
        owner_stopped=owner_stopped,
        holder=holder,
        by=by,
        prove=not session().scheduled if prove is None else prove,
        show=show,
    )
    return _exit_code(applied)


def _exit_code(applied: Applied) -> int:
    """Return the exit code of apply. A DAG run reports what is left by itself."""
    left = applied.left > 0 and not session().scheduled
    return applied.exit_code or int(left)


def _say_run(made: Plan, run_folder: Path, applied: Applied, as_json: bool, *, files: bool) -> None:
    rows = applied.actions.to_pylist()
    proof = applied.proof
    summary = applied.summary | {"remarks": applied.remarks, "exit_code": _exit_code(applied)}
    summary |= {"proof": proof.summary()} if proof else {}
    shown = [
        row for row in rows if as_json or (row["outcome"] != "already" and not follows(made, row))
    ]
    columns = (
        "outcome",
        "action",
        "partition_dir",
        "files",
        "file",
        "after_bytes",
        "reason",
        "error",
    )
    show_rows(together(made, shown, every_file=as_json or files), columns, as_json)
    proved = proof_sentences(proof) if proof else []
    sentences = [*applied.remarks, *run_sentences(summary, made, run_folder, proved)]
    if made.blocked:
        sentences.append(f"blocked rows, left alone: {made.blocked}; kafkats show names them")
    say_summary(summary | _partitions(rows) | {"run": str(run_folder)}, as_json, sentences)


def _partitions(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many partitions there are, and in how many of them something was not done."""
    every = {(row["log_dir"], row["partition_dir"]) for row in rows}
    left = {(row["log_dir"], row["partition_dir"]) for row in rows if row["error"]}
    return {"partitions": len(every), "left_partitions": len(left)}


@click.command(cls=Spreading)
@_RUNS
@APPROVAL
@options(UndoCertify)
@HOLDER
@BY
@JOBS
@JSON
def undo(
    folders: tuple[Path, ...],
    approval: Path | None,
    certified: tuple[Path, ...],
    max_magic: int | None,
    output: Path | None,
    report: Path | None,
    holder: str,
    by: str,
    executor: Executor,
    as_json: bool,
) -> int:
    """Put back every file of a run.

    Bytes, times, mode, owner and attributes are as before. Name the latest of several runs first.
    If a run cannot be undone, the runs named after it are not undone either.
    """
    from kafkats.flow.applying import undo as flow
    from kafkats.plans.run import read_run

    if not certified and (max_magic is not None or output or report):
        raise UsageError("--max-magic, -o and --report go with --certify")
    check_approval(approval, [read_run(folder).digest for folder in folders])
    summary: dict[str, Any] = {"runs": [], "files": 0, "errors": [], "remarks": []}
    code = 0
    for folder in folders:
        ended = flow(executor, folder, holder=holder, by=by)
        show_rows(ended.rows, ("outcome", "partition_dir", "files", "error"), as_json)
        summary["runs"].append(str(folder))
        summary["files"] += ended.total("files")
        summary["errors"] += ended.errors
        summary["remarks"] += ended.remarks
        code = ended.exit_code
        if code:
            break  # what an earlier run left lies below it
    sentences = list(summary["remarks"])
    if certified and not code:
        more, certificate = _certified(executor, certified, max_magic, output, report)
        summary |= more
        sentences += certificate
    say_summary(summary, as_json, sentences)
    return code


def _certified(
    executor: Executor,
    log_dirs: Sequence[Path],
    max_magic: int | None,
    output: Path | None,
    report: Path | None,
) -> tuple[dict[str, Any], list[str]]:
    """Return the summary and the sentences of a certificate of what lies there after an undo."""
    from kafkats.flow import looking
    from kafkats.migration.certificate import CertifyOptions
    from kafkats.plans.units import list_units

    units = list(list_units(log_dirs))
    options = CertifyOptions(tuple(map(str, log_dirs)), max_magic=max_magic)
    certificate = looking.certify(executor, units, options)
    summary, sentences = keep_certificate(certificate, output)
    if report:
        census = keep_census(looking.count_formats(executor, units), report)
        summary |= {"census": census, "report": str(report)}
    return summary | {"log_dirs": list(map(str, log_dirs))}, sentences


@click.command()
@_RUNS
@options(Purge)
@JOBS
@JSON
def purge(
    folders: tuple[Path, ...],
    abandon: bool,
    older_than: int | None,
    now: int | None,
    executor: Executor,
    as_json: bool,
) -> int:
    """Delete the old files of a run: only this frees their space.

    The run cannot be undone after that.
    """
    from kafkats.flow.applying import purge as flow
    from kafkats.plans.run import ended_ms, read_run

    code = 0
    notes: list[str] = []
    not_due: list[str] = []
    summary: dict[str, Any] = {"runs": [], "files": 0, "freed_bytes": 0, "errors": []}
    for folder in folders:
        read_run(folder)
        if older_than and ended_ms(folder) + older_than > now_or(now):
            not_due.append(str(folder))
            continue
        ended = flow(executor, folder, abandon=abandon)
        show_rows(
            ended.rows, ("outcome", "partition_dir", "files", "freed_bytes", "error"), as_json
        )
        notes += ended.remarks
        summary["runs"].append(str(folder))
        summary["errors"] += ended.errors
        summary |= {name: summary[name] + ended.total(name) for name in ("files", "freed_bytes")}
        code = max(code, ended.exit_code)
    summary |= {"not_due": not_due, "exit_code": code} | ({"note": notes[0]} if notes else {})
    left = [f"{folder}: ended too recently, left alone" for folder in not_due]
    say_summary(summary, as_json, [*freed_sentences(summary["freed_bytes"]), *notes, *left])
    return code


@click.command()
@LOG_DIRS
@options(Release)
@PLACE
@JSON
def release(
    log_dirs: tuple[Path, ...], holder: str | None, place: Path | None, as_json: bool
) -> int:
    """Break the reservation of log directories.

    Others can then plan and apply there. The plan that held the reservation is refused if they
    change its files.
    """
    from kafkats.reserving import release_all, release_sentences

    rows = release_all(log_dirs, holder=holder, place=place)
    code = max(int(row["exit_code"]) for row in rows)
    if as_json:
        show_rows(rows, (), as_json)
    for error in () if as_json else [row["error"] for row in rows if row["error"]]:
        warn(f"kafkats: {error}")
    say_summary(_released(rows) | {"exit_code": code}, as_json, release_sentences(rows))
    return code


def _released(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the reservations that were released and kept, and the log dirs of the others."""
    by_outcome: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_outcome.setdefault(row["outcome"], []).append(row)
    fields = ("log_dir", "holder", "until_ms")
    return {
        outcome: [{name: row[name] for name in fields} for row in by_outcome.get(outcome, ())]
        for outcome in ("released", "kept")
    } | {
        outcome: [row["log_dir"] for row in by_outcome.get(outcome, ())]
        for outcome in ("free", "failed")
    }


def _ask_for_approval(made: Plan, folder: Path) -> str:
    if not sys.stdin.isatty():
        raise UsageError("apply needs --digest: no terminal to ask on; `kafkats show` prints it")
    show_plan(made, folder, as_json=False)
    click.confirm("Apply this plan?", abort=True)
    return made.digest


COMMANDS: Final = (apply, undo, purge, release)
