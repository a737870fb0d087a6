"""Canonical JSON by columns: the same bytes as row by row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.plans.canonical_json import json_lines

FILE = pa.struct([("size", pa.int64()), ("inode", pa.int64())])
SCHEMA = pa.schema([("file", pa.string()), ("before", FILE), ("after", pa.int64()), ("reason", pa.string()),
    ("sound", pa.bool_()), ("epochs", pa.list_(pa.int64(), 3)), ("words", pa.list_(pa.string()))])  # fmt: skip
TEXTS = (
    st.none()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.sampled_from(["a", 'a"b', "a\\b", "ä", "\x7f", "\n", ""])
)
INTS = st.none() | st.sampled_from([0, -1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.fixed_dictionaries({
    "file": TEXTS, "before": st.none() | st.fixed_dictionaries({"size": INTS, "inode": INTS}), "after": INTS, "reason": TEXTS,
    "sound": st.none() | st.booleans(), "epochs": st.none() | st.lists(INTS, min_size=3, max_size=3), "words": st.none() | st.lists(TEXTS, max_size=2),
})  # fmt: skip


def row_by_row(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(
        json.dumps(row, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows
    )


@settings(deadline=None)  # the first call of a kernel of Arrow takes its time
@given(st.lists(ROWS, max_size=6), st.integers(0, 3), st.booleans())
def test_the_same_bytes(rows: list[dict[str, Any]], start: int, alike: bool) -> None:
    rows = [rows[0]] * 4 if rows and alike else rows
    (batch,) = pa.Table.from_pylist(rows, schema=SCHEMA).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=SCHEMA)
    ]
    assert json_lines(batch.slice(start)).to_pybytes() == row_by_row(rows[start:])
