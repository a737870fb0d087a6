"""Tables of reports (Parquet), of which a page reads the columns that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafkats_airflow.ui.reading.files import Unreadable, state_of

MOST_ROWS: Final = 5_000_000
"""A table with more rows is not read: the api-server has to answer others, too."""
MOST_BYTES: Final = 1024**3
"""The same for its bytes when they are unpacked."""


def unpacked(file: pq.ParquetFile) -> int:
    """Return the bytes of a table when they are unpacked: a small file may hold very many."""
    metadata = file.metadata
    return sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))


def table_of(
    path: Path, columns: Sequence[str], *, coded: Sequence[str] = ()
) -> pa.Table | Unreadable | None:
    """Return these columns of a table, None where there is no file.

    Texts of `coded` columns are read as dictionaries: names repeat in every row.
    """
    state = state_of(path)
    if state is None or isinstance(state, Unreadable):
        return state
    try:
        with path.open("rb") as file:
            opened = pq.ParquetFile(file, read_dictionary=list(coded))
            if opened.metadata.num_rows > MOST_ROWS:
                rows = opened.metadata.num_rows
                return Unreadable(path, f"its {rows} rows are more than a page reads ({MOST_ROWS})")
            if (size := unpacked(opened)) > MOST_BYTES:
                return Unreadable(
                    path, f"its {size} bytes are more than a page reads ({MOST_BYTES})"
                )
            table = opened.read(columns=list(columns))
            table.validate(full=True)
        missing = set(columns) - set(table.column_names)
    except (OSError, pa.ArrowException) as e:
        return Unreadable(path, f"half-written or corrupt: {str(e)[:200]}")
    if missing:
        return Unreadable(path, f"of another version: it has no {', '.join(sorted(missing))}")
    return table
