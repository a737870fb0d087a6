"""The options that a plan stores are made from the models that declare them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import ValidationError

from kafkats.config.given import Given, stored
from kafkats.config.option import Option, Options, Time


class Sample(Options):
    now: Time | None = Option("When", "--now", stored="now_ms").default(None)
    before: Time | None = Option("Older than", "--before", stored="before_ms").default(None)
    all: bool = Option("Everything", "--all").default(False)
    export: Path | None = Option("A file that is not stored", "--export").default(None)


class More(Options):
    names: tuple[str, ...] = Option("Which", "--name").default(())


@dataclass(frozen=True)
class SampleOptions:
    now_ms: int
    before_ms: int | None = None
    all: bool = False
    names: tuple[str, ...] = ()


VALUES = {"now": None, "before": 7, "all": True, "export": Path("x"), "names": ("a",), "other": 1}


def test_a_plan_stores_the_values_of_its_models() -> None:
    given = Given(VALUES, 99)
    sample = given.of(Sample)
    assert sample == Sample(before=7, all=True, export=Path("x"))
    options = stored(SampleOptions, sample, given.of(More), now_ms=given.at(sample.now))
    assert options == SampleOptions(99, 7, all=True, names=("a",))
    assert given.at(5) == 5


def test_values_that_no_command_gives_are_refused() -> None:
    with pytest.raises(ValidationError):
        Given(VALUES | {"before": "noon"}, 0).of(Sample)
    with pytest.raises(KeyError):
        Given({}, 0).of(More)
