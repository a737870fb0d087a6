"""Options are declared once: what the generators read of them."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import ValidationError

from kafkats.config.option import REQUIRED, Choice, Duration, Option, Options, Size, Time, declared
from kafkats.lookup.options import Lookup
from kafkats.search.exact import DEPTHS


class Sample(Options):
    at: Annotated[Time, Option("When", "--at")]
    size: Size | None = Option("How much", "--size", unset="all").default(None)
    how: Annotated[str, Choice(("a", "b"))] = Option("How", param="way").default("a")
    names: tuple[str, ...] = Option("Which").default(())


def test_declared_in_the_order_of_the_model() -> None:
    at, size, how, names = declared(Sample)
    assert (at.name, at.default, at.param) == ("at", REQUIRED, "at")
    assert at.kind.schema == {"type": "string", "format": "date-time"}
    assert (size.default, size.kind.schema) == (None, {"type": ["null", "string"]})
    assert (how.param, how.kind.schema) == ("way", {"type": "string", "enum": ["a", "b"]})
    assert names.kind.schema == {"type": ["null", "array"], "items": {"type": "string"}}


def test_values_are_read_as_on_the_command_line() -> None:
    given = Sample.model_validate({"at": "1970-01-01T00:00:01Z", "size": "1KiB"})
    assert (given.at, given.size, given.how) == (1000, 1024, "a")
    assert Sample(at=5).at == 5
    for wrong in (
        {"at": "noon"},
        {"at": 0, "size": "much"},
        {"at": 0, "how": "c"},
        {"at": 0, "x": 1},
    ):
        with pytest.raises(ValidationError):
            Sample.model_validate(wrong)


def test_a_field_without_a_sentence_is_refused() -> None:
    class Bare(Options):
        span: Duration = 0

    with pytest.raises(TypeError, match="field span needs one Option"):
        declared(Bare)

    class Odd(Options):
        rate: float = Option("How fast").default(0.0)

    with pytest.raises(TypeError, match="float"):
        declared(Odd)


def test_the_words_of_a_search_are_those_that_it_knows() -> None:
    depth = next(one for one in declared(Lookup) if one.name == "depth")
    assert depth.kind.schema["enum"] == list(DEPTHS)


def test_an_optional_choice_may_be_left_out_and_is_otherwise_one_of_its_values() -> None:
    class Magic(Options):
        magic: Annotated[int | None, Choice((0, 1))] = Option("Which").default(None)

    assert Magic.model_validate({"magic": None}).magic is None
    assert Magic.model_validate({"magic": 1}).magic == 1
    with pytest.raises(ValidationError):
        Magic.model_validate({"magic": 2})
