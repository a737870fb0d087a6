"""The proof after an apply: every file of a plan is read again from the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import storage
from kafkats.findings import DEFECTS
from kafkats.hashes import algorithm_of, hash_file
from kafkats.paths import LOG, TIME_INDEX
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import DIRECTORY
from kafkats.plans.operation import Proving
from kafkats.plans.plan import Plan
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    item_rows,
    key_of,
    partition_of,
    segment_rows,
)

NAMED: Final = 20
"""Wrong files that a result names."""
_HASHED: Final = pa.schema([
    *DIRECTORY,
    ("file", pa.string()),
    ("sha256", pa.string()),  # "": there is no such file
])
_WRONG: Final = pa.schema([("path", pa.string()), ("why", pa.string())])
"""One row per file that is not as planned."""


class Proof(NamedTuple):
    """The result of a proof: `equal` of `files` are as planned. `segments` (facts.SEGMENTS) were
    read.

    `not_equal` names the others; `reasons` has a line about each of them.
    """

    segments: pa.Table
    files: int
    equal: int
    not_equal: Sequence[str]
    reasons: Sequence[str]

    def summary(self) -> dict[str, object]:
        """Return the numbers, and the first of those that are not equal."""
        return {"files": self.files, "equal": self.equal, "not_equal": list(self.not_equal[:NAMED])}


def writes_of(plan: Plan) -> list[Item]:
    """Return the rows of a plan that are not blocked."""
    return item_rows(plan.items.filter(pc.not_equal(plan.items["action"], "blocked")))


def path_of(item: Item) -> str:
    """Return the path of an item's file."""
    return f"{item['log_dir']}/{item['partition_dir']}/{item['file']}"


def damage_of(segment: SegmentRow, file: str = "") -> str:
    """Return the first finding of severity damage or danger, "" if there is none.

    With `file` only findings about that file count.
    """
    found = [f for f in segment["findings"] if f["severity"] in DEFECTS and file in {"", f["file"]}]
    return f"{found[0]['file']}: {found[0]['reason']}" if found else ""


def read_again(
    request: Proving, writes: Iterable[Item]
) -> tuple[pa.Table, dict[SegmentKey, SegmentRow]]:
    """Read the segments of the written files again: SEGMENTS, and its rows by segment."""
    wanted = {key_of(row) for row in writes}
    segments = request.stages.verify([unit for unit in request.units if unit.key in wanted])
    return segments, {key_of(row): row for row in segment_rows(segments)}


def wrong_files(
    request: Proving, writes: Iterable[Item], reasons_of: Callable[[Path, Item], Iterable[str]]
) -> dict[str, str]:
    """Return the written files that are not as planned: path -> reason.

    `reasons_of(path, item)` looks at one file; it is called in tasks, so it is a function of a
    module. Raises as it does, StorageFailed.
    """
    by_directory: dict[PartitionKey, list[Item]] = {}
    for row in writes:
        by_directory.setdefault(partition_of(row), []).append(row)
    look = partial(wrong_in_directory, reasons_of=reasons_of)
    rows = request.stages.executor.map(
        "compare", list(by_directory.values()), look, _WRONG, size=len
    ).to_pylist()
    return {row["path"]: row["why"] for row in rows}


def wrong_in_directory(
    items: Sequence[Item], *, reasons_of: Callable[[Path, Item], Iterable[str]]
) -> pa.RecordBatch:
    """Return _WRONG of one partition directory, after its `items` were applied. Raises as
    `wrong_files`.
    """
    rows: list[dict[str, str]] = []
    for item in items:
        path = Path(path_of(item))
        with storage(path, "proving what was done"):
            rows += [{"path": str(path), "why": why} for why in reasons_of(path, item)]
    return batch_of(rows, _WRONG)


def prove(request: Proving) -> Proof:
    """Prove rebuilt indexes and approved logs: an index equals a rebuild from its log, a log has
    the planned sha256, removed files are gone.

    Raises StorageFailed.
    """
    writes = writes_of(request.plan)
    segments, states = read_again(request, writes)
    rows = [row for row in writes if _is_log(row) or row["action"] == "remove"]
    hashed = request.stages.executor.map(
        "prove", rows, _hash, _HASHED, size=lambda row: max(row["after_bytes"], 0)
    )
    paths = (f"{r['log_dir']}/{r['partition_dir']}/{r['file']}" for r in hashed.to_pylist())
    sha256 = dict(zip(paths, hashed["sha256"].to_pylist(), strict=True))
    wrong = [path_of(row) for row in writes if not _right(row, states, sha256)]
    return Proof(segments, len(writes), len(writes) - len(wrong), wrong, wrong)


def _right(row: Item, states: Mapping[SegmentKey, SegmentRow], sha256: Mapping[str, str]) -> bool:
    if _is_log(row) or row["action"] == "remove":
        planned = "" if row["action"] == "remove" else row["after_sha256"]
        return sha256[path_of(row)] == planned
    seen = states.get(key_of(row))
    if seen is None:
        return False
    kind = seen["time_index"] if row["file"].endswith(TIME_INDEX) else seen["offset_index"]
    return kind == "equal"


def _hash(row: Item) -> pa.RecordBatch:
    path, now = Path(path_of(row)), ""
    with storage(path, "reading what was written"):
        if path.exists():
            with path.open("rb", buffering=0) as file:
                now = hash_file(file, algorithm_of(row["after_sha256"], path))
    return batch_of([{**row, "sha256": now}], _HASHED)


def _is_log(row: Item) -> bool:
    return row["file"].endswith(LOG)
