"""How much any decompression may put out, and the output that keeps to it."""

from __future__ import annotations

from typing import Final

from kafkats.errors import OversizedBatch, UsageError

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""Default limit for one batch. Kafka's is 2 GiB; `max.message.bytes` bounds a batch to 1 MiB before decompression."""
MOST_OUTPUT_BYTES: Final = 2**31 - 1
"""The largest limit: Arrow's offsets into one buffer have 32 bits, and Java's arrays."""

_allowed = MAX_OUTPUT_BYTES


def allow(limit: int) -> None:
    """Let batches of this process decompress to up to `limit` bytes. Raises UsageError for a limit that cannot be."""
    global _allowed
    if not 0 < limit <= MOST_OUTPUT_BYTES:
        raise UsageError(f"a batch of up to {limit} bytes: the limit lies between 1 and {MOST_OUTPUT_BYTES}")
    _allowed = limit


def allowed() -> int:
    """Bytes that one batch may decompress to in this process."""
    return _allowed


class Output:
    """Bytes that come in pieces; raises OversizedBatch instead of growing beyond `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def left(self) -> int:
        """Bytes that may still come."""
        return self.limit - self._size

    def add(self, piece: bytes) -> None:
        self.expect(len(piece))
        self._pieces.append(piece)
        self._size += len(piece)

    def expect(self, size: int) -> None:
        """Raise OversizedBatch if `size` more bytes were too many: before memory is taken for them."""
        if size > self.left:
            raise OversizedBatch(
                f"more than {self.limit} bytes after decompression, which is the limit: --max-batch-bytes raises it"
            )

    def join(self) -> bytes:
        return b"".join(self._pieces)
