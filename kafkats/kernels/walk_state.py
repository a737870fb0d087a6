"""The state of a walk: its vector's slots, its tables' columns, and why it returned."""

from __future__ import annotations

from typing import Final

import numpy as np

# The window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3  # batches that begin here or later belong to the next call
FILE_END: Final = 4
# Options.
CRC32: Final = 5  # function addresses; 0: do not verify checksums
CRC32C: Final = 6
BASE_OFFSET: Final = 7
INTERVAL: Final = 8  # index.interval.bytes
# Existing entries: big endian as in the files, in order; the next one to check; their number.
OFFSET_ENTRIES: Final = 9
OFFSET_NEXT: Final = 10
OFFSET_COUNT: Final = 11
TIME_ENTRIES: Final = 12
TIME_NEXT: Final = 13
TIME_COUNT: Final = 14
# Results.
POSITION: Final = 15
LAST_INDEXED: Final = 16
POINTS: Final = 17  # number of rows in `points`
NEEDED: Final = 18  # bytes that must be loaded from POSITION on
STOP: Final = 19
BATCHES: Final = 20
FINGERPRINT: Final = 21
FIRST_OFFSET: Final = 22
LAST_OFFSET: Final = 23  # of the last batch
HIGHEST_OFFSET: Final = 24
FIRST_TIMESTAMP: Final = 25  # the first batch's maximum, on which time-based rolling depends
MAX_TIMESTAMP: Final = 26
MAX_TIMESTAMP_OFFSET: Final = 27
NOT_INCREASING: Final = 28  # positions; -1: none
OUT_OF_RANGE: Final = 29
BAD_HEADER: Final = 30
UNKNOWN_CODEC: Final = 31
HIGHEST_EPOCH: Final = 32  # leader epoch; -1: none
OFFSET_WRONG: Final = 33  # number of wrong entries, and the index of the first
OFFSET_WRONG_FIRST: Final = 34
TIME_WRONG: Final = 35
TIME_WRONG_FIRST: Final = 36
STATE_SLOTS: Final = 37

# table: rows by magic, codec (0 to 7) and timestamp type (none, CreateTime, LogAppendTime); columns
MAGICS: Final = 3
CODECS: Final = 8
TYPES: Final = 3
CELLS: Final = MAGICS * CODECS * TYPES
CELL_BYTES: Final = 0
CELL_BATCHES: Final = 1
# v2 header counts and uncompressed v0/v1 messages; a wrapper's content is not counted
CELL_RECORDS: Final = 2
CELL_CONTROL: Final = 3
CELL_TRANSACTIONAL: Final = 4
CELL_DELETE_HORIZON: Final = 5
CELL_PRODUCER: Final = 6  # batches with a producer id
CELL_COLUMNS: Final = 8

POINT_COLUMNS: Final = 5
UNKNOWN: Final = -(2**63)

# Why the kernel returned.
STOPPED: Final = 0
AT_LIMIT: Final = 1
POINTS_FULL: Final = 2
NEED_BYTES: Final = 3

# STOP: one of these, or TORN_TAIL, BAD_LENGTH, BAD_MAGIC of `batch`
END: Final = 0
BAD_CRC: Final = 4
BAD_OFFSET: Final = 5


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    state = np.zeros(STATE_SLOTS, np.int64)
    for slot in (NOT_INCREASING, OUT_OF_RANGE, BAD_HEADER, UNKNOWN_CODEC, HIGHEST_EPOCH):
        state[slot] = -1
    for slot in (FIRST_OFFSET, LAST_OFFSET, FIRST_TIMESTAMP, MAX_TIMESTAMP):
        state[slot] = -1
    state[OFFSET_WRONG_FIRST] = state[TIME_WRONG_FIRST] = -1
    state[HIGHEST_OFFSET] = UNKNOWN
    return state


def new_table() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return a table of zeros."""
    return np.zeros((CELLS, CELL_COLUMNS), np.int64)
