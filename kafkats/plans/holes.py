"""holes.parquet beside a report: files of segments that take less of the disk than their size.

Brokers preallocate the indexes of the active segment, and on request its log. Kafka's rules count
sizes, and so do plans. People who read of disk space get the blocks (st_blocks).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats import paths
from kafkats.errors import exists, storage
from kafkats.plans.facts import read_table, write_table
from kafkats.plans.units import Unit

NAME: Final = "holes.parquet"
HOLES: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("base_offset", pa.int64()),
    ("file", pa.string()),
    ("size", pa.int64()),
    ("bytes", pa.int64()),
])
"""A row per file: `bytes` of its `size` are not on the disk."""


def holes_of(units: Iterable[Unit]) -> pa.Table:
    """Return HOLES that the listing saw."""
    rows = [
        (*unit.key, paths.segment_file(unit.base_offset, kind), file.size, hole)
        for unit in units
        for kind, file, hole in zip(paths.SEGMENT_KINDS, unit.files, unit.holes, strict=False)
        if file is not None and hole
    ]
    columns = [dict(zip(HOLES.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(columns, schema=HOLES)


def keep_holes(holes: pa.Table, folder: Path) -> None:
    """Write HOLES into the folder of a report, none if there are none. Raises StorageFailed."""
    if holes.num_rows:
        write_table(folder / NAME, holes)
        return
    with storage(folder, "removing what an earlier look saw"):
        (folder / NAME).unlink(missing_ok=True)


def read_holes(folder: Path) -> pa.Table:
    """Return HOLES of a report; none for reports of earlier versions. Raises as `read_table`."""
    path = folder / NAME
    if not exists(path, "looking for holes"):
        return HOLES.empty_table()
    return read_table(path, HOLES)
