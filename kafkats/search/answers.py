"""The answer of a search by time: an offset and the reason for it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

REASONS: Final = {
    "exact": "a record has exactly this time, or the target was a word: earliest, latest, maximum",
    "first-after": "the first record after the time",
    "past-end": "no record is that late",
    "above-high-watermark": "the record is not below the high watermark: brokers return it to no"
    " consumer yet, and it may still be truncated",
    "before-start": "the time is before the first record of the partition",
    "deleted": "the time is before the first record that is left; older ones were deleted",
    "no-timestamps": "no record has a timestamp, or the topic's message format has none",
    "out-of-order-window": "an earlier offset, as requested by the margin",
    "coarse": "the closest index entry before the time, as this search rule returns it",
    "weak-evidence": "the modification time of a file decided",
    "untrusted-index": "an index file is not in order, or points to a place where no batch begins",
    "unreadable": "the partition cannot be searched; the evidence says why",
    "taken-for-a-word": "a broker takes this number for a word (latest, earliest, ...) and cannot"
    " search for the instant",
}
"""Reasons of answers, by name."""


class Word(Enum):
    """A special target in place of an instant, with its number in Kafka's ListOffsets.

    The number is never used as a target here: -1 is the last millisecond of 1969.
    """

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5

    @property
    def text(self) -> str:
        """The name in Kafka's own tools, such as `max-timestamp`."""
        return self.name.lower().replace("_", "-")


Target: TypeAlias = int | Word
"""An instant (epoch ms, any sign) or a word."""
_WORDS_OF_BROKERS: Final = range(-6, 0)
"""Numbers up to Kafka 4.3. -6 (earliest pending upload) appeared in 4.2."""


def taken_for_a_word(target: Target) -> bool:
    """Return whether a broker takes this instant's number for a word."""
    return isinstance(target, int) and target in _WORDS_OF_BROKERS


class Answer(NamedTuple):
    """The result of a search.

    `timestamp` (ms) and `leader_epoch` are the record's, -1 for none. `segment` is the base offset
    of the segment that gave the answer or ended the search.
    """

    target_ms: Target
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
    reason: str = "past-end"
    segment: int = -1
    evidence: str = ""
    """The reason for the answer, as text."""
