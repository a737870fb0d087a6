"""The columns of the rows in which the kernels of `ends` judge segments, one row per segment."""

from __future__ import annotations

from typing import Final

# Given. Addresses of bytes; OFFSETS and TIMES are whole index files, or their last entries.
BASE_OFFSET: Final = 0
LOG_BYTES: Final = 1
OFFSETS: Final = 2
OFFSET_BYTES: Final = 3
TIMES: Final = 4
TIME_BYTES: Final = 5
HEAD: Final = 6  # the first HEAD_BYTES of the log, if START is above 0
TAIL: Final = 7  # the log from START on
# 1: nothing speaks against the segment so far, and its files were read. 0: it is in doubt, and its
# other results say nothing.
SOUND: Final = 8
# Results of `judge_indexes`, and of `judge_last`.
START: Final = 9  # where to read the log from
LARGEST: Final = 10  # the largest index.interval.bytes that allows the entries
OFFSET_FROM: Final = 11  # number of the first offset entry at or behind START
TIME_FROM: Final = 12  # number of the first time entry to compare with what is read
# Results of `judge_ends`: segment.facts.SegmentFacts of depth tail.
BATCHES: Final = 13
RECORDS: Final = 14
FIRST_OFFSET: Final = 15
LAST_OFFSET: Final = 16
NEXT_OFFSET: Final = 17
FIRST_TIMESTAMP: Final = 18
MAX_TIMESTAMP: Final = 19
MAX_TIMESTAMP_OFFSET: Final = 20
MAGICS: Final = 21  # three columns
CODECS: Final = 24  # five columns
CONTROL: Final = 29
TRANSACTIONAL: Final = 30
DELETE_HORIZON: Final = 31
HIGHEST_EPOCH: Final = 32
# Result of `judge_last`.
LAST_RELATIVE: Final = 33  # relative offset of the last time entry, -1 without one
COLUMNS: Final = 34

SMALL: Final = 64 * 1024
"""A log of at most so many bytes is read from its begin on where its indexes have no entries."""
HEAD_BYTES: Final = 61
ANY_INTERVAL: Final = 2**62  # entries that say nothing about the interval
MOST_BYTES: Final = 2**31 - 1  # Kafka opens no larger log
