"""The steps of every `plan` command: reserve, decide, write the plan's folder, show it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkats.cli.by_partition import by_partition
from kafkats.cli.generated import options
from kafkats.cli.options import FILES, JSON, LOG_DIRS, PLACE
from kafkats.cli.proving import keep_segments
from kafkats.cli.session import first_remarks
from kafkats.cli.terminal import plan_sentences, say_summary, show_rows
from kafkats.errors import UsageError
from kafkats.operations import OPERATIONS
from kafkats.plans.options import PlanFolder, Reserve

if TYPE_CHECKING:
    from kafkats.plans.operation import Planned
    from kafkats.plans.plan import Plan
    from kafkats.reserving import Planning, Wish


@dataclass(frozen=True)
class Decision:
    """The result of a decision: a plan, or that runs which wrote in `undone` are to be undone.

    `more` are further fields of the summary, `remarks` are for whoever plans, `sentences` are the
    rest of the output.
    """

    planned: Planned | None
    more: Mapping[str, Any] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    sentences: Sequence[str] = ()
    undone: Collection[str] = ()


@dataclass(frozen=True)
class Making:
    """The plan's folder, and the reservation of its log directories."""

    output: Path | None
    into: Path | None
    report: Path | None
    go_on: bool
    wish: Wish | None
    place: Path | None
    as_json: bool
    files: bool = False

    def folder_of(self, plan: Plan, beside: Path | None = None) -> Path:
        """The folder for a plan, or for one `beside` it; with --into it ends with the digest."""
        if self.output is not None:
            return beside or self.output
        assert self.into is not None
        named = beside or self.into / "plan"
        return named.with_name(f"{named.name}-{plan.digest[:16]}")

    def make(self, log_dirs: Sequence[Path], decide: Callable[[Planning], Decision]) -> int:
        """Reserve the log directories, decide, write and show the plan. Returns the exit code.

        Raises as `planning` and `flow.planning.write`.
        """
        from kafkats.flow.planning import write
        from kafkats.plans.disks import keep_disks
        from kafkats.reserving import planning

        with planning(log_dirs, self.wish, self.place) as ours:
            decision = decide(ours)
            if decision.planned is None:
                ours.keep(decision.undone)
                folder, seen = Path(), {}
            else:
                folder = self.folder_of(decision.planned.plan)
                write(decision.planned, ours, folder)
                seen = {"seen": keep_segments(decision.planned.segments, self.report)}
                if self.report is not None:
                    keep_disks(map(Path, ours.log_dirs), self.report)
        more = {"log_dirs": ours.log_dirs, **seen, **decision.more}
        more["reservation_remarks"] = ours.remarks
        if decision.planned is None:
            say_summary(
                more | ours.summary(),
                self.as_json,
                [*ours.remarks, *ours.sentences(), *decision.sentences],
            )
            return 0
        plan = decision.planned.plan
        remarks = [*decision.remarks, *decision.planned.remarks, *ours.remarks]
        show_plan(
            plan,
            folder,
            self.as_json,
            remarks,
            [*ours.sentences(), *decision.sentences],
            more | ours.summary(),
            files=self.files,
        )
        return 0 if self.go_on else plan.exit_code


def MAKING(command: Any) -> Any:  # noqa: N802  # stands among the constants, and is used like one
    """Add the options of every `plan` command, which gets `log_dirs` and `making`."""

    @wraps(command)
    def worded(
        *args: Any,
        output: Path | None,
        into: Path | None,
        report: Path | None,
        go_on: bool,
        reserve: bool,
        holder: str | None,
        reserve_for: int | None,
        reserve_until: int | None,
        skip_reserved: bool,
        take_over: tuple[str, ...],
        place: Path | None,
        as_json: bool,
        files: bool,
        **words: Any,
    ) -> Any:
        folder = output or into
        if folder is None or (output and into):
            raise UsageError("name the plan's folder with -o, or with --into a folder for it")
        wish = None
        if reserve or holder is not None:
            wish = _wish(folder, holder, reserve_for, reserve_until, skip_reserved, take_over)
        elif (reserve_for, reserve_until) != (None, None) or skip_reserved or take_over:
            raise UsageError(
                "--reserve-for, --reserve-until, --skip-reserved and --take-over go with --reserve"
            )
        making = Making(output, into, report, go_on, wish, place, as_json, files)
        return command(*args, making=making, **words)

    for option in (*reversed(_WORDS), LOG_DIRS):
        worded = option(worded)
    return worded


_WORDS = (options(PlanFolder, Reserve), PLACE, FILES, JSON)


def _wish(
    folder: Path,
    holder: str | None,
    lasting_ms: int | None,
    until_ms: int | None,
    skip: bool,
    take_over: tuple[str, ...],
) -> Wish:
    """Return the reservation to ask for. Each plan folder is its own holder, if none is given: only
    planning into the same folder again does not wait.
    """
    from kafkats.reserving import DAY_MS, Wish, now_ms, somebody

    if lasting_ms is not None and until_ms is not None:
        raise UsageError("--reserve-for does not go with --reserve-until")
    if until_ms is None:
        until_ms = now_ms() + (DAY_MS if lasting_ms is None else lasting_ms)
    named = somebody(f"plan {folder.absolute()}") if holder is None else holder
    return Wish(named, until_ms, skip, take_over)


def follows(made: Plan, row: Mapping[str, Any]) -> bool:
    """Return whether the row's file changes together with the .log of its segment: the table then
    leaves it out.
    """
    operation = OPERATIONS.get(made.operation)
    return operation is not None and operation.leaves_out(str(row["file"]))


def together(
    made: Plan, rows: Sequence[dict[str, Any]], *, every_file: bool
) -> Sequence[Mapping[str, Any]]:
    """Return one row per partition where the operation shows these, unless `every_file`."""
    operation = OPERATIONS.get(made.operation)
    if every_file or operation is None or not operation.by_partition:
        return rows
    return by_partition(rows, operation.verb or operation.name)


def show_plan(
    made: Plan,
    folder: Path,
    as_json: bool,
    remarks: Sequence[str] = (),
    sentences: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    *,
    files: bool = False,
) -> None:
    """Show the plan. `remarks`, `sentences` and `more` are for whoever plans, and no part of it.

    `files` lists every file where an operation has one row per partition.
    """
    from kafkats.plans.disks import room_of

    rows = made.items.select([
        "action",
        "log_dir",
        "partition_dir",
        "file",
        "after_bytes",
        "reason",
    ]).to_pylist()
    rows = [row for row in rows if as_json or not follows(made, row)]
    columns = ("action", "partition_dir", "files", "file", "after_bytes", "reason")
    show_rows(together(made, rows, every_file=as_json or files), columns, as_json)
    operation = OPERATIONS.get(made.operation)
    remarks = [*(operation.remarks(made.header) if operation else ()), *remarks]
    totals = dict(made.header["totals"])
    summary = {"plan": str(folder), "digest": made.digest, **totals, "totals": totals}
    summary |= {**(more or {}), "remarks": remarks}
    room = [one for one in room_of(made) if one.short or (operation and operation.by_partition)]
    sentences = [*first_remarks(remarks), *sentences, *plan_sentences(made, folder, room)]
    say_summary(summary, as_json, sentences)
