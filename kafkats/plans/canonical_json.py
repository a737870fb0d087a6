"""Rows of a table as canonical JSON, computed by column. A plan's digest covers this text.

A row has the text of `json.dumps(row, sort_keys=True, separators=(",", ":"))`, with the row as a
dict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """Return one line per row. Column names are plain words.

    Strings, integers and structs of these are fast.
    """
    lines = _objects({name: batch.column(n) for n, name in enumerate(batch.schema.names)}, "}\n")
    if isinstance(lines, str):
        return pa.py_buffer((lines * len(batch)).encode())
    _, offsets, data = lines.buffers()
    return data.slice(0, int(np.frombuffer(offsets, np.int32)[len(lines)]))


def _objects(columns: Mapping[str, pa.Array], end: str) -> pa.Array | str:
    """Return the text of one object per row, or one text if all are equal."""
    parts: list[pa.Array | str] = []
    between = "{"
    for name in sorted(columns):
        between += f'"{name}":'
        values = _values(columns[name])
        if isinstance(values, str):
            between += values
        else:
            parts += [between, values]
            between = ""
        between += ","
    end = between.removesuffix(",") + end
    return pc.binary_join_element_wise(*parts, end, "") if parts else end


def _values(column: pa.Array) -> pa.Array | str:
    kind = column.type
    if column.null_count == len(column):
        return "null"
    if pa.types.is_struct(kind):
        texts = _objects({kind.field(n).name: column.field(n) for n in range(kind.num_fields)}, "}")
    elif not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return pa.array(
            [
                json.dumps(value, sort_keys=True, separators=(",", ":"))
                for value in column.to_pylist()
            ],
            pa.string(),
        )
    elif not column.null_count and pc.all(pc.equal(column, column[0])).as_py():
        return json.dumps(column[0].as_py())
    else:
        texts = _strings(column) if pa.types.is_string(kind) else column.cast(pa.string())
    return pc.if_else(pc.is_valid(column), texts, "null") if column.null_count else texts


def _strings(column: pa.Array) -> pa.Array:
    if _plain(column):
        return pc.binary_join_element_wise('"', column, '"', "")
    coded = column.dictionary_encode()
    return pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string()).take(
        coded.indices
    )


def _plain(column: pa.Array) -> bool:
    """Return whether JSON needs no escapes: printable ASCII without quotes and backslashes."""
    _, offsets, data = column.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[column.offset, column.offset + len(column)]]
    text = np.frombuffer(data or b"", np.uint8)[first:last]
    odd = (text < ord(" ")) | (text > ord("~")) | (text == ord('"')) | (text == ord("\\"))
    return not odd.any()
