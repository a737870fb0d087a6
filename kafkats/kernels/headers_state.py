"""The state of reading headers: its vector's slots, its rows' columns, and why it returned."""

from __future__ import annotations

from typing import Final

# The window: file positions ORIGIN to LOADED lie at ADDRESS. Batches that begin at LIMIT or later
# belong to the next call.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # bytes that must be loaded from POSITION on
FILLED: Final = 7  # number of rows written
PRODUCERS_ONLY: Final = 8  # 1: write rows only for batches with a producer id
STATE_SLOTS: Final = 9

# Columns of `rows`.
AT: Final = 0  # position
SIZE: Final = 1
MAGIC: Final = 2
ATTRIBUTES: Final = 3
FIRST_OFFSET: Final = 4
LAST_OFFSET: Final = 5
MAX_TIMESTAMP: Final = 6
PRODUCER_ID: Final = 7
PRODUCER_EPOCH: Final = 8
BASE_SEQUENCE: Final = 9
COUNT: Final = 10
LEADER_EPOCH: Final = 11
COLUMNS: Final = 12

UNKNOWN: Final = -(2**63)

# Why the kernel returned.
STOPPED: Final = 0
AT_LIMIT: Final = 1
FULL: Final = 2
NEED_BYTES: Final = 3
