"""Tables of reports (Parquet), of which a page reads the columns that it shows.

A small file may stand for very many bytes: a text that each of a million rows repeats, or rows that
a number stands for. So texts are read as dictionaries, and their whole size is known before they
are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkats.plans.facts import bounds_in
from kafkats_airflow.reading.files import Unreadable, state_of, too_large

T = TypeVar("T")

MOST_ROWS: Final = 5_000_000
"""A table with more rows is not read: the api-server has to answer others, too."""
MOST_BYTES: Final = 1024**3
"""The same for its bytes when they are unpacked."""
_MOST_VALUES: Final = MOST_BYTES // 8


def why_too_large(
    metadata: pq.FileMetaData, most_rows: int = MOST_ROWS, groups: Sequence[int] | None = None
) -> str:
    """Return why a table is not read, "" if it is. `metadata` says how much is in the file;
    `groups` are the row groups that are read, None for all.
    """
    every = range(metadata.num_row_groups)
    groups_read = [metadata.row_group(n) for n in (every if groups is None else groups)]
    whole = len(groups_read) == len(every)
    rows = sum(max(one.num_rows, 0) for one in groups_read)
    rows = max(metadata.num_rows, rows) if whole else rows
    if rows > most_rows:
        return too_large(rows, most_rows, "rows")
    size = sum(max(one.total_byte_size, 0) for one in groups_read)
    if size > MOST_BYTES:
        return too_large(size, MOST_BYTES)
    # One row may hold a list of any length.
    values = max(
        (
            sum(max(one.column(column).num_values, 0) for one in groups_read)
            for column in range(metadata.num_columns)
        ),
        default=0,
    )
    return too_large(values, _MOST_VALUES, "values") if values > _MOST_VALUES else ""


def groups_with(metadata: pq.FileMetaData, only: Mapping[str, str]) -> list[int]:
    """Return the row groups that may have rows with these texts in these columns."""
    return [
        number
        for number in range(metadata.num_row_groups)
        if all(_may_have(metadata.row_group(number), *wanted) for wanted in only.items())
    ]


def _may_have(group: pq.RowGroupMetaData, name: str, text: str) -> bool:
    bounds = bounds_in(group, name)
    return bounds is None or bounds[0] <= text <= bounds[1]


def table_of(
    path: Path,
    columns: Sequence[str],
    *,
    coded: Sequence[str] = (),
    types: pa.Schema | None = None,
    only: Mapping[str, str] | None = None,
) -> pa.Table | Unreadable | None:
    """Return these columns of a table, None where there is no file.

    Texts of `coded` columns stay dictionaries: names repeat in every row. With `types` the columns
    have these types, and no row lacks a value. `only`: the rows with these texts in these columns,
    the others are not unpacked.
    """
    state = state_of(path)
    if state is None or isinstance(state, Unreadable):
        return state
    try:
        with path.open("rb") as file:
            plain = pq.ParquetFile(file)
            groups = groups_with(plain.metadata, only or {})
            if why := why_too_large(plain.metadata, groups=groups):
                return Unreadable(path, why)
            if missing := set(columns) - set(plain.schema_arrow.names):
                names = ", ".join(sorted(missing))
                return Unreadable(path, f"of another version: it has no {names}")
            opened = pq.ParquetFile(file, read_dictionary=texts_in(plain.schema))
            table = opened.read_row_groups(groups, columns=list(columns))
        table.validate(full=True)
        for column, text in (only or {}).items():
            table = table.filter(having(table[column], text))
        size = sum(_unpacked(table[name]) for name in columns if name not in coded)
        if size > MOST_BYTES:
            return Unreadable(path, too_large(size, MOST_BYTES))
        wanted = [
            one if one.name in coded else plain.schema_arrow.field(one.name) for one in table.schema
        ]
        table = table.cast(pa.schema(wanted))
        if types is not None:
            table = table.select(types.names).cast(types)
            if lacking := [one for one in types.names if table[one].null_count]:
                names = ", ".join(lacking)
                return Unreadable(path, f"of another version: rows lack {names}")
        return table
    except (OSError, pa.ArrowException) as e:
        return Unreadable(path, f"half-written or corrupt: {str(e)[:200]}")


def made_of(path: Path, make: Callable[[], T]) -> T | Unreadable:
    """Return what is made of the table of a file, or that it is of another version."""
    try:
        return make()
    except (pa.ArrowException, KeyError, TypeError, ValueError) as e:
        return Unreadable(path, f"of another version: {e}")


def having(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Return which values of a column are this text. Dictionaries are not unpacked for it."""
    return passing(column, lambda texts: pc.equal(texts, text))


def passing(column: pa.ChunkedArray, test: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    """Return which values of a column pass a test. Of a dictionary each text is tested once."""
    if not pa.types.is_dictionary(column.type):
        return test(column)
    chunks = [pc.take(test(one.dictionary), one.indices) for one in column.chunks]
    return pa.chunked_array(chunks, pa.bool_())


def texts_in(schema: pq.ParquetSchema) -> list[str]:
    """Return the paths of all columns of texts, in lists and structs, too."""
    leaves = [schema.column(n) for n in range(len(schema))]
    return [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]


def _unpacked(values: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of values when each text stands for itself."""
    if isinstance(values, pa.ChunkedArray):
        return sum(_unpacked(chunk) for chunk in values.chunks)
    if isinstance(values, pa.DictionaryArray):
        each = pc.take(pc.binary_length(values.dictionary), values.indices)
        return int(pc.sum(each.cast(pa.int64())).as_py() or 0)
    if isinstance(values, (pa.ListArray, pa.LargeListArray)):
        return _unpacked(values.flatten())
    if isinstance(values, pa.StructArray):
        return sum(_unpacked(one) for one in values.flatten())
    return int(values.nbytes)
