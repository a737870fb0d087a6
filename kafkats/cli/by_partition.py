"""Rows of a plan or a run put together: one per partition, blocked ones last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafkats import paths
from kafkats.counts import counted
from kafkats.logdir.workarea import ROOT

Row = Mapping[str, Any]

_LAST: Final = ("blocked", "refused", "failed")
"""Actions and outcomes that come last, where they are next to the summary."""


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
    told += [_of_log_dir(row) if row["partition_dir"] == ROOT else row["reason"] for row in shared]
    return told or list(dict.fromkeys(row["reason"] for row in rows))


def _of_log_dir(row: Row) -> str:
    """Return the reason of a file that all partitions of a log directory share."""
    return f"{row['file']}: {row['reason']}"


_CHANGES_LOG: Final = ("truncate", "replace")
_TOLD: Final = (paths.CLEAN_SHUTDOWN, paths.RECOVERY_POINT)
