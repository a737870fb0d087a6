"""The state of a conversion: slots of the vector of `convert`, and why it returned."""

from __future__ import annotations

from typing import Final

import numpy as np

# The window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3  # batches that begin here or later belong to the next window
FILE_END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # bytes: of file (NEED_BYTES), of OUT (FULL) or of AREA_BUFFER (NEED_AREA)
# Options.
MAGIC: Final = 7
CODEC: Final = 8  # -1: every batch keeps its codec
BASE_OFFSET: Final = 9
LOG_END: Final = 10  # 1: the batch that ends at FILE_END is the last of its log
CRC32: Final = 11  # function addresses; those of lz4 may be 0
CRC32C: Final = 12
LZ4_DECOMPRESS: Final = 13
LZ4_COMPRESS: Final = 14
# Buffers: the result, decompressed lz4, and bytes to compress.
OUT: Final = 15
ROOM: Final = 16
FILLED: Final = 17
PLAIN_BUFFER: Final = 18
PLAIN_ROOM: Final = 19
AREA_BUFFER: Final = 20
AREA_ROOM: Final = 21
# The batch at POSITION.
PHASE: Final = 22
SIZE: Final = 23
UNPACK_CODEC: Final = 24
PACK_CODEC: Final = 25
PACKED: Final = 26  # compressed bytes of the batch
PACKED_SIZE: Final = 27
PLAIN: Final = 28  # its records or messages, uncompressed
PLAIN_SIZE: Final = 29
AREA: Final = 30  # the converted ones, to be compressed
AREA_SIZE: Final = 31
INTO: Final = 32  # address for their compressed bytes, with capacity and size
INTO_ROOM: Final = 33
INTO_SIZE: Final = 34
OFFSET: Final = 35  # the frame's offset
APPENDED: Final = 36  # 1: LogAppendTime
TIME: Final = 37  # the frame's timestamp; v2: the maximum
BASE_TIME: Final = 38
COUNT: Final = 39
FIRST: Final = 40  # offset of the first record
LAST: Final = 41
SHIFT: Final = 42  # offset of a record minus the offset stored in its message
FIRST_TIME: Final = 43
NEWEST: Final = 44
WITH_HEADERS: Final = 45
TIMED: Final = 46  # records with a timestamp
# Results.
BATCHES_IN: Final = 47
BATCHES_OUT: Final = 48
RECORDS: Final = 49  # in rebuilt batches
UNCHANGED: Final = 50
LOSSES: Final = 51  # eight slots in the order of generations.LOSSES
STATE_SLOTS: Final = 61

HEADERS: Final = 51
TIMESTAMPS: Final = 52
TRANSACTIONS: Final = 53
CONTROL: Final = 54
ABORTED_VISIBLE: Final = 55
IDEMPOTENCE: Final = 56
DELETE_HORIZON: Final = 57
LEADER_EPOCHS: Final = 58
OLD_MAGIC: Final = 59  # the frame's magic
STAMPED: Final = 60  # 1: LogAppendTime in the new wrapper, also where its messages do not have it

# Why the kernel returned.
GO_ON: Final = 0  # internal only
DONE: Final = 1
AT_LIMIT: Final = 2
NEED_BYTES: Final = 3
FULL: Final = 4  # the caller must empty OUT; NEEDED bytes must fit
NEED_AREA: Final = 5  # the caller must provide NEEDED bytes of AREA_BUFFER
UNPACK: Final = 6  # decompress PACKED with UNPACK_CODEC to PLAIN
PACK: Final = 7  # compress AREA with PACK_CODEC to INTO
HARD: Final = 8  # formats/convert.py must convert the batch of SIZE bytes at POSITION
STOPPED: Final = 9  # no valid batch at POSITION

# PHASE
FRAME: Final = 0
HAVE_PLAIN: Final = 1
HAVE_AREA: Final = 2
HAVE_PACKED: Final = 3


def new_state() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a state at the start of a file, without a window."""
    return np.zeros(STATE_SLOTS, np.int64)
