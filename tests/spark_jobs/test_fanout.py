"""A job's words as those of the command."""

from __future__ import annotations

import fanout
import pytest


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--reserve", "night", "-o", "p"], ["--holder", "night", "-o", "p"]),
        (["--reserve=night"], ["--holder=night"]),
        (["--reserve", ""], ["--holder", ""]),
        (["--reserve", "--reserve-for", "1h"], ["--reserve", "--reserve-for", "1h"]),
        (["-o", "p", "--reserve"], ["-o", "p", "--reserve"]),
    ],
)
def test_a_holder_may_be_named_by_its_old_name(given: list[str], words: list[str]) -> None:
    assert fanout.words_of(["plan"], given) == ["plan", *words]
    assert fanout.words_of(["apply"], given) == ["apply", *given]
