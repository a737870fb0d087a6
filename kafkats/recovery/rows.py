"""Predicted starts as rows of a table: what tasks return, and what a report holds."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final, Never

import pyarrow as pa

from kafkats.findings import Finding
from kafkats.plans.facts import write_table
from kafkats.plans.files import make_folder, write_json
from kafkats.recovery.facts import PartitionStart, Recovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_FINDING: Final = pa.struct([
    ("kind", pa.string()), ("file", pa.string()), ("reason", pa.string()), ("position", pa.int64()),
    ("entry", pa.int64()), ("expected", pa.string()), ("found", pa.string()),
])  # fmt: skip
_RECOVERED: Final = pa.struct([
    ("base_offset", pa.int64()), ("why", pa.string()), ("log_bytes", pa.int64()),
    ("cut_to", pa.int64()), ("next_offset", pa.int64()), ("batches", pa.int64()),
    ("messages", pa.int64()),
])  # fmt: skip
_EPOCH: Final = pa.struct([("epoch", pa.int64()), ("start_offset", pa.int64())])
_TYPES: Final = {"str": pa.string(), "int": pa.int64(), "Outcome": pa.string()}
_LISTS: Final = {
    "recovered": _RECOVERED,
    "deleted": pa.int64(),
    "removed": pa.string(),
    "renamed": pa.string(),
    "created": pa.string(),
    "epochs": _EPOCH,
    "snapshots": pa.int64(),
    "findings": _FINDING,
}

STARTS: Final = pa.schema([
    (f.name, pa.list_(_LISTS[f.name]) if f.name in _LISTS else _TYPES[str(f.type)])
    for f in fields(PartitionStart)
])  # fmt: skip
"""One row per partition directory: the fields of facts.PartitionStart."""


def start_row(start: PartitionStart) -> dict[str, object]:
    """Return the row of STARTS."""
    row: dict[str, object] = {name: getattr(start, name) for name in STARTS.names}
    row["recovered"] = [one._asdict() for one in start.recovered]
    row["findings"] = [one._asdict() for one in start.findings]
    row["epochs"] = [{"epoch": epoch, "start_offset": at} for epoch, at in start.epochs]
    return row


def start_of(row: Mapping[str, object]) -> PartitionStart:
    """Return the start of a row of STARTS."""
    values = {name: tuple(v) if isinstance(v := row[name], list) else v for name in STARTS.names}
    values["recovered"] = tuple(Recovered(*one) for one in _values(row["recovered"]))
    values["findings"] = tuple(Finding(*one) for one in _values(row["findings"]))
    values["epochs"] = tuple(tuple(one) for one in _values(row["epochs"]))
    return PartitionStart(**values)  # type: ignore[arg-type]


def write_starts(
    folder: Path, starts: Iterable[PartitionStart], totals: Mapping[str, object]
) -> None:
    """Write the report: `starts.parquet` with the rows of STARTS, and `report.json`.

    Raises UsageError inside a log directory, StorageFailed.
    """
    make_folder(folder, "the report")
    rows = [start_row(one) for one in starts]
    write_table(folder / "starts.parquet", pa.Table.from_pylist(rows, schema=STARTS))
    write_json(folder / "report.json", totals)


def _values(structs: object) -> Iterator[Iterable[Never]]:
    """Yield the values of each struct in a column, in the order of its fields."""
    assert isinstance(structs, list)
    yield from (one.values() for one in structs)
