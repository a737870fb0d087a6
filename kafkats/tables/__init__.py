"""Timestamp-lookup tables: for every partition and step of time the first offset from then on, kept longer than the data.

    build(folder, log_dirs, from_ms, to_ms)     what a scheduled run does for its data interval
    open_cells, build_cells, write              the same in pieces: asked, searched, and written by one process
    view = read(folder)                         the whole table, or a range of it
    lookup(view, partitions, times)             millions of times at once

A cell is *open* until a record of its time or later exists; then it is *closed*, and never changes again. The files are Parquet, as
`schema` says; which there are is a function of the rows alone, so the order of runs leaves no trace.
"""

from kafkats.tables.cells import build, build_cells, grid
from kafkats.tables.merge import Written, compact, open_cells, open_runs, write
from kafkats.tables.schema import OPEN, TABLE, TABLE_VERSION, OpenRun, closed
from kafkats.tables.store import Manifest, read_manifest, table_in, verify
from kafkats.tables.view import Busiest, Found, View, busiest, lookup, read

__all__ = [
    "OPEN",
    "TABLE",
    "TABLE_VERSION",
    "Busiest",
    "Found",
    "Manifest",
    "OpenRun",
    "View",
    "Written",
    "build",
    "build_cells",
    "busiest",
    "closed",
    "compact",
    "grid",
    "lookup",
    "open_cells",
    "open_runs",
    "read",
    "read_manifest",
    "table_in",
    "verify",
    "write",
]
