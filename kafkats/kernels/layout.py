"""Positions of a batch's fields, in bytes from the beginning of its frame.

The same numbers as in `formats` (`formats.v2.HEADER`, `formats.message_set`).
"""

from __future__ import annotations

from typing import Final

# All magics. The offset is the first record's in magic 2, the message's or the last one's in 0 and
# 1.
OFFSET_AT: Final = 0
SIZE_AT: Final = 8
OVERHEAD: Final = 12  # bytes of offset and size, which the size field does not count
MAGIC_AT: Final = 16
MIN_LEFT: Final = 18  # Kafka stops reading when fewer bytes are left

# Magic 2.
LEADER_EPOCH_AT: Final = 12
CRC32C_AT: Final = 17  # CRC-32C of everything after it
ATTRIBUTES_AT: Final = 21
FLAGS_AT: Final = 22  # the low byte of the attributes, which has all bits in use
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
COUNT_AT: Final = 57
HEADER: Final = 61  # bytes before the records
MIN_RECORD: Final = 7  # bytes of the smallest record

# Magic 0 and 1. The key follows the attributes in magic 0 and the timestamp in magic 1.
CRC32_AT: Final = 12  # CRC-32 of everything after it
MESSAGE_FLAGS_AT: Final = 17
MESSAGE_TIMESTAMP_AT: Final = 18
MESSAGE_KEY_AT: Final = 18
TIMESTAMP_BYTES: Final = 8  # magic 1: the key is so much further
MIN_MESSAGE: Final = 26  # bytes of a magic-0 message with null key and null value

# Flags of all magics: the low byte of the attributes.
CODEC_MASK: Final = 7
LOG_APPEND_TIME: Final = 8
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
