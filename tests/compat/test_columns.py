"""The columns of every table that kafkats writes or prints are those of tests/compat/columns.txt.

An earlier kafkats wrote reports, plans and runs with these columns, and people read them with other
tools: no name, type or place changes. A new column is added to the file by hand.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from kafkats.flow.apply import summarize
from kafkats.plans.facts import ACTIONS, SEGMENTS, read_table, write_table
from kafkats.plans.plan import ITEMS
from kafkats.plans.run import read_actions

LINES = Path(__file__).with_name("columns.txt").read_text().splitlines()
BEGINS = [n for n, line in enumerate(LINES) if not line.startswith(" ")]
TABLES = {LINES[a]: LINES[a + 1 : b] for a, b in pairwise([*BEGINS, len(LINES)])}


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_are_those_of_the_file(name: str) -> None:
    module, constant = name.rsplit(".", 1)
    columns = list(getattr(import_module(module), constant))
    assert [f"    {one.name} {one.type}" for one in columns] == TABLES[name]
    assert all(one.nullable and one.metadata is None for one in columns)


def test_a_report_of_a_version_without_kinds_of_errors_is_read(tmp_path: Path) -> None:
    row = {one.name: None for one in ACTIONS} | {"outcome": "failed", "error": "No space left"}
    older = pa.Table.from_pylist([row], schema=ACTIONS).drop_columns(["kind"])
    write_table(tmp_path / "report.parquet", older)
    found = read_actions(tmp_path)
    assert found.schema == ACTIONS
    assert found["kind"].to_pylist() == [""], "no program reads the sentence"
    assert summarize(found)["error_kinds"] == []


@pytest.mark.parametrize("schema", [SEGMENTS, ITEMS], ids=["segments", "items"])
def test_a_table_with_its_columns_elsewhere_is_read(tmp_path: Path, schema: pa.Schema) -> None:
    other = pa.schema([*reversed(list(schema)), ("added_later", pa.string())])
    write_table(tmp_path / "table.parquet", other.empty_table())
    assert read_table(tmp_path / "table.parquet", schema).schema == schema
