"""Predicted starts as rows of a table: what tasks return, and what a report holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkats.findings import Finding
from kafkats.logdir.checkpoints import EpochStart
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import write_table
from kafkats.plans.files import make_folder, write_json
from kafkats.recovery.facts import PartitionStart, Recovered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

STARTS: Final = schema_of(PartitionStart)
"""One row per partition directory."""
_ROWS: Final = {"recovered": Recovered, "findings": Finding, "epochs": EpochStart}


def start_row(start: PartitionStart) -> dict[str, object]:
    """Return the row of STARTS."""
    row: dict[str, Any] = {name: getattr(start, name) for name in STARTS.names}
    return row | {name: [one._asdict() for one in row[name]] for name in _ROWS}


def start_of(row: Mapping[str, Any]) -> PartitionStart:
    """Return the start of a row of STARTS."""
    values = {name: tuple(v) if isinstance(v := row[name], list) else v for name in STARTS.names}
    more = {name: tuple(made(**one) for one in row[name]) for name, made in _ROWS.items()}
    return PartitionStart(**values | more)


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
