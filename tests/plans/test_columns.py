"""One declaration of a row gives the columns of its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict

import pyarrow as pa
import pytest

from kafkats.plans.columns import schema_of, struct_of


class Inner(NamedTuple):
    name: str
    bytes: int = 0


class Row(TypedDict, total=False):
    log_dir: Required[str]
    active: NotRequired[bool]
    share: float | None
    partition: Annotated[int, pa.int32()]
    inner: Inner | None
    several: list[Inner]
    offsets: Sequence[int]
    outcome: Literal["loads", "stops"]


class Longer(Row):
    last: int


@dataclass
class Stored:
    names: tuple[str, ...] = ()


INNER = pa.struct([("name", pa.string()), ("bytes", pa.int64())])


def test_the_columns_of_a_row() -> None:
    assert schema_of(Row) == pa.schema([
        ("log_dir", pa.string()), ("active", pa.bool_()), ("share", pa.float64()),
        ("partition", pa.int32()), ("inner", INNER), ("several", pa.list_(INNER)),
        ("offsets", pa.list_(pa.int64())), ("outcome", pa.string()),
    ])  # fmt: skip
    assert schema_of(Longer) == schema_of(Row).append(pa.field("last", pa.int64()))
    assert schema_of(Stored) == pa.schema([("names", pa.list_(pa.string()))])
    assert struct_of(Inner) == INNER


@pytest.mark.parametrize("hint", [int | str, bytes, Any])
def test_a_type_that_is_no_column_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="is no column"):
        schema_of(make_dataclass("Made", [("column", hint)]))
