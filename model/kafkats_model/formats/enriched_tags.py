"""The tags of an enriched message (see enriched): an id, and a value of a fixed size per id.

The proposal numbers ids 0 and 32. It only describes 33 and 34, so their numbers are ours. The
proposal lets a reader ignore an unknown tag, but tags have no length: everything from the first
unknown tag on can only be skipped as a whole.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats.model import NO_TIMESTAMP


class Tags(NamedTuple):
    """The tags of one message; an absent tag has the default given here."""

    timestamp_ms: int = NO_TIMESTAMP
    """Id 0, int64: the time in ms at which the broker received the message."""
    messages: int = -1
    """Id 32, int32: number of messages in a wrapper; -1 when the tag is absent."""
    honored: bool = True
    """Id 33, int8: whether the inner offsets of a wrapper are valid.

    If not, readers count its messages.
    """
    unkeyed: bool = False
    """Id 34, int8: no message in a wrapper has a key, so a mirror need not decompress it."""
    unknown: bytes = b""
    """Bytes from the first unknown id on, kept as they are; their tags have an unknown size."""


_TAG: Final = {
    0: struct.Struct(">q"),
    32: struct.Struct(">i"),
    33: struct.Struct(">b"),
    34: struct.Struct(">b"),
}


def parse_tags(raw: bytes, position: int) -> Tags:
    """Decode the tags in `raw`.

    Raises CorruptBatch with the message's `position` if a tag is cut off.
    """
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
    """Encode the tags that differ from their default, unknown ones last.

    Raises BadInput for a value out of range.
    """
    # Defaults are not written. The proposal gives an empty collection the length -1.
    present = {
        0: tags.timestamp_ms if tags.timestamp_ms != NO_TIMESTAMP else None,
        32: tags.messages if tags.messages != -1 else None,
        33: None if tags.honored else 0,
        34: 1 if tags.unkeyed else None,
    }
    try:
        known = (
            bytes([number]) + _TAG[number].pack(value)
            for number, value in present.items()
            if value is not None
        )
        return b"".join(known) + tags.unknown
    except struct.error as e:
        raise BadInput(f"a tag does not fit: {e}") from e
