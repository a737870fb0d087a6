"""Find the offset at a time in one partition, as its brokers do or by its records.

    with Partition(path) as partition:
        find_exact(partition, Word.LATEST)               words are named; a number is an instant
        find(partition, 1_600_000_000_000)               what a broker answers, by generation
        find_exact(partition, 1_600_000_000_000)         the first record that late
        find_safe(partition, 1_600_000_000_000, 60_000)  earlier, for records out of order

A number is always an instant, also -1. Every answer has a reason. Nothing is written.
"""

from kafkats.search.answers import REASONS, Answer, Target, Word
from kafkats.search.broker import find
from kafkats.search.depths import DEPTHS
from kafkats.search.exact import compare, find_exact, find_safe
from kafkats.search.partition import Partition, PartitionUnit, Segment, open_unit

__all__ = [
    "DEPTHS",
    "REASONS",
    "Answer",
    "Partition",
    "PartitionUnit",
    "Segment",
    "Target",
    "Word",
    "compare",
    "find",
    "find_exact",
    "find_safe",
    "open_unit",
]
