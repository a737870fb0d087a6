"""Kafka's names of the errors that a broker answers with: the reason of a `Rejected` begins so."""

from __future__ import annotations

from typing import Final

CORRUPT_MESSAGE: Final = "CORRUPT_MESSAGE"
FENCED: Final = "TRANSACTION_COORDINATOR_FENCED"
INVALID_EPOCH: Final = "INVALID_PRODUCER_EPOCH"
INVALID_RECORD: Final = "INVALID_RECORD"
INVALID_STATE: Final = "INVALID_TXN_STATE"
INVALID_TIMESTAMP: Final = "INVALID_TIMESTAMP"
OFFSET_OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
OUT_OF_ORDER_SEQUENCE: Final = "OUT_OF_ORDER_SEQUENCE_NUMBER"
RECORD_LIST_TOO_LARGE: Final = "RECORD_LIST_TOO_LARGE"
UNKNOWN_PRODUCER: Final = "UNKNOWN_PRODUCER_ID"
UNKNOWN_ERROR: Final = "UNKNOWN_SERVER_ERROR"
UNSUPPORTED_COMPRESSION: Final = "UNSUPPORTED_COMPRESSION_TYPE"
UNSUPPORTED_FORMAT: Final = "UNSUPPORTED_FOR_MESSAGE_FORMAT"
UNSUPPORTED_VERSION: Final = "UNSUPPORTED_VERSION"

# Of a follower's append and a cleaner's pass, which are no requests: names of exceptions, or ours.
OUT_OF_ORDER: Final = "OffsetsOutOfOrder"
UNCLEANABLE: Final = "Uncleanable"
UNEXPECTED_OFFSET: Final = "UnexpectedAppendOffset"
