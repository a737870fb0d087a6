"""A large plan: its rows are in parts on the disk, and no process holds all of them.

`plan.json` of format 2 has the list of the parts that have rows, in their order. The rows of a part
are in `parts/DIGEST.parquet`. The digest of a part is sha256 over its rows as canonical JSON; that
of the plan covers the header with the list. `open_plan` opens plans of both formats.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict, TypeAdapter

from kafkats.errors import CorruptPlan, is_file, storage
from kafkats.logdir.disk import DISK
from kafkats.logdir.workarea import ROOT
from kafkats.plans.canonical_json import json_lines
from kafkats.plans.facts import read_table, write_tables
from kafkats.plans.files import read_json, taken_for, typed, write_json
from kafkats.plans.plan import (
    ITEMS,
    ORDER,
    AnyPlan,
    Plan,
    check_complete,
    digest_of,
    header_of,
    is_header,
    read_plan,
)
from kafkats.plans.replacing import (
    ITEMS_FILE,
    PARTS,
    keep_rows,
    part_file,
    remove_other_rows,
    table_file,
)
from kafkats.plans.rows import Header, Options, Totals
from kafkats.plans.volumes import note_volumes

FORMAT: Final = 2
PIECE_ROWS: Final = 20_000
"""Small parts are read together, up to about so many rows."""
_EMPTY: Final = ITEMS.empty_table()


class Part(NamedTuple):
    """A part of a plan: its rows are of one log directory, from partition `first` to `last`."""

    log_dir: str
    first: str
    last: str
    rows: int
    digest: str


_PARTS: Final = TypeAdapter(list[Part], config=ConfigDict(strict=True, defer_build=True))


def part_of(items: pa.Table) -> Part:
    """Return the part with these rows (ITEMS, sorted, of one log directory, at least one)."""
    first, last = (items.slice(n, 1).to_pylist()[0] for n in (0, items.num_rows - 1))
    state = hashlib.sha256()
    for batch in items.to_batches(max_chunksize=8192):  # small enough for the processor's cache
        state.update(json_lines(batch))
    return Part(
        first["log_dir"],
        first["partition_dir"],
        last["partition_dir"],
        items.num_rows,
        state.hexdigest(),
    )


@dataclass(frozen=True)
class PlanInParts(AnyPlan):
    """A plan whose rows are in the files of `parts`, in `folder`."""

    header: Header
    digest: str
    folder: Path
    parts: Sequence[Part]

    def pieces(self) -> Iterator[Plan]:
        """Yield a plan for one or more parts. Raises CorruptPlan for an edited part, too."""
        for parts in self._together():
            items = pa.concat_tables(map(self._read, parts)).combine_chunks()
            yield Plan(self.header, items, self.digest)

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield a table for one or more parts."""
        schema = pa.schema([ITEMS.field(name) for name in columns])
        for parts in self._together():
            files = (part_file(self.folder, part.digest) for part in parts)
            yield pa.concat_tables(read_table(file, schema) for file in files)

    def _together(self) -> Iterator[list[Part]]:
        """Yield neighbours. Those of log directories' own files are the last, as these describe
        the partitions.
        """
        own = [part for part in self.parts if part.first == ROOT]
        for parts in ([part for part in self.parts if part.first != ROOT], own):
            yield from self._small_together(parts)

    def _small_together(self, parts: Iterable[Part]) -> Iterator[list[Part]]:
        together: list[Part] = []
        for part in parts:
            if together and sum(one.rows for one in together) + part.rows > PIECE_ROWS:
                yield together
                together = []
            together.append(part)
        if together:
            yield together

    def _read(self, part: Part) -> pa.Table:
        path = part_file(self.folder, part.digest)
        items = read_table(path, ITEMS, rows=part.rows)
        if not items.num_rows or part_of(items) != part:
            raise CorruptPlan(
                "the digest does not match: the part was edited or damaged", path=path
            )
        check_complete(items, path)
        if not _is_sorted(items, part.log_dir):
            raise CorruptPlan("its rows are not sorted, or not of one log directory", path=path)
        return items

    @property
    def blocked(self) -> int:
        """The number of blocked rows, as the totals have it."""
        return self.header["totals"]["blocked"]


def _is_sorted(items: pa.Table, log_dir: str) -> bool:
    """Return whether the rows are in ORDER, all of this log directory. None lacks a value."""
    rows = items.select([name for name, _ in ORDER[1:]])
    before, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
    *others, last = zip(after.columns, before.columns, strict=True)
    follows = pc.greater_equal(*last)
    for pair in reversed(others):
        follows = pc.or_(pc.greater(*pair), pc.and_(pc.equal(*pair), follows))
    every = pc.all(follows, min_count=0), pc.all(pc.equal(items["log_dir"], log_dir))
    return all(one.as_py() for one in every)


def plan_in_parts(
    operation: str, options: Options, totals: Totals, parts: Sequence[Part], folder: Path
) -> PlanInParts:
    """Return the plan of parts that are, or will be, in `folder`."""
    ordered = sorted(parts)
    header = header_of(operation, options, totals, FORMAT)
    digest = digest_of(_with(header, ordered), _EMPTY)
    return PlanInParts(header, digest, folder, ordered)


def _with(header: Mapping[str, object], parts: Sequence[Part]) -> dict[str, object]:
    return {**header, "parts": [part._asdict() for part in parts]}


def commit_plan(plan: PlanInParts, beside: Mapping[str, Iterable[pa.Table]] = {}) -> None:
    """Make the plan that of its folder, where its parts have been written.

    `beside` has explanatory tables as in `write_plan`. Raises StorageFailed.
    """
    folder = plan.folder
    keep_rows(folder)
    for name, tables in beside.items():
        write_tables(folder / f"{name}.parquet", tables)
    note_volumes(folder, filter(None, dict.fromkeys(part.log_dir for part in plan.parts)))
    with storage(folder, "writing the plan"):
        DISK.sync_dir(folder / PARTS)
    write_json(folder / "plan.json", {**_with(plan.header, plan.parts), "digest": plan.digest})
    remove_other_rows(folder)


def open_plan(folder: Path, check: Callable[[Plan], None] | None = None) -> AnyPlan:
    """Open the plan in a folder. Each of its rows was read once, and the digest is right.

    `check` gets each piece of a plan in parts meanwhile, so that nobody has to read it for that.
    Raises CorruptPlan when it is incomplete, of another format, or was edited, and when its totals
    count other rows than it has; StorageFailed.
    """
    plan = listed_plan(folder)
    if not isinstance(plan, PlanInParts):
        return plan
    blocked = 0
    for piece in plan.pieces():
        blocked += piece.blocked
        if check is not None:
            check(piece)
    files = sum(part.rows for part in plan.parts) - blocked
    totals = plan.header["totals"]
    if (totals.get("files"), totals["blocked"]) != (files, blocked):
        raise CorruptPlan(
            f"its totals are not those of {files} files, {blocked} blocked", path=folder
        )
    return plan


def listed_plan(folder: Path) -> AnyPlan:
    """Open the plan in a folder. Its digest is right, and of a plan in parts no row was read.

    Raises as `open_plan`.
    """
    return _in_parts(folder) or read_plan(folder)


def _in_parts(folder: Path) -> PlanInParts | None:
    """Return the plan in a folder if it is in parts. Its list of parts is checked, not its rows."""
    path = folder / "plan.json"
    if not is_file(path, "looking for the plan"):
        raise CorruptPlan(f"no plan here: {path.name} is missing{taken_for(folder)}", path=folder)
    header = read_json(path)
    if header.get("format") != FORMAT:
        return None
    digest = header.pop("digest", None)
    parts = typed(header.pop("parts", None), _PARTS, path)
    if not is_header(header) or "blocked" not in header["totals"]:
        raise CorruptPlan("plan.json lacks operation, options or totals", path=folder)
    if not _are_apart(parts):
        raise CorruptPlan("a partition is in two parts, or they are not in their order", path=path)
    if digest_of(_with(header, parts), _EMPTY) != digest:
        raise CorruptPlan("the digest does not match: the plan was edited or damaged", path=folder)
    return PlanInParts(header, str(digest), folder, parts)


def _are_apart(parts: Sequence[Part]) -> bool:
    """Return whether each partition is in one part: an apply checks the rows of one at a time."""
    return all(
        (one.log_dir, one.last) < (other.log_dir, other.first) for one, other in pairwise(parts)
    )


def rows_files(folder: Path) -> list[Path]:
    """Return the files with the rows of a plan, in the order of the rows. They may be missing.

    The list of a large plan's parts was checked, and no row. Raises CorruptPlan, StorageFailed.
    """
    header = folder / "plan.json"
    if not is_file(header, "looking for the plan"):
        return [folder / ITEMS_FILE]
    plan = _in_parts(folder)
    if plan is not None:
        return [part_file(folder, part.digest) for part in plan.parts]
    return [table_file(folder, ITEMS_FILE, str(read_json(header).get("digest")))]
