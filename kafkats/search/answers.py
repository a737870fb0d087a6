"""The answer of a search by time: an offset and the reason for it."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

REASONS: Final = {
    "exact": "there is a record of that very time (or the time was a word: earliest, latest,"
    " maximum)",
    "first-after": "the first record after it",
    "past-end": "no record is that late yet",
    "above-high-watermark": "there is one, not below the high watermark: brokers give it to"
    " nobody yet, and it may still be cut off",
    "before-start": "it lies before the first record that ever was",
    "deleted": "it lies before the first record there is, and older ones are gone",
    "no-timestamps": "no record has a timestamp, or the topic's format says so",
    "out-of-order-window": "on purpose an offset before the first record of that time, by"
    " the margin asked for",
    "coarse": "on purpose the closest index entry before it, not a record",
    "weak-evidence": "the modification time of a file decided",
    "untrusted-index": "an index file is not in order, or leads to where no batch begins",
    "unreadable": "the partition cannot be searched; the evidence says why",
    "taken-for-a-word": "of a broker's answer: it takes this number for a word (latest,"
    " earliest, ...) and cannot be asked for the instant",
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
LATEST: Final = Word.LATEST
EARLIEST: Final = Word.EARLIEST
MAX_TIMESTAMP: Final = Word.MAX_TIMESTAMP
EARLIEST_LOCAL: Final = Word.EARLIEST_LOCAL
LATEST_TIERED: Final = Word.LATEST_TIERED
_WORDS_OF_BROKERS: Final = range(-6, 0)
"""Numbers up to Kafka 4.3. -6 (earliest pending upload) appeared in 4.2."""


def taken_for_a_word(target: Target) -> bool:
    """Whether a broker takes this instant's number for a word."""
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
    """What decided, as text."""
