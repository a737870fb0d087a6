"""Show a plan: its rows, and what follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkats.cli.by_partition import by_partition
from kafkats.cli.terminal import plan_sentences, say_summary, show_rows
from kafkats.operations import OPERATIONS

if TYPE_CHECKING:
    from kafkats.plans.plan import Plan


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


def show_plan_rows(made: Plan, *, as_json: bool, files: bool) -> None:
    """Show the rows of a plan. `files` lists every file where an operation has one row per
    partition.
    """
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


def sentences_of(made: Plan, folder: Path) -> list[str]:
    """Return what a plan does, the space that it needs and that is free now, the next command."""
    from kafkats.plans.disks import room_of

    operation = OPERATIONS.get(made.operation)
    room = [one for one in room_of(made) if one.short or (operation and operation.by_partition)]
    return plan_sentences(made, folder, room)


def show_plan(made: Plan, folder: Path, as_json: bool, *, files: bool = False) -> None:
    """Show a plan that was written before."""
    from kafkats.result import first_remarks

    show_plan_rows(made, as_json=as_json, files=files)
    operation = OPERATIONS.get(made.operation)
    remarks = list(operation.remarks(made.header)) if operation else []
    totals = dict(made.header["totals"])
    summary = {"plan": str(folder), "digest": made.digest, **totals, "totals": totals}
    sentences = [*first_remarks(remarks), *sentences_of(made, folder)]
    say_summary(summary | {"remarks": remarks}, as_json, sentences)
