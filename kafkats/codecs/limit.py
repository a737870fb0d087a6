"""How much any decompression may put out, and the output that keeps to it."""

from __future__ import annotations

from typing import Final

from kafkats.errors import CorruptBatch

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""Default limit for one batch. Kafka's is 2 GiB; `max.message.bytes` bounds a batch to 1 MiB before decompression."""


class Output:
    """Bytes that come in pieces; raises CorruptBatch instead of growing beyond `limit`."""

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
        """Raise CorruptBatch if `size` more bytes were too many: before memory is taken for them."""
        if size > self.left:
            raise CorruptBatch(f"more than {self.limit} bytes after decompression, which is the limit given")

    def join(self) -> bytes:
        return b"".join(self._pieces)
