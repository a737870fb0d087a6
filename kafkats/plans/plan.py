"""A plan: what an operation would do to which files, with a digest to approve.

A plan is a folder: `plan.json` (operation, options, totals, digest) and `items.parquet` (one row
per file). The digest is sha256 over canonical JSON: the header without the digest on the first
line, then one line per item, sorted. It covers neither the time of planning nor Parquet's own
bytes, so equal plans have equal digests, whoever made them. Large plans are folders with parts
(plans.parts, which opens both).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from kafkats import __version__, paths
from kafkats.config.faults import faults
from kafkats.errors import Changed, CorruptPlan, UsageError, is_file, storage
from kafkats.generations import INDEX_INTERVAL_BYTES, RULES, SEGMENT_INDEX_BYTES
from kafkats.logdir.identity import FileRow
from kafkats.logdir.strict_json import Json
from kafkats.logdir.workarea import ROOT
from kafkats.paths import parse_segment_file, segment_file
from kafkats.plans.canonical_json import json_lines
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import read_table, write_table, write_tables
from kafkats.plans.files import make_folder, read_json, write_json
from kafkats.plans.operation import Operation
from kafkats.plans.replacing import (
    ITEMS_FILE,
    PARTS,
    is_ours,
    keep_rows,
    remove_other_rows,
    table_file,
)
from kafkats.plans.rows import (
    Header,
    Item,
    Options,
    PartitionKey,
    SegmentRow,
    Totals,
    partitions_of,
)
from kafkats.plans.volumes import note_volumes

FORMAT: Final = 1
SETTINGS_FROM: Final = ("given", "inferred", "default")

ITEMS: Final = schema_of(Item)
_NOTHING: Final[Mapping[str, Iterable[pa.Table]]] = {}
_OBJECTS: Final = ("options", "totals")
ORDER: Final = [(name, "ascending") for name in ("log_dir", "partition_dir", "base_offset", "file")]


def run_id_of(operation: str, digest: str) -> str:
    """Return the name of the run of a plan."""
    return f"{operation}-{digest[:16]}"


class AnyPlan(ABC):
    """A plan, whether its rows are in memory or in parts on the disk.

    `header` holds operation, options and totals; `digest` covers it and all rows.
    """

    header: Header
    digest: str

    @abstractmethod
    def pieces(self) -> Iterator[Plan]:
        """Yield the plan in pieces that fit into memory, sorted. Each has whole partitions, and
        header and digest of all.

        Raises CorruptPlan, StorageFailed.
        """

    @abstractmethod
    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield these columns of the rows, sorted, piece by piece. Raises as `pieces`."""

    @property
    @abstractmethod
    def blocked(self) -> int:
        """The number of blocked rows: nothing is done for them."""

    @property
    def operation(self) -> str:
        return self.header["operation"]

    @property
    def run_id(self) -> str:
        """The name of the run in every work area.

        It depends on the plan, so a repeated apply finishes it.
        """
        return run_id_of(self.operation, self.digest)

    @property
    def exit_code(self) -> int:
        """The exit code of a command that makes or shows the plan: 1 when it has blocked rows.

        The other rows can be applied.
        """
        return int(self.blocked > 0)

    def log_dirs(self) -> list[str]:
        """Return the log directories in the rows, sorted. Raises as `pieces`."""
        named = (rows["log_dir"].unique().to_pylist() for rows in self.tables(["log_dir"]))
        return sorted(set().union(*named))


@dataclass(frozen=True)
class Plan(AnyPlan):
    """A plan in memory: `items` is a table of ITEMS, sorted."""

    header: Header
    items: pa.Table
    digest: str

    def pieces(self) -> Iterator[Plan]:
        """Yield the plan itself."""
        yield self

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield one table."""
        yield self.items.select(columns)

    @property
    def blocked(self) -> int:
        """The number of blocked rows, counted."""
        return pc.sum(pc.equal(self.items["action"], "blocked")).as_py() or 0


def make_plan(operation: str, options: Options, totals: Totals, items: pa.Table) -> Plan:
    """Return the plan of `items` (ITEMS), sorted, with its digest."""
    ordered = sorted_items(items)
    header = header_of(operation, options, totals)
    return Plan(header, ordered, digest_of(header, ordered))


def header_of(operation: str, options: Options, totals: Totals, format: int = FORMAT) -> Header:
    """Return the header of a plan."""
    return {
        "operation": operation,
        "format": format,
        "kafkats": __version__,
        "options": options,
        "totals": totals,
    }


def sorted_items(items: pa.Table) -> pa.Table:
    """Return rows of ITEMS in the order in which plans have them, as one chunk."""
    table = items.cast(ITEMS)
    order = pc.sort_indices(table, sort_keys=ORDER)
    # By column: Table.take takes five times as long for millions of rows.
    return pa.table([column.take(order) for column in table.columns], schema=ITEMS).combine_chunks()


def totals_of(
    items: pa.Table, segments: pa.Table, *, changed: int, read_bytes: int, write_bytes: int
) -> Totals:
    """Return the totals that every plan has, from ITEMS and the facts (facts.SEGMENTS).

    `changed` is the number of segments that the plan changes.
    """
    writes = pc.not_equal(items["action"], "blocked")
    partitions = partitions_of(items.select(PartitionKey._fields).filter(writes))
    files = sum_of(writes)
    return {
        "files": files,
        "blocked": items.num_rows - files,
        "segments": changed,
        "segments_seen": sum_of(pc.greater_equal(segments["base_offset"], 0)),
        "partitions": sum(partition.partition_dir != ROOT for partition in partitions),
        "read_bytes": read_bytes,
        "write_bytes": write_bytes,
    }


def sum_of(column: pa.ChunkedArray) -> int:
    """Return the sum of a column of integers or flags, 0 for an empty one."""
    return pc.sum(column).as_py() or 0


def item_of(segment: SegmentRow, file: str, rule: str, action: str, reason: str) -> Item:
    """Return a row of ITEMS for a file that is built from a segment.

    The new content is not known yet, and no file is replaced.
    """
    interval, index_bytes = segment["index_interval_bytes"], segment["segment_index_bytes"]
    return {
        "log_dir": segment["log_dir"],
        "partition_dir": segment["partition_dir"],
        "directory_ctime_ns": segment["directory_ctime_ns"],
        "base_offset": segment["base_offset"],
        "next_base_offset": segment["next_base_offset"],
        "file": file,
        "action": action,
        "reason": reason,
        "before": None,
        "log": segment["log"],
        "log_valid_bytes": 0,
        "after_bytes": -1,
        "after_sha256": "",
        "rule": rule,
        "index_interval_bytes": INDEX_INTERVAL_BYTES if interval is None else interval,
        "segment_index_bytes": SEGMENT_INDEX_BYTES if index_bytes is None else index_bytes,
        "settings_from": segment["settings_from"] or "default",
    }


def file_of(row: SegmentRow, kind: str) -> FileRow | None:
    """Return the identity of a segment's file in the facts, None if it is missing."""
    return {
        paths.LOG: row["log"],
        paths.OFFSET_INDEX: row["index"],
        paths.TIME_INDEX: row["timeindex"],
        paths.TXN_INDEX: row["txnindex"],
        paths.SNAPSHOT: row["snapshot"],
    }[kind]


def kind_of(item: Item) -> str:
    """Return the kind of the segment's file that an item is about (paths.SEGMENT_KINDS).

    Raises CorruptPlan for the name of any other file.
    """
    name = parse_segment_file(item["file"])
    if name is None or item["file"] != segment_file(item["base_offset"], name.kind):
        raise CorruptPlan(f"not a file of segment {item['base_offset']}: {item['file']!r}")
    return name.kind


def check_settings(item: Item, *, for_brokers: bool = True) -> None:
    """Raise CorruptPlan unless indexes can be built by the item's rule and settings.

    `for_brokers` refuses rules that would mislead a broker.
    """
    rule = RULES.get(item["rule"])
    known = rule is not None and (rule.for_brokers or not for_brokers)
    if not known or item["index_interval_bytes"] < 0 or item["segment_index_bytes"] <= 0:
        raise CorruptPlan(f"{item['file']}: no index can be built with such settings")


def write_plan(
    plan: Plan, folder: Path, beside: Mapping[str, Iterable[pa.Table]] = _NOTHING
) -> None:
    """Write the plan's folder: what is planned, and for which volumes.

    `beside` are explanatory tables by name, each in one or more pieces, which the digest does not
    cover.

    Raises UsageError when `folder` exists and is no plan, or lies in a log directory;
    StorageFailed.
    """
    make_sealed(folder, "plan")
    for name, tables in beside.items():
        write_tables(folder / f"{name}.parquet", tables)
    keep_rows(folder)
    write_table(folder / ITEMS_FILE, plan.items)
    note_volumes(folder, filter(None, plan.log_dirs()))
    write_json(folder / "plan.json", {**plan.header, "digest": plan.digest})
    remove_other_rows(folder)


def read_plan(folder: Path) -> Plan:
    """Read the folder of a plan that is not in parts and check its digest.

    Raises CorruptPlan when it is incomplete, of another format, or was edited; StorageFailed.
    """
    header, items, digest = read_sealed(folder, "plan", ("items", ITEMS))
    if not is_header(header):
        raise CorruptPlan("plan.json lacks operation, options or totals", path=folder)
    check_complete(items, folder)
    return Plan(header, items, digest)


def check_complete(items: pa.Table, path: Path) -> None:
    """Raise CorruptPlan for rows that lack what only a missing file may lack."""
    for name in items.column_names:
        if name not in ("before", "log") and items[name].null_count:
            raise CorruptPlan(f"an item has no {name}", path=path)


def make_sealed(folder: Path, what: str) -> None:
    """Create a folder for a plan or a certificate, or take one that is of `what`.

    A folder in which a large plan was decided, but not finished, may be taken, too. Raises
    UsageError when it is anything else, or lies in a log directory; StorageFailed.
    """
    make_folder(folder, f"the {what}")
    with storage(folder, f"writing the {what}"):
        if any(folder.iterdir()) and not is_ours(folder, what):
            raise UsageError(f"exists and is no {what}", path=folder)
        if (folder / PARTS).is_symlink():  # what it points to is not ours
            raise UsageError(f"is a link, and no folder of a {what}", path=folder / PARTS)


def read_sealed(
    folder: Path, what: str, table: tuple[str, pa.Schema], unsealed: tuple[str, ...] = ()
) -> tuple[dict[str, Json], pa.Table, str]:
    """Return the header, the table (of that name and schema) and the digest of a plan or another
    document, `what`. Its digest covers both, but not the header's fields `unsealed`.

    Raises CorruptPlan when it is incomplete, of another format, or was edited; StorageFailed.
    """
    file = folder / f"{what}.json"
    if not is_file(file, f"looking for the {what}"):
        raise CorruptPlan(f"no {what} here: {file.name} is missing", path=folder)
    header = read_json(file)
    digest, *_ = (header.pop(name, None) for name in ("digest", *unsealed))
    if header.get("format") != FORMAT:
        raise CorruptPlan(
            f"a {what} of format {header.get('format')}; this kafkats reads {FORMAT}", path=folder
        )
    name, schema = table
    rows = read_table(table_file(folder, f"{name}.parquet", str(digest)), schema)
    if digest_of(header, rows) != digest:
        raise CorruptPlan(
            f"the digest does not match: the {what} was edited or damaged", path=folder
        )
    return header, rows, str(digest)


def is_header(content: Mapping[str, Json]) -> TypeGuard[Header]:
    """Return whether it has the fields of a header. `check_totals` checks the totals."""
    return isinstance(content.get("operation"), str) and all(
        isinstance(content.get(name), dict) for name in _OBJECTS
    )


def check_totals(plan: AnyPlan, folder: Path, operation: Operation | None) -> None:
    """Raise CorruptPlan unless the plan has the totals to show; `operation` is None if unknown.

    A correct digest does not ensure that.
    """
    missing = set(operation.totals if operation else ()) - plan.header["totals"].keys()
    try:
        TypeAdapter(Totals).validate_python(plan.header["totals"], strict=True)
        wrong = ", ".join(sorted(missing))
    except ValidationError as e:
        wrong = "; ".join(faults(e))
    if wrong:
        raise CorruptPlan(
            f"its totals are not those of a plan to {plan.operation}: {wrong}", path=folder
        )
    if operation and (flaw := operation.flaw(plan.header)):
        raise CorruptPlan(flaw, path=folder)


def check_digest(plan: AnyPlan, approved: str) -> None:
    """Check that a plan is the approved one: its digest, or a prefix of at least 8 digits.

    `any` is for tests and temporary copies. Raises Changed for another plan, UsageError for a
    shorter prefix.
    """
    if approved == "any":
        return
    if len(approved) < 8:
        raise UsageError("a digest needs at least 8 digits")
    if not plan.digest.startswith(approved.lower()):
        raise Changed(
            f"the plan's digest is {plan.digest}, not the approved {approved}: this plan was not"
            " approved; look at it with kafkats show, and have it approved"
        )


def digest_of(header: Mapping[str, object], items: pa.Table) -> str:
    """Return the sha256 of canonical JSON: the header on the first line, then one line per row."""
    state = hashlib.sha256(_canonical(header))
    for batch in items.to_batches(max_chunksize=8192):  # small enough for the processor's cache
        state.update(json_lines(batch))
    return state.hexdigest()


def _canonical(content: Mapping[str, object]) -> bytes:
    return (
        json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
        + b"\n"
    )
