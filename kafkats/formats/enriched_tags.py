"""The tags of an enriched message (see enriched): a number each, and a value whose size the number alone tells.

The proposal numbers the first two below; 33 and 34 it only describes, and the numbers are ours. It also lets a reader
ignore a tag it does not know, but gives tags no length: from an unknown one on, the rest can only be skipped together.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats.model import NO_TIMESTAMP


class Tags(NamedTuple):
    """What a message says of itself besides key and value; a tag that is absent has the default given here."""

    timestamp_ms: int = NO_TIMESTAMP
    """Id 0, int64: when the broker received it."""
    messages: int = -1
    """Id 32, int32: messages in a wrapper."""
    honored: bool = True
    """Id 33, int8: the offsets inside a wrapper count; else its messages are counted."""
    unkeyed: bool = False
    """Id 34, int8: no message in a wrapper has a key, so that a mirror need not open it."""
    unknown: bytes = b""
    """From the first unknown id on: its size is not known, nor therefore where the next tag begins. Carried."""


_TAG: Final = {0: struct.Struct(">q"), 32: struct.Struct(">i"), 33: struct.Struct(">b"), 34: struct.Struct(">b")}


def parse_tags(raw: bytes, position: int) -> Tags:
    """The tags in `raw`. Raises CorruptBatch at the message's `position` when they end inside one."""
    values: dict[int, int] = {}
    pos = 0
    while pos < len(raw) and raw[pos] in _TAG:
        layout = _TAG[raw[pos]]
        if pos + 1 + layout.size > len(raw):
            raise CorruptBatch(f"the tags end inside tag {raw[pos]}", position=position)
        (values[raw[pos]],) = layout.unpack_from(raw, pos + 1)
        pos += 1 + layout.size
    return Tags(
        timestamp_ms=values.get(0, NO_TIMESTAMP),
        messages=values.get(32, -1),
        honored=bool(values.get(33, 1)),
        unkeyed=bool(values.get(34)),
        unknown=raw[pos:],
    )


def encode_tags(tags: Tags) -> bytes:
    """Tags that differ from their default, unknown ones last. Raises BadInput for what does not fit."""
    # What has its default is not written; the proposal gives an empty collection the length -1.
    present = {
        0: tags.timestamp_ms if tags.timestamp_ms != NO_TIMESTAMP else None,
        32: tags.messages if tags.messages != -1 else None,
        33: None if tags.honored else 0,
        34: 1 if tags.unkeyed else None,
    }
    try:
        known = (bytes([number]) + _TAG[number].pack(value) for number, value in present.items() if value is not None)
        return b"".join(known) + tags.unknown
    except struct.error as e:
        raise BadInput(f"a tag does not fit: {e}") from e
