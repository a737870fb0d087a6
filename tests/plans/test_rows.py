"""The types of rows have the columns of their tables, with the same kinds of values."""

from __future__ import annotations

from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import pyarrow as pa
import pytest

from kafkats.logdir.identity import FileIdentity, FileRow
from kafkats.plans.facts import ACTIONS, FILE, FINDING, SEGMENTS
from kafkats.plans.plan import ITEMS
from kafkats.plans.rows import ActionRow, FindingRow, Item, SegmentRow
from kafkats.retention.plan import RETENTION, VerdictRow
from kafkats.rolling.plan import DUE, DueRow
from kafkats.rolling.simulate import DAY, SIMULATED_NOW, DayRow, SimulatedRow
from kafkats.split.parts import PARTS, PartRow

ROWS = {
    FileRow: FILE,
    FindingRow: FINDING,
    SegmentRow: SEGMENTS,
    Item: ITEMS,
    ActionRow: ACTIONS,
    VerdictRow: RETENTION,
    DueRow: DUE,
    SimulatedRow: SIMULATED_NOW,
    DayRow: DAY,
    PartRow: PARTS,
}
KINDS = {int: pa.types.is_integer, str: pa.types.is_string, bool: pa.types.is_boolean,
         float: pa.types.is_floating}  # fmt: skip


def holds(kind: pa.DataType, hint: Any) -> bool:
    """Whether a column of `kind` has values of the type `hint`."""
    if get_origin(hint) is not None and type(None) in get_args(hint):
        hint = Union[tuple(arg for arg in get_args(hint) if arg is not type(None))]  # noqa: UP007
    if is_typeddict(hint):
        return bool(ROWS[hint] == kind)
    if get_origin(hint) is not None:
        return (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)) and holds(
            kind.value_type, get_args(hint)[0]
        )
    return bool(KINDS[hint](kind))


@pytest.mark.parametrize("row", ROWS, ids=[row.__name__ for row in ROWS])
def test_a_row_has_the_columns_of_its_table(row: type) -> None:
    hints = get_type_hints(row)
    columns = {field.name: field.type for field in ROWS[row]}
    assert hints.keys() == columns.keys()
    wrong = [name for name, kind in columns.items() if not holds(kind, hints[name])]
    assert not wrong


def test_a_column_of_another_kind_is_told() -> None:
    assert not holds(pa.string(), int)
    assert not holds(pa.list_(pa.int64()), list[str])
    assert not holds(FINDING, FileRow)


def test_a_file_row_has_the_fields_of_an_identity() -> None:
    assert tuple(get_type_hints(FileRow)) == FileIdentity._fields
