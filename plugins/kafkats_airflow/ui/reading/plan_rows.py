"""The rows of a plan, a page at a time: found by words, with what has changed since."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkats.errors import CorruptPlan, KafkatsError
from kafkats_airflow.approvals.stakes import size_now
from kafkats_airflow.reading.files import Unreadable, is_dir, state_of
from kafkats_airflow.ui.reading.tables import having, passing, texts_in, why_too_large

if TYPE_CHECKING:
    import pyarrow as pa

MOST: Final = 2_000_000
"""Rows of the largest plan that a page reads: about 100 bytes of memory each."""
PARTITIONS: Final = 20_000
"""Partition directories that are compared with the plan for one page."""
_WORDS: Final = ("log_dir", "partition_dir", "file", "action", "reason")
_FILES: Final = tuple(
    f"{kind}.{name}" for kind in ("before", "log") for name in ("size", "mtime_ns")
)
_COLUMNS: Final = (*_WORDS, "directory_ctime_ns", "after_bytes", *_FILES)


class Row(NamedTuple):
    """A file that a plan changes or leaves as it is. Sizes in bytes, None: no file, or not known
    before it is built. `before` is -1 for a file that the plan updates and did not note: its size
    was not seen. `now` says how the file differs from the plan, "" if it does not.
    """

    log_dir: str
    partition_dir: str
    file: str
    action: str
    reason: str
    before: int | None
    after: int | None
    now: str


class Found(NamedTuple):
    """The rows of one page. `total` counts the rows of the plan, `matching` those that were asked
    for.
    """

    rows: list[Row]
    matching: int
    total: int
    actions: dict[str, int]


class Since(NamedTuple):
    """The number of partition directories that differ from the plan, of those `looked` at.

    `first` are names of changed ones. `unseen` are log directories that are not seen from here.
    """

    looked: int
    changed: int
    first: list[str]
    unseen: list[str]


_lock: Final = threading.Lock()
_last: dict[str, tuple[object, pa.Table]] = {}


def table_of(folder: Path) -> pa.Table | Unreadable:
    """Return the rows of a plan's folder. The last plan that was asked for is kept.

    They are those of its digest: what a person approves is what is shown.
    """
    from kafkats.plans.parts import rows_files

    try:
        paths = rows_files(folder)
    except KafkatsError as e:
        return Unreadable(folder / "plan.json", e.reason)
    states = [(path, state_of(path)) for path in paths]
    for path, state in states:
        if isinstance(state, Unreadable):
            return state
        if state is None:
            return Unreadable(path, "it is missing")
    with _lock:
        kept = _last.get(os.fspath(folder))
        if kept is not None and kept[0] == states:
            return kept[1]
        table = _read_all(paths)
        wrong = table if isinstance(table, Unreadable) else _edited(folder)
        if wrong is not None:
            return wrong
        _last.clear()
        _last[os.fspath(folder)] = (states, table)
        _give_back()
        return table


def _read_all(paths: Sequence[Path]) -> pa.Table | Unreadable:
    """Return the rows of all files of a plan, unless they are too many."""
    import pyarrow as pa

    tables: list[pa.Table] = []
    for path in paths:
        try:
            tables.append(_read(path, MOST - sum(table.num_rows for table in tables)))
        except CorruptPlan as e:
            return Unreadable(path, e.reason)
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries()


def _edited(folder: Path) -> Unreadable | None:
    """Return why the rows of a plan are not those of its digest, None if they are.

    The size of its files is known: all is read here, piece by piece.
    """
    from kafkats.plans.parts import open_plan

    try:
        open_plan(folder)
    except KafkatsError as e:
        return Unreadable(Path(e.path or folder), e.reason)
    return None


def _give_back() -> None:
    """Return memory that only the reading needed."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _read(path: Path, most: int) -> pa.Table:
    """Return up to `most` rows. Raises CorruptPlan."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            texts = texts_in(parquet.ParquetFile(file).schema)
            whole = parquet.ParquetFile(file, read_dictionary=texts)
            if why := why_too_large(whole.metadata, most):
                raise CorruptPlan(f"{why}; `kafkats show` lists them")
            table = whole.read(columns=list(_COLUMNS)).unify_dictionaries().combine_chunks()
    except (pa.ArrowException, OSError, KeyError) as e:
        raise CorruptPlan(f"not a readable table: {e}") from e
    _check(table)
    return table


def _check(table: pa.Table) -> None:
    """Check the columns, their types and their texts. Raises CorruptPlan."""
    import pyarrow as pa

    if missing := {*_WORDS, "directory_ctime_ns", "after_bytes", "before", "log"} - {
        *table.column_names
    }:
        raise CorruptPlan(f"not the rows of a plan: it has no {', '.join(sorted(missing))}")
    file = pa.struct([("size", pa.int64()), ("mtime_ns", pa.int64())])
    wanted = {"directory_ctime_ns": pa.int64(), "after_bytes": pa.int64(), "before": file}
    wanted |= {name: pa.dictionary(pa.int32(), pa.string()) for name in _WORDS}
    for name, kind in wanted.items():
        if table[name].type != kind:
            raise CorruptPlan(f"not the rows of a plan: {name} is {table[name].type}, not {kind}")
    try:
        table.validate(full=True)
    except pa.ArrowException as e:
        raise CorruptPlan(f"not a readable table: {e}") from e


def find(
    table: pa.Table, *, words: str = "", action: str = "", start: int = 0, count: int = 100,
    live: bool = True,
) -> Found:  # fmt: skip
    """Return rows that have all `words`, in any of path, action and reason, case ignored.

    `live`: compare the files of these rows with the disk.
    """
    import pyarrow.compute as pc

    asked = [_has(table, word) for word in words.split()]
    asked += [having(table["action"], action)] if action else []
    found = table
    if asked:
        found = table.filter(reduce(pc.and_, asked))
    return Found(
        [_row(row, live=live) for row in found.slice(start, count).to_pylist()],
        found.num_rows,
        table.num_rows,
        _counts(table),
    )


def _counts(table: pa.Table) -> dict[str, int]:
    counted = table.group_by(["action"]).aggregate([([], "count_all")]).to_pylist()
    return {
        row["action"]: row["count_all"] for row in sorted(counted, key=lambda one: one["action"])
    }


def _has(table: pa.Table, word: str) -> pa.ChunkedArray:
    """Return which rows have the word."""
    import pyarrow.compute as pc

    found = partial(pc.match_substring, pattern=word, ignore_case=True)
    return reduce(pc.or_, [passing(table[name], found) for name in _WORDS])


def _row(item: dict[str, object], *, live: bool) -> Row:
    before, updated = _size(item["before"]), item["action"] == "update"
    after = item["after_bytes"] if isinstance(item["after_bytes"], int) else -1
    gone, blocked = item["action"] == "remove", item["action"] == "blocked"
    log_dir, partition_dir, file = (
        str(item[name]) for name in ("log_dir", "partition_dir", "file")
    )
    path = Path(log_dir, partition_dir, file)
    if updated:
        before = size_now(path) if live else -1
    return Row(
        log_dir, partition_dir, file, str(item["action"]), str(item["reason"]),
        before,
        0 if gone else before if blocked else after if after >= 0 else None,
        _now(path, item["before"]) if live and not updated else "",
    )  # fmt: skip


def _size(file: object) -> int | None:
    size = file.get("size") if isinstance(file, dict) else None
    return size if isinstance(size, int) else None


def _now(path: Path, planned: object) -> str:
    """Return how a file differs from the plan, "" if it does not or is not seen from here."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return "" if _size(planned) is None or not is_dir(path.parent.parent) else "gone since"
    except (OSError, ValueError):
        return ""
    if _size(planned) is None:
        return "exists since"
    assert isinstance(planned, dict)
    same = (found.st_size, found.st_mtime_ns) == (planned["size"], planned["mtime_ns"])
    return "" if same else "changed since"


def since(table: pa.Table) -> Since:
    """Compare partition directories with the plan, as far as they are seen from here.

    A directory changes when a file in it is added, removed or renamed.
    """
    from kafkats.plans.rows import PartitionKey, grouped

    found = grouped(table, PartitionKey._fields, [("directory_ctime_ns", "max")])
    planned: Sequence[dict[str, object]] = found.slice(0, PARTITIONS).to_pylist()
    # checkpoints of the log directory change all the time
    planned = [one for one in planned if one["partition_dir"] != "."]
    seen = {log_dir: is_dir(Path(log_dir)) for log_dir in {str(one["log_dir"]) for one in planned}}
    looked, changed = 0, []
    for one in planned:
        if not seen[str(one["log_dir"])]:
            continue
        looked += 1
        path = Path(str(one["log_dir"]), str(one["partition_dir"]))
        try:
            ctime_ns = path.stat().st_ctime_ns
        except (OSError, ValueError):
            ctime_ns = None
        if ctime_ns != one["directory_ctime_ns_max"]:
            changed.append(str(path))
    return Since(
        looked,
        len(changed),
        sorted(changed)[:5],
        sorted(d for d, is_seen in seen.items() if not is_seen),
    )
