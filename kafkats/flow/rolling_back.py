"""A rollback by undo: what the runs of a migration wrote, while it can still be undone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.plans.run import read_actions, read_run


def undoing(folders: Sequence[Path]) -> dict[str, Any]:
    """Return what stands in a plan's place: the runs, and totals of what undo puts back.

    Raises CorruptPlan, StorageFailed.
    """
    tables = [read_actions(folder) for folder in folders if (folder / "report.parquet").exists()]
    written = [
        table.filter(pc.is_in(table["outcome"], pa.array(["done", "already"]))) for table in tables
    ]
    sizes = [pc.sum(pc.max_element_wise(table["before_bytes"], 0)).as_py() for table in written]
    totals = {
        "files": sum(table.num_rows for table in written),
        "blocked": 0,
        "write_bytes": sum(size or 0 for size in sizes),
        "losses": {},
    }
    return {
        "plan": str(folders[0]),
        "digest": read_run(folders[0]).digest,
        "totals": totals,
        "undo": [str(folder) for folder in folders],
    }


def undone_in(folders: Sequence[Path]) -> set[str]:
    """Return the log directories of these runs."""
    return {log_dir for folder in folders for log_dir in read_run(folder).directories}
