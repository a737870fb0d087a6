"""The Parquet files of a table: write and read sorted rows, one row group at a time.

Rows are sorted by topic, partition and time, so every column repeats or grows. Growing numbers are
stored as differences (DELTA_BINARY_PACKED), the others by a dictionary in runs; zstd compresses
both. The same rows always give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkats.errors import BadInput
from kafkats.logdir import strict_json
from kafkats.logdir.strict_json import int64
from kafkats.tables.runs import CHUNK_ROWS, Run
from kafkats.tables.schema import TABLE, OpenRun, closed, ints, normal, together, word_codes

_GROWING: Final = ["timestamp", "offset", "record_timestamp"]
_ROW_GROUP: Final = 1 << 20
_OPEN_RUNS: Final = b"kafkats.open"
_WORDS: Final = ("topic", "reason")


def encode(rows: Run, file: IO[bytes], step_ms: int) -> int:
    """Write sorted rows as Parquet and return the number of open rows.

    The file's footer holds the runs of open cells.
    """
    words, runs, opened = _about(rows, step_ms)
    schema = TABLE.with_metadata({_OPEN_RUNS: json.dumps(runs)})
    writer = pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=[name for name in TABLE.names if name not in _GROWING],
        column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
    )
    with writer:
        for group in _groups(rows) if rows.rows else [TABLE.empty_table()]:
            table = normal(group, words).replace_schema_metadata(schema.metadata)
            writer.write_table(table, row_group_size=_ROW_GROUP)
    return opened


def _about(rows: Run, step_ms: int) -> tuple[dict[str, list[str]], list[OpenRun], int]:
    """Make a first pass over the rows.

    Returns the sorted words of each word column, the runs of open cells, and the number of open
    cells.
    """
    words: dict[str, set[str]] = {name: set() for name in _WORDS}
    runs: list[OpenRun] = []
    opened = 0
    for chunk in rows.chunks():
        for name in _WORDS:
            words[name].update(pc.unique(chunk[name].cast(pa.string())).to_pylist())
        opened += int(chunk.num_rows - closed(chunk).sum())
        found = open_runs(chunk, step_ms)
        if runs and found and _continues(runs[-1], found[0]):
            runs[-1] = runs[-1]._replace(to_ms=found[0].to_ms)
            found = found[1:]
        runs += found
    return {name: sorted(some) for name, some in words.items()}, runs, opened


def _continues(before: OpenRun, after: OpenRun) -> bool:
    return (
        before._replace(from_ms=0, to_ms=0) == after._replace(from_ms=0, to_ms=0)
        and before.to_ms == after.from_ms
    )


def _groups(rows: Run) -> Iterator[pa.Table]:
    """Yield the rows in tables of one row group each. Only the last may be smaller."""
    held: list[pa.Table] = []
    count = 0
    for chunk in rows.chunks():
        while count + chunk.num_rows >= _ROW_GROUP:
            head = _ROW_GROUP - count
            yield together([*held, chunk.slice(0, head)])
            chunk, held, count = chunk.slice(head), [], 0
        if chunk.num_rows:
            held.append(chunk)
            count += chunk.num_rows
    if held:
        yield together(held)


def open_runs(rows: pa.Table, step_ms: int) -> list[OpenRun]:
    """Return the open cells of sorted rows. Adjacent cells with one reason form one run."""
    at = np.flatnonzero(ints(rows, "offset") < 0)
    if not len(at):
        return []
    codes, topics = word_codes(rows)
    why, words = word_codes(rows, "reason")
    codes, why = codes[at], why[at]
    numbers, times = ints(rows, "partition")[at], ints(rows, "timestamp")[at]
    breaks = np.diff(times) != step_ms
    for key in (codes, why, numbers):
        breaks |= np.diff(key) != 0
    firsts, lasts = np.flatnonzero(np.append(True, breaks)), np.flatnonzero(np.append(breaks, True))
    columns = codes[firsts], numbers[firsts], times[firsts], times[lasts], why[firsts]
    return [
        OpenRun(topics[code], number, begin, last + step_ms, words[reason])
        for code, number, begin, last, reason in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def decode_open(file: pa.NativeFile | IO[bytes], path: object) -> list[OpenRun]:
    """Return the runs of open cells in a file that `encode` wrote.

    Raises BadInput for other files.
    """
    try:
        rows = strict_json.loads((pq.read_metadata(file).metadata or {})[_OPEN_RUNS])
        return [
            OpenRun(str(topic), int64(number), int64(a), int64(b), str(word))
            for topic, number, a, b, word in rows
        ]
    except (pa.ArrowException, KeyError, ValueError, TypeError, OSError) as e:
        raise BadInput(f"not a readable file of a table: {e}", path=str(path)) from e


def decode(file: pa.NativeFile, path: object) -> Iterator[pa.Table]:
    """Yield the rows of a file that `encode` wrote, in chunks. Raises BadInput for other files."""
    try:
        # As dictionaries: a small file may repeat a large text in every row.
        with pq.ParquetFile(file, read_dictionary=list(_WORDS)) as source:
            if missing := set(TABLE.names) - set(source.schema_arrow.names):
                raise KeyError(", ".join(sorted(missing)))
            for batch in source.iter_batches(
                batch_size=CHUNK_ROWS, columns=TABLE.names, use_threads=False
            ):
                rows = (
                    pa.Table
                    .from_batches([batch])
                    .select(TABLE.names)
                    .cast(TABLE)
                    .replace_schema_metadata(None)
                )
                if any(column.null_count for column in rows.columns):
                    raise BadInput("a row has an empty column", path=str(path))
                yield rows
    except (pa.ArrowException, KeyError, OSError) as e:
        raise BadInput(f"not a readable file of a table: {e}", path=str(path)) from e
