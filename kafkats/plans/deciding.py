"""The result of a task that has decided a group of partition directories.

Aggregates are one row (DECIDED). Tables are files in a folder beside the plan, if the task sees
the same folder as the driver; else they are in the row.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kafkats.errors import CorruptPlan, exists, storage
from kafkats.logdir.flocks import is_flocked
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import Summary
from kafkats.plans.files import write_bytes
from kafkats.plans.parts import Part, part_of
from kafkats.plans.plan import Plan
from kafkats.plans.replacing import DECIDING, SEEN, is_scratch
from kafkats.plans.rows import Options, Totals

if TYPE_CHECKING:
    from kafkats.config.given import Given
    from kafkats.config.policy import Policy
    from kafkats.execution.executor import Executor
    from kafkats.plans.directories import Directories

DECIDED: Final = pa.schema([
    ("decided", pa.string()),      # JSON: fields of Decided without tables
    ("tables", pa.list_(pa.struct([
        ("name", pa.string()),
        ("file", pa.string()),
        ("data", pa.large_binary()),
    ]))),
])  # fmt: skip
"""One row of a group. A table is a `file`, whose name ends with the sha256 of its bytes, or `data`:
Parquet.
"""
ITEMS_TABLE: Final = "items"


@dataclass(frozen=True, kw_only=True)
class Handed:
    """A group that a task has handed over. `tables` has the file of each table by name, or its
    Parquet bytes.
    """

    number: int
    tables: Mapping[str, Path | bytes]

    def table(self, name: str) -> pa.Table:
        """Return a table. Raises CorruptPlan for another one than the task wrote, StorageFailed."""
        import pyarrow.parquet as pq  # small plans need none

        where = self.tables[name]
        data = where if isinstance(where, bytes) else _handed(where)
        return pq.ParquetFile(io.BytesIO(data)).read()


@dataclass(frozen=True, kw_only=True)
class Decided(Handed):
    """A group that was decided: options and totals of its plan, the summary of what was seen, the
    notes of the operation. `part` has its rows, None if there are none.
    """

    options: Options
    totals: Totals
    summary: Summary
    notes: Mapping[str, Any]
    part: Part | None
    beyond: bool = False
    """Whether it is of the plan without the policy's guards (Planned.beyond)."""


class Settling(NamedTuple):
    """The groups of a plan that were decided each by itself, for what needs all of them.

    `beyond` are those of the plan without the policy's guards, () if there is none.
    """

    executor: Executor
    given: Given
    policy: Policy
    groups: Sequence[Directories]
    decided: Sequence[Decided]
    beyond: Sequence[Decided]
    scratch: Path


@contextmanager
def scratch_in(folder: Path) -> Generator[Path]:
    """Yield a new folder in `folder` for what tasks hand over; it is gone in the end.

    A lock shows that this process is alive. What killed ones have left there is removed. Raises
    StorageFailed.
    """
    _clear(folder)
    scratch = folder / f"{DECIDING}{uuid.uuid4().hex[:12]}"
    made = scratch.with_name(f".{scratch.name}")
    with storage(scratch, "writing what tasks hand over"):
        made.mkdir()
        held = os.open(made / SEEN, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without such locks: nothing is removed there
            fcntl.flock(held, fcntl.LOCK_EX)
        with storage(scratch, "writing what tasks hand over"):
            made.rename(scratch)
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(held)


def _clear(folder: Path) -> None:
    with storage(folder, "clearing what was left of a plan"):
        left = list(folder.glob(f"{DECIDING}*"))
    for path in left:
        with suppress(OSError):
            if is_scratch(path) and not is_flocked(path / SEEN, fcntl.LOCK_EX):
                shutil.rmtree(path)


def hand_over(
    number: int,
    plan: Plan,
    summary: Summary,
    notes: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    scratch: Path,
    *,
    beyond: bool = False,
) -> pa.RecordBatch:
    """Return the row of a group that was decided, as `hand`. Raises StorageFailed."""
    part = part_of(plan.items) if plan.items.num_rows else None
    decided = {
        "options": plan.header["options"],
        "totals": plan.header["totals"],
        "summary": summary,
        "notes": notes,
        "part": part,
        "beyond": beyond,
    }
    return hand(number, decided, {**tables, **({ITEMS_TABLE: plan.items} if part else {})}, scratch)


def hand(
    number: int, fields: Mapping[str, Any], tables: Mapping[str, pa.Table], scratch: Path
) -> pa.RecordBatch:
    """Return the row of a group. Its tables are files in `scratch` if the driver is seen there.

    Raises StorageFailed.
    """
    shared = exists(scratch / SEEN, "looking for the driver's folder") and os.access(
        scratch, os.W_OK
    )
    rows = []
    for name, table in tables.items():
        file, data = "", _packed(table)
        if shared:  # a task that runs twice at a time, as Spark may let it, writes two files
            file = f"{name}-{number}-{uuid.uuid4().hex[:12]}-{_sum_of(data)}.parquet"
            write_bytes(scratch / file, data)
        rows.append({"name": name, "file": file, "data": None if file else data})
    row = {"decided": json.dumps({"number": number, **fields}), "tables": rows}
    return batch_of([row], DECIDED)


def _packed(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def _sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _handed(file: Path) -> bytes:
    """Return what a task wrote into a file. Raises CorruptPlan for other bytes, StorageFailed."""
    with storage(file, "reading what a task decided"):
        data = file.read_bytes()
    if not file.stem.endswith(f"-{_sum_of(data)}"):
        raise CorruptPlan("was edited or damaged after a task wrote it: plan again", path=file)
    return data


def decided_in(rows: pa.Table, scratch: Path) -> Iterator[Decided]:
    """Yield the groups of rows of DECIDED that were decided."""
    for fields in handed_in(rows, scratch):
        part = fields.pop("part")
        yield Decided(**fields, part=part and Part(*part))


def handed_in(rows: pa.Table, scratch: Path) -> Iterator[dict[str, Any]]:
    """Yield the fields of Handed, and what else a task has handed over, from rows of DECIDED."""
    for row in rows.to_pylist():
        fields = json.loads(row["decided"])
        tables = {
            one["name"]: scratch / one["file"] if one["file"] else one["data"]
            for one in row["tables"]
        }
        yield fields | {"tables": tables}


def sums_of(totals: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the totals of groups together: every number is a sum."""
    found: dict[str, Any] = {}
    for one in totals:
        _add(found, one)
    return found


def _add(to: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict):
            _add(to.setdefault(name, {}), value)
        else:
            to[name] = to.get(name, 0) + value


def move_part(one: Decided, path: Path) -> None:
    """Give the rows of a group their place in a plan's folder.

    Raises CorruptPlan for other rows than the task wrote, StorageFailed.
    """
    rows = one.tables[ITEMS_TABLE]
    with storage(path, "writing the plan"):
        path.parent.mkdir(exist_ok=True)
        if isinstance(rows, Path):
            data = _handed(rows)
            try:
                rows.replace(path)
            except OSError as e:
                if e.errno != errno.EXDEV:  # a second plan may be on another file system
                    raise
                rows = data
    if isinstance(rows, bytes):
        write_bytes(path, rows)
