"""KIP-31's three readings of the offsets in a magic-1 wrapper, and how one becomes the other.

    relative    inside 0, 1, 2 ..., the wrapper at its last record's offset     KIP-31's prose; what brokers do
    starting    inside 0, 1, 2 ..., the wrapper at its first record's offset    KIP-31's schema ("base offset")
    absolute    inside as consumers see them, the wrapper at the last           magic 0's, before KIP-31

A form is named by the caller and never guessed: the bytes of one are legal in another, with other offsets. Only
`relative` may lie in a broker's directory (it would also read `absolute` rightly, but a leader could not append it).

In every form the wrapper's timestamp is the maximum inside (KIP-32), unless it is LogAppendTime. Offsets lie outside
the CRC of their message, so a rewrite changes nothing else of what is inside. Holes in the offsets are kept, as the
cleaner keeps them; `assign` alone, which is what a leader does with a producer's wrapper, closes them.
"""

from __future__ import annotations

import struct
from enum import Enum

from kafkats.compression import compress
from kafkats.errors import BadInput, CorruptBatch, NotConvertible
from kafkats.formats import message_set, v1
from kafkats.formats.model import NO_TIMESTAMP, Batch, Codec, Record, TimestampType
from kafkats.primitives import INT64, Buffer, wrap_int64


class Form(Enum):
    """Which offsets stand in a wrapper; see the module."""

    RELATIVE = "relative"
    STARTING = "starting"
    ABSOLUTE = "absolute"


def decode_records(buf: Buffer, batch: Batch, form: Form) -> list[Record]:
    """The records of a magic-1 wrapper of `form`, with absolute offsets.

    Raises CorruptBatch, also where `form` cannot be: an absolute wrapper that is not at its last record's offset, a
    relative one below its last message's (0 excepted, as in Kafka's reader).
    """
    _check_wrapper(batch)
    if form == Form.RELATIVE:
        return v1.decode_records(buf, batch)
    rule = _starting if form == Form.STARTING else _absolute
    return message_set.decode_records(buf, batch, message_set.Dialect(rule, broken_lz4=False), None)


def _starting(offsets: list[int], wrapper_offset: int) -> list[int]:
    return [wrap_int64(wrapper_offset + offset) for offset in offsets]


def _absolute(offsets: list[int], wrapper_offset: int) -> list[int]:
    if offsets[-1] != wrapper_offset:
        raise CorruptBatch(f"the last message's offset is {offsets[-1]}, the wrapper's {wrapper_offset}")
    return offsets


def contiguous(buf: Buffer, batch: Batch) -> bool:
    """Whether the offsets inside are 0, 1, 2 ...: then a leader need not compress again. Raises CorruptBatch."""
    _check_wrapper(batch)
    _, frames = message_set.wrapped(buf, batch, broken_lz4=False)
    return [frame.offset for frame in frames] == list(range(len(frames)))


def rewrite(buf: Buffer, batch: Batch, old: Form, new: Form) -> bytes:
    """The wrapper in another form: same offsets and messages, holes included. Raises CorruptBatch."""
    records = decode_records(buf, batch, old)
    return _written(buf, batch, records, [record.offset for record in records], new)


def assign(buf: Buffer, batch: Batch, offset: int, new: Form = Form.RELATIVE) -> bytes:
    """The wrapper as a leader appends it at `offset`: numbered anew, without a hole. Raises CorruptBatch.

    Where the offsets inside are 0, 1, 2 ... already, the compressed bytes stay as they are. Raises BadInput for an offset
    that does not fit.
    """
    records = decode_records(buf, batch, Form.STARTING)
    return _written(buf, batch, records, list(range(offset, offset + len(records))), new)


def _written(buf: Buffer, batch: Batch, records: list[Record], offsets: list[int], new: Form) -> bytes:
    inner, frames = message_set.wrapped(buf, batch, broken_lz4=False)
    inside = offsets if new == Form.ABSOLUTE else [offset - offsets[0] for offset in offsets]
    if inside == [frame.offset for frame in frames]:
        value = message_set.value_of(buf, batch)
    else:
        messages = bytearray(inner[: frames[-1].position + frames[-1].size])
        for frame, offset in zip(frames, inside, strict=True):
            messages[frame.position : frame.position + INT64.size] = _packed(offset)
        value = compress(batch.codec, messages)
    appended = batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    time = batch.max_timestamp if appended else max([NO_TIMESTAMP, *(record.timestamp for record in records)])
    attributes = batch.codec | (v1.LOG_APPEND_TIME_BIT if appended else 0)
    header = struct.pack(">bBq", v1.MAGIC, attributes, time)
    return message_set.encode_message(offsets[0] if new == Form.STARTING else offsets[-1], header, None, value)


def _packed(offset: int) -> bytes:
    try:
        return INT64.pack(offset)
    except struct.error as e:
        raise BadInput(f"offset {offset} does not fit into a message: {e}") from e


def _check_wrapper(batch: Batch) -> None:
    if batch.magic != v1.MAGIC or batch.codec == Codec.NONE:
        reason = f"magic {batch.magic} with codec {batch.codec}: not a wrapper of magic 1"
        raise NotConvertible(reason, position=batch.position)
