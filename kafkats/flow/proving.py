"""The proof after an apply: every file of a plan is read again from the disk, and must be as the
plan meant it.

rebuild, migrate    an index equals a rebuild from its log; a log is the one that was approved, to
                    the byte; removed files are gone
retain              deleted files are gone; kept segments are there, with the same last records;
                    checkpoints begin where the logs do
roll                the new segment is empty, active, and begins where the one before it ends
split               is proved while it is made: there is nothing to prove later
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import UsageError, storage
from kafkats.execution import Executor
from kafkats.findings import SEVERITIES
from kafkats.flow import looking
from kafkats.hashes import algorithm_of, hash_file
from kafkats.inspect.verify import VerifyOptions
from kafkats.paths import LOG, TIME_INDEX
from kafkats.plans.facts import read_table
from kafkats.plans.plan import Plan
from kafkats.plans.rows import Item, item_rows
from kafkats.plans.units import Unit
from kafkats.retention.plan import RETENTION
from kafkats.retention.proof import WRONG, not_kept, wrong_files

NAMED: Final = 20
"""Wrong files that a result names."""
_HASHED: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("file", pa.string()),
    ("sha256", pa.string()),  # "": there is no such file
])

Row = Mapping[str, Any]
Directory = tuple[str, str]


class Proof(NamedTuple):
    """The result of a proof: `equal` of `files` are as planned. `segments` (facts.SEGMENTS) were read.

    `not_equal` names the others; `reasons` has a line about each of them.
    """

    segments: pa.Table
    files: int
    equal: int
    not_equal: Sequence[str]
    reasons: Sequence[str]

    def summary(self) -> dict[str, Any]:
        """The numbers, and the first of those that are not equal."""
        return {"files": self.files, "equal": self.equal, "not_equal": list(self.not_equal[:NAMED])}


def prove(
    executor: Executor,
    plan: Plan,
    folder: Path,
    units: Sequence[Unit],
    options: VerifyOptions,
    *,
    later: Collection[Directory] = (),
) -> Proof:
    """Prove what the plan in `folder` wrote. In the partitions of `later` another run has decided
    since what is kept.

    Raises UsageError for a plan that is proved while it is made, CorruptFile, CorruptPlan,
    StorageFailed.
    """
    if plan.operation == "retain":
        return _retain(executor, plan, folder, units, later)
    if plan.operation == "roll":
        return _roll(executor, plan, units, options)
    if plan.operation == "split":
        raise UsageError(
            "a split is proved while it is made: there is nothing to prove afterwards", path=folder
        )
    return _written(executor, plan, units, options)


def _written(
    executor: Executor, plan: Plan, units: Sequence[Unit], options: VerifyOptions
) -> Proof:
    writes = _writes(plan)
    wanted = {_segment(row) for row in writes}
    chosen = [
        unit for unit in units if (unit.log_dir, unit.partition_dir, unit.base_offset) in wanted
    ]
    segments = looking.verify(executor, chosen, options)
    states = {_segment(row): row for row in segments.to_pylist()}
    rows = [row for row in writes if _is_log(row) or row["action"] == "remove"]
    hashed = executor.map(
        "prove", rows, _hash, _HASHED, size=lambda row: max(row["after_bytes"], 0)
    )
    found = {_path(row): row["sha256"] for row in hashed.to_pylist()}
    wrong = [_path(row) for row in writes if not _right(row, states, found)]
    return Proof(segments, len(writes), len(writes) - len(wrong), wrong, wrong)


def _right(row: Row, states: Mapping[Any, Row], found: Mapping[str, str]) -> bool:
    if _is_log(row) or row["action"] == "remove":
        return found[_path(row)] == ("" if row["action"] == "remove" else row["after_sha256"])
    seen = states.get(_segment(row))
    column = "time_index" if row["file"].endswith(TIME_INDEX) else "offset_index"
    return seen is not None and seen[column] == "equal"


def _hash(row: Row) -> pa.RecordBatch:
    path, now = Path(row["log_dir"], row["partition_dir"], row["file"]), ""
    with storage(path, "reading what was written"):
        if path.exists():
            with path.open("rb", buffering=0) as file:
                now = hash_file(file, algorithm_of(row["after_sha256"], path))
    return pa.RecordBatch.from_pylist([{**row, "sha256": now}], schema=_HASHED)


def _retain(
    executor: Executor,
    plan: Plan,
    folder: Path,
    units: Sequence[Unit],
    later: Collection[Directory],
) -> Proof:
    by_directory: dict[Directory, list[Item]] = {}
    writes = _writes(plan)
    for row in writes:
        by_directory.setdefault(_directory(row), []).append(row)
    found = executor.map("prove", list(by_directory.values()), wrong_files, WRONG, size=len)
    segments = looking.look_at_ends(
        executor, [unit for unit in units if (unit.log_dir, unit.partition_dir) in by_directory]
    )
    wrong = {row["path"]: row["why"] for row in found.to_pylist()}
    names = zip(*(segments[name].to_pylist() for name in ("log_dir", "partition_dir")), strict=True)
    decided = pa.array([name not in later for name in names], pa.bool_())
    wrong |= not_kept(read_table(folder / "retention.parquet", RETENTION), segments.filter(decided))
    reasons = [f"{path}: {why}" for path, why in wrong.items()]
    return Proof(segments, len(writes), max(len(writes) - len(wrong), 0), list(wrong), reasons)


def _roll(executor: Executor, plan: Plan, units: Sequence[Unit], options: VerifyOptions) -> Proof:
    writes = _writes(plan)
    ends = {_directory(row): row["base_offset"] for row in writes if row["action"] == "add"}
    of_them = [
        unit
        for unit in units
        if (unit.log_dir, unit.partition_dir) in ends and unit.base_offset >= 0
    ]
    last_two: dict[Directory, list[Unit]] = {}
    for unit in sorted(of_them, key=lambda unit: unit.base_offset):
        where = unit.log_dir, unit.partition_dir
        last_two[where] = [*last_two.get(where, [])[-1:], unit]
    segments = looking.verify(
        executor, [unit for two in last_two.values() for unit in two], options
    )
    rows = segments.to_pylist()
    wrong: dict[Directory, str] = dict.fromkeys(ends, "the new segment is missing")
    for row in rows:
        where = _directory(row)
        if row["base_offset"] == ends[where]:
            found = (
                ""
                if row["active"] and not row["log"]["size"]
                else "the new segment is not an empty, active one"
            )
            wrong[where] = found or _damage(row)
    for row in rows:
        where = _directory(row)
        if row["base_offset"] != ends[where] and not wrong[where]:
            ended = row["last_offset"] is not None and row["last_offset"] + 1 == ends[where]
            wrong[where] = (
                _damage(row) if ended else f"the segment before ends at {row['last_offset']}"
            )
    reasons = [
        f"{log_dir}/{partition}: {why}" for (log_dir, partition), why in wrong.items() if why
    ]
    return Proof(
        segments, len(writes), sum(not wrong[_directory(row)] for row in writes), reasons, reasons
    )


def _damage(row: Row) -> str:
    found = [f for f in row["findings"] if f["severity"] in SEVERITIES[2:]]
    return f"{found[0]['file']}: {found[0]['reason']}" if found else ""


def _writes(plan: Plan) -> list[Item]:
    return item_rows(plan.items.filter(pc.not_equal(plan.items["action"], "blocked")))


def _segment(row: Row) -> tuple[str, str, int]:
    return row["log_dir"], row["partition_dir"], row["base_offset"]


def _directory(row: Row) -> Directory:
    return row["log_dir"], row["partition_dir"]


def _is_log(row: Row) -> bool:
    return bool(row["file"].endswith(LOG))


def _path(row: Row) -> str:
    return f"{row['log_dir']}/{row['partition_dir']}/{row['file']}"
