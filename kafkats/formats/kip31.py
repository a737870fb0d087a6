"""Read and rewrite the offsets of a magic-1 wrapper in the three forms of KIP-31.

    relative    inner offsets 0, 1, 2 ...; the wrapper has the offset of its last record: KIP-31's
                prose, and what brokers do
    starting    inner offsets 0, 1, 2 ...; the wrapper has the offset of its first record: KIP-31's
                schema ("base offset")
    absolute    inner offsets as consumers see them; the wrapper has the last one: magic 0, before
                KIP-31

The caller names the form. It is never guessed, because the bytes of one form are legal in another
with other offsets. Only `relative` may be stored in a broker's directory. A broker would also read
`absolute` correctly, but a leader could not append it.

In every form the wrapper's timestamp is the maximum of the inner ones (KIP-32), unless it is
LogAppendTime. No CRC covers the offset of its message, so a rewrite changes only offsets inside the
wrapper. Holes in the offsets are kept, as the cleaner keeps them. Only `assign` closes them, as a
leader does with a producer's wrapper.
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
    """The form of the offsets in a wrapper; see the module docstring."""

    RELATIVE = "relative"
    STARTING = "starting"
    ABSOLUTE = "absolute"


def decode_records(buf: Buffer, batch: Batch, form: Form) -> list[Record]:
    """Return the records of a magic-1 wrapper of `form`, with absolute offsets.

    Raises CorruptBatch, also for offsets that contradict `form`: an absolute wrapper whose offset
    is not its last record's, or a relative wrapper below its last inner offset (except at offset 0,
    as in Kafka's reader). Raises NotConvertible if the batch is not a magic-1 wrapper.
    """
    _check_wrapper(batch)
    if form == Form.RELATIVE:
        return v1.decode_records(buf, batch)
    rule = _starting if form == Form.STARTING else _absolute
    return message_set.Dialect(rule, broken_lz4=False).decode_records(buf, batch)


def _starting(offsets: list[int], wrapper_offset: int) -> list[int]:
    return [wrap_int64(wrapper_offset + offset) for offset in offsets]


def _absolute(offsets: list[int], wrapper_offset: int) -> list[int]:
    if offsets[-1] != wrapper_offset:
        raise CorruptBatch(
            f"the last message's offset is {offsets[-1]}, the wrapper's {wrapper_offset}"
        )
    return offsets


def contiguous(buf: Buffer, batch: Batch) -> bool:
    """Return whether the inner offsets are 0, 1, 2 ...: a leader then keeps the compressed bytes.

    Raises CorruptBatch.
    """
    _check_wrapper(batch)
    _, frames = message_set.wrapped(buf, batch, broken_lz4=False)
    return [frame.offset for frame in frames] == list(range(len(frames)))


def rewrite(buf: Buffer, batch: Batch, old: Form, new: Form) -> bytes:
    """Return the wrapper in another form; offsets, holes and messages stay. Raises CorruptBatch."""
    records = decode_records(buf, batch, old)
    return _written(buf, batch, records, [record.offset for record in records], new)


def assign(buf: Buffer, batch: Batch, offset: int, new: Form = Form.RELATIVE) -> bytes:
    """Return the wrapper as a leader appends it at `offset`: consecutive offsets, no holes.

    If the inner offsets already are 0, 1, 2 ..., the compressed bytes are kept. Raises
    CorruptBatch, and BadInput for an offset out of range.
    """
    records = decode_records(buf, batch, Form.STARTING)
    return _written(buf, batch, records, list(range(offset, offset + len(records))), new)


def _written(
    buf: Buffer, batch: Batch, records: list[Record], offsets: list[int], new: Form
) -> bytes:
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
    time = (
        batch.max_timestamp
        if appended
        else max([NO_TIMESTAMP, *(record.timestamp for record in records)])
    )
    attributes = batch.codec | (v1.LOG_APPEND_TIME_BIT if appended else 0)
    header = struct.pack(">bBq", v1.MAGIC, attributes, time)
    return message_set.encode_message(
        offsets[0] if new == Form.STARTING else offsets[-1], header, None, value
    )


def _packed(offset: int) -> bytes:
    try:
        return INT64.pack(offset)
    except struct.error as e:
        raise BadInput(f"offset {offset} does not fit into a message: {e}") from e


def _check_wrapper(batch: Batch) -> None:
    if batch.magic != v1.MAGIC or batch.codec == Codec.NONE:
        reason = f"magic {batch.magic} with codec {batch.codec}: not a wrapper of magic 1"
        raise NotConvertible(reason, position=batch.position)
