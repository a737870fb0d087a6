"""Numbers in sentences."""

from __future__ import annotations

import pytest

from kafkats.counts import counted, size_text


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "file", "0 files"),
        (1, "entry", "1 entry"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
        (3, "batch", "3 batches"),
        (2, "index", "2 indexes"),
    ],
)
def test_a_number_has_the_plural_of_its_noun(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1023.4, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),  # not 1024.0 KiB
        (2**30, "1.0 GiB"),
        (5 * 2**40, "5.0 TiB"),
        (2**60, "1024.0 PiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_a_size_has_a_binary_unit(size: float, said: str) -> None:
    assert size_text(size) == said
