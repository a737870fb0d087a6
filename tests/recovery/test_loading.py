"""Which replacements of segments a start of a broker finishes: names only."""

from __future__ import annotations

import pytest

from kafkats.recovery.loading import complete_swaps, load_names
from kafkats.recovery.rules import START_RULES

SWAPS = {
    "no replacement": (["0.log"], []),
    "complete": (["0.log.swap", "0.index.swap"], ["0.index.swap", "0.log.swap"]),
    "one of two renamed": (["0.log.cleaned", "9.log.swap"], []),
    "below the smallest": (["0.log.swap", "9.log.cleaned", "7.log.cleaned"], ["0.log.swap"]),
    "at the smallest": (["9.index.swap", "9.log.cleaned"], []),
}


@pytest.mark.parametrize(("short", "complete"), SWAPS.values(), ids=SWAPS)
def test_complete_swaps(short: list[str], complete: list[str]) -> None:
    assert complete_swaps([_name(one) for one in short]) == [_name(one) for one in complete]


@pytest.mark.parametrize("generation", ["2.0", "4.0"])
def test_an_incomplete_replacement_is_removed(generation: str) -> None:
    names = map(_name, ["0.log", "0.index", "9.log", "9.index", "0.log.cleaned", "9.log.swap"])
    files = load_names(names, START_RULES[generation], lambda base, name: base + 9)
    before_3_0 = [_name("9.index")] if generation == "2.0" else []
    assert sorted(files.removed) == [_name("0.log.cleaned"), *before_3_0, _name("9.log.swap")]
    assert files.bases() == [0, 9]
    assert not files.renamed and not files.swapped_logs


def _name(short: str) -> str:
    number, _, rest = short.partition(".")
    return f"{int(number):020d}.{rest}"
