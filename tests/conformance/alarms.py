"""The comparisons of `conformance migrate` must be able to say no: one wrong byte is reported by each of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from rich.console import Console

from kafkats.errors import BadInput
from tests.conformance import conversion
from tests.conformance.conversion import OURS, Ours, Subject
from tests.conformance.tally import Tally
from tests.conformance.workers import Ask

CHECK = "self-test: one tampered byte is reported"
SUBJECTS = ("v1-none-rising-5-at-0-by-1", "v1-gzip-rising-5-at-0-by-1", "v2-lz4-rising-5-at-0-by-1")


def test_conversion(asked: list[Subject], ask: Ask, tally: Tally) -> None:
    """Each comparison, with a wrong last byte (of content, or of a checksum) and with a wrong offset, which no checksum covers."""
    comparisons = (
        (conversion.compare_cleaned, "4.3.1"),
        (conversion.compare_fetched, "2.8.2"),
        (conversion.compare_stored, "2.8.2"),
        (conversion.compare_stored, "4.3.1"),
        (conversion.compare_produced, "2.8.2"),
        (conversion.compare_produced, "4.3.1"),
    )
    for one in asked:
        for at in (-1, 7):
            tampered = Ours(
                tuple(_tampered(stored, at) for stored in OURS.stored),
                _tampered(OURS.fetch, at),
                _tampered(OURS.produce, at),
            )
            for compare, version in comparisons:
                quiet = Tally(Console(file=io.StringIO()))
                compare([one], ask(version), quiet, tampered)
                compared = sum(counter.total() for counter in quiet.compared.values())
                if compared:
                    what = f"byte {at} in {compare.__name__} of {one.name}"
                    tally.same(CHECK, version, compare.__name__, what, len(quiet.differences), compared)


def _tampered(conversion: Callable[..., bytes], at: int) -> Callable[..., bytes]:
    def tampered(*words: Any, **settings: Any) -> bytes:
        try:
            made = bytearray(conversion(*words, **settings))
        except BadInput:
            return b"what Kafka refuses"
        made[at] ^= 1
        return bytes(made)

    tampered.__name__ = "tampered"
    return tampered
