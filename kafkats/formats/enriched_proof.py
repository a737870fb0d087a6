"""Tell messages of the dialect `enriched` from those of the magic 1 that shipped, where bytes can.

    shipped     timestamp int64                      key  value
    enriched    timestamp int32  tags length int32   tags  key  value

Key and value fill the rest of a message. So one with tags fits one layout only, but for chance.
One without tags, whose tags length is -1, fits both, and has the same key and value in both.
"""

from __future__ import annotations

from typing import Final

from kafkats.errors import CorruptBatch
from kafkats.formats import enriched
from kafkats.formats.framing import Frame, frames
from kafkats.primitives import INT32, Buffer, view

_TAGS_LENGTH_AT: Final = 22
_BODY_AT: Final = enriched.HEADER.size
"""Of the tags, or of the key where there are none: the same in both layouts."""


def are_enriched(buf: Buffer) -> bool:
    """Return whether the first messages of a log prove the dialect: the first one with tags does.

    Its checksum must be right, and it must not fit the layout that shipped.
    """
    data = view(buf)
    try:
        for frame in frames(data):
            if frame.magic != enriched.MAGIC or frame.size < enriched.MIN_FRAME_BYTES:
                return False
            (tags,) = INT32.unpack_from(data, frame.position + _TAGS_LENGTH_AT)
            if not _fills(data, frame, _BODY_AT):
                return tags >= 0 and _fills(data, frame, _BODY_AT + tags) and _sound(data, frame)
            if tags != -1:
                return False
    except CorruptBatch:
        pass
    return False


def _fills(data: memoryview, frame: Frame, at: int) -> bool:
    """Return whether a key and a value, each behind its length, fill a message from `at` on."""
    for _ in range(2):
        if at + INT32.size > frame.size:
            return False
        (length,) = INT32.unpack_from(data, frame.position + at)
        if length < -1:
            return False
        at += INT32.size + max(length, 0)
    return at == frame.size


def _sound(data: memoryview, frame: Frame) -> bool:
    return any(enriched.batches(data, frame.position, frame.position + frame.size))
