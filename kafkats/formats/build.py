"""Records -> frames of a magic, as Kafka's MemoryRecordsBuilder writes them: what every conversion rule ends with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kafkats.errors import BadInput, NotConvertible
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Batch, Codec, Record, TimestampType


class Target(NamedTuple):
    """What a log is converted to; without a codec every batch keeps its own (Kafka's word `producer`)."""

    magic: int
    codec: Codec | None = None


def target_codec(codec: int, target: Target) -> int:
    """The codec in which a batch of `codec` is written. Raises NotConvertible for zstd below magic 2."""
    chosen = codec if target.codec is None else target.codec
    if chosen == Codec.ZSTD and target.magic < v2.MAGIC:
        raise NotConvertible(f"zstd cannot be in magic {target.magic}: another codec has to be given")
    return chosen


def append_time(batch: Batch) -> int | None:
    """The time of a LogAppendTime batch in ms, which every one of its records has; else None."""
    return batch.max_timestamp if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else None


def build(
    records: Sequence[Record],
    magic: int,
    codec: int,
    *,
    log_append_time: int | None = None,
    position: int | None = None,
    **fields: Any,
) -> bytes:
    """One batch of magic 2, or one wrapper, or uncompressed one message per record; headers end with magic 2.

    `log_append_time` in ms makes it LogAppendTime; `fields` are those of v2.encode_batch. Raises NotConvertible at
    `position` when offsets do not increase, as Kafka's builder does, and when a number or a size does not fit.
    """
    for before, record in pairwise(records):
        if record.offset <= before.offset:
            reason = f"offset {record.offset} follows {before.offset} in one batch: offsets must increase"
            raise NotConvertible(reason, position=position)
    try:
        if magic == v2.MAGIC:
            return v2.encode_batch(records, codec=codec, log_append_time=log_append_time, **fields)
        plain = [record._replace(headers=()) for record in records]
        if magic == v1.MAGIC:
            return v1.encode_batch(plain, codec=codec, log_append_time=log_append_time)
        return v0.encode_batch(plain, codec=codec)
    except BadInput as e:
        raise NotConvertible(e.reason, position=position) from e
