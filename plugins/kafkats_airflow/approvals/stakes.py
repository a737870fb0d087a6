"""A sentence about what an answer lets happen: the verb, files, bytes, and how much is on disk.

Questions and pages say it in the same words.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkats.counts import counted, size_text
from kafkats.errors import KafkatsError
from kafkats.operations import OPERATIONS

if TYPE_CHECKING:
    import pyarrow as pa

UNDO: Final = "undo"
PURGE: Final = "purge"
RELEASE: Final = "release"
_SIZES: Final = ("log", "index", "timeindex", "txnindex", "snapshot")


class Stake(NamedTuple):
    """A plan, or RUNs to end. `operation` is the plan's, UNDO or PURGE, "" if unknown. `on_disk`
    are the bytes of segments of its log directories, None if nothing tells.
    """

    plan: str
    operation: str
    totals: Mapping[str, object]
    on_disk: int | None


def size_now(path: Path) -> int | None:
    """Return the size of a file that a plan updates, None if there is none, -1 if that is not seen
    from here: a plan does not note what all partitions of a log directory change.
    """
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return None if os.path.isdir(path.parent) else -1  # noqa: PTH112  # it may not be entered
    except (OSError, ValueError):
        return -1


def together(stakes: Sequence[Stake]) -> str:
    """Return what applying these plans does, without a full stop; "" if they change nothing.

    Plans beside each other are about the same log directories: these count once.
    """
    stakes = [
        one for one in stakes if _number(one.totals, "files") or one.operation in {UNDO, PURGE}
    ]
    operations = dict.fromkeys(one.operation for one in stakes)
    return "; ".join(
        _sentence(name, [o for o in stakes if o.operation == name]) for name in operations
    )


def _sentence(operation: str, stakes: Sequence[Stake]) -> str:
    places = {Path(one.plan).parent: one.on_disk for one in stakes}
    known = [one for one in places.values() if one is not None]
    on_disk = sum(known) if known and len(known) == len(places) else None
    totals = {
        name: sum(_number(one.totals, name) for one in stakes)
        for name in (
            "files",
            "partitions",
            "freed_bytes",
            "write_bytes",
            "cut_bytes",
            "dropped_bytes",
        )
    }
    return _stake(operation, totals, on_disk)


def _stake(operation: str, totals: Mapping[str, int], on_disk: int | None) -> str:
    files = counted(totals["files"], "file")
    if operation == PURGE:
        many = f" ({files})" if totals["files"] else ""
        return f"Delete the old files that an undo would put back{many}: no undo after that"
    if totals["partitions"]:
        files += f" in {counted(totals['partitions'], 'partition')}"
    if operation == UNDO:  # an interrupted RUN has not counted its files
        return f"Put back {files if totals['files'] else 'every file'}, as they were before"
    if operation not in OPERATIONS:
        return f"Change {files}"
    verb = OPERATIONS[operation].verb or operation
    said = f"{verb.capitalize()} {files}"
    if operation == "retain" and totals["freed_bytes"]:
        of_disk = "" if on_disk is None else f" of {size_text(on_disk)} on disk"
        return f"{said}, {size_text(totals['freed_bytes'])}{of_disk}"
    cut = totals["cut_bytes"] + totals["dropped_bytes"]
    does = {"to write": totals["write_bytes"], "to cut off": cut}
    amounts = ", ".join(f"{size_text(many)} {what}" for what, many in does.items() if many)
    said += f": {amounts}" if amounts else ""
    return f"{said}; these volumes hold {size_text(on_disk)}" if on_disk is not None else said


def on_disk(plan: Path) -> int | None:
    """Return the bytes of segments of a plan's log directories, of one replica: logs, indexes and
    snapshots; of preallocated files those that have blocks. None if the plan has no readable report
    beside it.
    """
    import pyarrow.compute as pc

    from kafkats.plans.holes import read_holes

    table = _looked(plan, ["base_offset", *(f"{name}.size" for name in _SIZES)])
    if table is None:
        return None
    try:
        holes = pc.sum(read_holes(plan.parent / "before")["bytes"]).as_py() or 0
    except (OSError, KafkatsError):
        return None
    real = table.filter(pc.greater_equal(table["base_offset"], 0))
    sums = [pc.sum(pc.struct_field(real[name], "size")).as_py() for name in _SIZES]
    return sum(one or 0 for one in sums) - int(holes)


def danger(plan: Path) -> dict[str, int] | None:
    """Return the findings of danger of the look that a plan was made from, by kind. None if the
    plan has no readable report beside it.
    """
    import pyarrow.compute as pc

    table = _looked(plan, ["findings"])
    if table is None:
        return None
    found = pc.list_flatten(table["findings"])
    severe = pc.equal(pc.struct_field(found, "severity"), "danger")
    return dict(Counter(pc.struct_field(found, "kind").filter(severe).to_pylist()))


def _looked(plan: Path, columns: Sequence[str]) -> pa.Table | None:
    """Return columns of the look that a plan was made from, None without a readable report."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with (plan.parent / "before" / "segments.parquet").open("rb") as file:
            return parquet.ParquetFile(file).read(columns, use_threads=False)
    except (OSError, pa.ArrowException):
        return None


def _number(totals: Mapping[str, object], name: str) -> int:
    found = totals.get(name)
    return found if isinstance(found, int) else 0
