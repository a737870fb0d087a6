"""Timestamp lookup tables: the first offset at or after each time step, per partition.

A table outlives the data.

    build(folder, partitions, from_ms, to_ms)   build the cells of a scheduled run's data interval
    open_cells, build_cells, write              the same in steps; only one process may write
    view = read(folder)                         read the whole table, or a range of it
    lookup(view, partitions, times)             look up millions of times at once

A cell is *open* until a record of its time or later exists. Then it is *closed* and never changes
again. The files are Parquet with the columns in `schema`. Their content depends on the rows alone,
not on the order of the runs.
"""

from kafkats.tables.building import build
from kafkats.tables.cells import build_cells, grid
from kafkats.tables.merge import Written, open_cells, open_runs, write
from kafkats.tables.schema import OPEN, TABLE, TABLE_VERSION, OpenRun, closed
from kafkats.tables.store import Manifest, read_manifest, table_in, verify
from kafkats.tables.view import Busiest, Found, Steps, View, busiest, lookup, read

__all__ = [
    "OPEN",
    "TABLE",
    "TABLE_VERSION",
    "Busiest",
    "Found",
    "Manifest",
    "OpenRun",
    "Steps",
    "View",
    "Written",
    "build",
    "build_cells",
    "busiest",
    "closed",
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
