"""The limit on decompressed bytes per batch, and an output buffer that enforces it."""

from __future__ import annotations

from typing import Final

from kafkats.errors import OversizedBatch, UsageError
from kafkats.text import RAISE_THE_LIMIT

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""Default limit for one batch.

Kafka's limit is 2 GiB. The default of `max.message.bytes` bounds a batch to 1 MiB before
decompression.
"""
MOST_OUTPUT_BYTES: Final = 2**31 - 1
"""The largest limit: Arrow offsets and Java array indexes have 32 bits."""

_allowed = MAX_OUTPUT_BYTES


def allow(limit: int) -> None:
    """Set the limit for batches of this process in bytes.

    Raises UsageError for a limit out of range.
    """
    global _allowed
    if not 0 < limit <= MOST_OUTPUT_BYTES:
        raise UsageError(
            f"a batch of up to {limit} bytes: the limit lies between 1 and {MOST_OUTPUT_BYTES}"
        )
    _allowed = limit


def allowed() -> int:
    """Return the largest decompressed size of a batch in this process, in bytes."""
    return _allowed


class Output:
    """Output collected in pieces; raises OversizedBatch instead of growing beyond `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def left(self) -> int:
        """Bytes left up to the limit."""
        return self.limit - self._size

    def add(self, piece: bytes) -> None:
        """Append `piece`. Raises OversizedBatch."""
        self.expect(len(piece))
        self._pieces.append(piece)
        self._size += len(piece)

    def expect(self, size: int) -> None:
        """Raise OversizedBatch if `size` more bytes exceed the limit.

        Call it before allocating them.
        """
        if size > self.left:
            raise OversizedBatch(
                f"more than {self.limit} bytes after decompression, which is the limit: ",
                RAISE_THE_LIMIT,
            )

    def join(self) -> bytes:
        """Return all pieces as one byte string."""
        return b"".join(self._pieces)
