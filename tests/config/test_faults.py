"""What is wrong with a value is said in this project's words, whatever type of error pydantic has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from kafkats.config.faults import faults


class Model(BaseModel):
    whole: Annotated[int, Field(ge=0, le=9)] = 0
    strict: Annotated[int, Field(strict=True)] = 0
    share: float = 0
    flag: bool = False
    word: Literal["none", "gzip"] = "none"
    text: Annotated[str, Field(min_length=1)] = "x"
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "x"
    path: Path = Path()
    items: tuple[int, ...] = ()
    more: list[int] = []
    table: dict[str, int] = {}
    inner: Model | None = None


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("whole", -1, "must be at least 0, not -1"),
        ("whole", 10, "must be at most 9, not 10"),
        ("whole", 1.5, "must be a whole number, not 1.5"),
        ("whole", "soon", "must be a whole number, not 'soon'"),
        ("whole", "1" * 5000, f"must be a whole number, not '{'1' * 39}…"),
        ("strict", "1", "must be a whole number, not '1'"),
        ("share", "half", "must be a number, not 'half'"),
        ("share", [], "must be a number, not a list"),
        ("flag", "maybe", "must be true or false, not 'maybe'"),
        ("flag", [], "must be true or false, not a list"),
        ("word", "zstd", "must be 'none' or 'gzip', not 'zstd'"),
        ("text", "", "must have a character, not ''"),
        ("text", 3, "must be a text, not 3"),
        ("name", "A", "must match ^[a-z]+$, not 'A'"),
        ("path", 3, "must be a path, not 3"),
        ("items", 3, "must be a list, not 3"),
        ("more", {}, "must be a list, not a mapping"),
        ("table", [], "must be a mapping: keys with values, not a list"),
        ("inner", 3, "must be a mapping: keys with values, not 3"),
    ],
)
def test_reasons(field: str, value: object, reason: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Model.model_validate({field: value})
    assert faults(raised.value) == [f"{field}: {reason}"]


def test_places() -> None:
    with pytest.raises(ValidationError) as raised:
        Model.model_validate({"items": [1, "x"], "table": {"a": None}})
    said = ["items.1: must be a whole number, not 'x'", "table.a: must be a whole number, not None"]
    assert faults(raised.value) == said
    assert faults(raised.value, below=1) == [one.partition(".")[2] for one in said]
