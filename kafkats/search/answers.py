"""What a search by time gives back: an offset, and why that one."""

from __future__ import annotations

from typing import Final, NamedTuple

REASONS: Final = {
    "exact": "there is a record of that very time (or the time was a word: earliest, latest, maximum)",
    "first-after": "the first record after it",
    "past-end": "no record is that late yet",
    "above-high-watermark": "there is one, not below the high watermark: brokers give it to nobody yet, and it may still be cut off",
    "before-start": "it lies before the first record that ever was",
    "deleted": "it lies before the first record there is, and older ones are gone",
    "no-timestamps": "no record has a timestamp, or the topic's format says so",
    "out-of-order-window": "on purpose an offset before the first record of that time, by the margin asked for",
    "coarse": "on purpose the closest index entry before it, not a record",
    "weak-evidence": "the modification time of a file decided",
    "untrusted-index": "an index file is not in order, or leads to where no batch begins",
    "unreadable": "the partition cannot be searched; the evidence says why",
}
"""Why an answer is what it is."""

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


class Answer(NamedTuple):
    """`timestamp` (ms) and `leader_epoch` are the record's; -1: none. `segment` is the base offset of the one that gave the answer or ended the search."""

    target_ms: int
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
    reason: str = "past-end"
    segment: int = -1
    evidence: str = ""
    """What decided, in words."""
