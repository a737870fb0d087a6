"""Show a plan: its rows, of a recovery put together by partition, and what follows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats import paths
from kafkats.cli.session import session
from kafkats.cli.terminal import plan_sentences, say_summary, show_rows
from kafkats.counts import counted
from kafkats.logdir.workarea import ROOT
from kafkats.operations import OPERATIONS

if TYPE_CHECKING:
    from kafkats.plans.plan import AnyPlan


Row = Mapping[str, Any]

_COLUMNS: Final = ("action", "log_dir", "partition_dir", "file", "after_bytes", "reason")
_SHOWN: Final = ("action", "partition_dir", "files", "file", "after_bytes", "reason")
_LAST: Final = ("blocked", "refused", "failed")
"""Actions and outcomes that come last, where they are next to the summary."""


def follows(made: AnyPlan, row: Mapping[str, Any]) -> bool:
    """Return whether the row's file changes together with the .log of its segment: the table then
    leaves it out.
    """
    operation = OPERATIONS.get(made.operation)
    return operation is not None and operation.leaves_out(str(row["file"]))


def together(
    made: AnyPlan, rows: Sequence[dict[str, Any]], *, every_file: bool
) -> Sequence[Mapping[str, Any]]:
    """Return one row per partition where the operation shows these, unless `every_file`."""
    operation = OPERATIONS.get(made.operation)
    if every_file or operation is None or not operation.recovers:
        return rows
    return by_partition(rows, operation.verb or operation.name)


def show_plan_rows(made: AnyPlan, *, files: bool) -> None:
    """Show the rows of a plan. `files` lists every file where an operation has one row per
    partition.
    """
    as_json, most, shown = session().as_json, session().front.most_rows, 0
    for table in made.tables(_COLUMNS):
        rows = [row for row in table.to_pylist() if as_json or not follows(made, row)]
        show_rows(together(made, rows, every_file=as_json or files), _SHOWN)
        shown += len(rows)
        if most is not None and not as_json and shown > most:
            return  # of a plan in parts, too, a scheduler's log has only the first rows


def sentences_of(made: AnyPlan, folder: Path) -> list[str]:
    """Return what a plan does, the space that it needs and that is free now, the next command."""
    from kafkats.plans.disks import room_of

    operation = OPERATIONS.get(made.operation)
    room = [one for one in room_of(made) if one.short or (operation and operation.recovers)]
    return plan_sentences(made, folder, room)


def show_plan(made: AnyPlan, folder: Path, *, files: bool = False) -> None:
    """Show a plan that was written before."""
    from kafkats.result import first_remarks

    show_plan_rows(made, files=files)
    operation = OPERATIONS.get(made.operation)
    remarks = list(operation.remarks(made.header)) if operation else []
    totals = dict(made.header["totals"])
    summary = {"plan": str(folder), "digest": made.digest, **totals, "totals": totals}
    sentences = [*first_remarks(remarks), *sentences_of(made, folder)]
    say_summary(summary | {"remarks": remarks}, sentences)


def by_partition(rows: Sequence[Row], verb: str) -> list[dict[str, Any]]:
    """Return one row per partition directory from rows of ITEMS or ACTIONS, in their order.

    `verb` is the action of a partition that is not blocked. A row says how many files are changed,
    what is cut or deleted, and where the log ends.
    """
    together: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        together.setdefault((row["log_dir"], row["partition_dir"]), []).append(row)
    found = [_row(of_it, verb) for of_it in together.values()]
    return sorted(found, key=lambda row: _place(row["outcome"] or row["action"]))


def _row(rows: Sequence[Row], verb: str) -> dict[str, Any]:
    first = rows[0]
    blocked = any(row["action"] == "blocked" for row in rows)
    outcomes = Counter(row["outcome"] for row in rows if row.get("outcome"))
    errors = list(dict.fromkeys(row["error"] for row in rows if row.get("error")))
    return {
        "log_dir": first["log_dir"],
        "partition_dir": first["partition_dir"],
        "outcome": max(outcomes, key=lambda one: (_place(one), outcomes[one]), default=""),
        "action": "blocked" if blocked else verb,
        "files": 0 if blocked else len(rows),
        "reason": "; ".join(_reasons(rows)),
        "error": "; ".join(errors),
    }


def _place(word: str) -> int:
    return _LAST.index(word) + 1 if word in _LAST else 0


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Return what an operator has to know of the files: refusals, cuts, deletions, the log end."""
    told = [row["reason"] for row in rows if row["action"] == "blocked"]
    logs = [row for row in rows if row["file"].endswith(paths.LOG)]
    told += [f"{row['file']}: {row['reason']}" for row in logs if row["action"] in _CHANGES_LOG]
    gone = sum(row["action"] == "remove" for row in logs)
    told += [f"{counted(gone, 'segment')} deleted"] if gone else []
    shared = [row for row in rows if row["file"] in _TOLD]
    told += [
        f"{row['file']}: {row['reason']}" if row["partition_dir"] == ROOT else row["reason"]
        for row in shared
    ]
    return told or list(dict.fromkeys(row["reason"] for row in rows))


_CHANGES_LOG: Final = ("truncate", "replace")
_TOLD: Final = (paths.CLEAN_SHUTDOWN, paths.RECOVERY_POINT)
