"""Encode records as frames of a given magic, as Kafka's MemoryRecordsBuilder does.

All conversion rules build their new frames here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Unpack

from kafkats.errors import BadInput, NotConvertible
from kafkats.formats import v0, v1, v2
from kafkats.formats.model import Batch, Codec, Record, TimestampType


class Target(NamedTuple):
    """The magic and codec to convert to.

    Without a codec each batch keeps its own (Kafka's `producer`). `dialect` and `source` are those
    of what is written and of what is read (generations.DIALECTS).
    """

    magic: int
    codec: Codec | None = None
    dialect: str | None = None
    source: str | None = None


def target_codec(codec: int, target: Target) -> int:
    """Return the codec to write a batch of `codec` with.

    Raises NotConvertible for zstd below magic 2.
    """
    chosen = codec if target.codec is None else target.codec
    if chosen == Codec.ZSTD and target.magic < v2.MAGIC:
        raise NotConvertible(
            f"zstd cannot be in magic {target.magic}: another codec has to be given"
        )
    return chosen


def append_time(batch: Batch) -> int | None:
    """Return the timestamp in ms of a LogAppendTime batch and all its records; else None."""
    return batch.max_timestamp if batch.timestamp_type == TimestampType.LOG_APPEND_TIME else None


def build(
    records: Sequence[Record],
    magic: int,
    codec: int,
    *,
    log_append_time: int | None = None,
    stamp_inner: bool = True,
    position: int | None = None,
    **fields: Unpack[v2.HeaderFields],
) -> bytes:
    """Encode one batch of magic 2, one wrapper, or one uncompressed message per record.

    Magic 0 and 1 drop the record headers. `log_append_time`, in ms, makes the type LogAppendTime.
    `stamp_inner` is that of v1.encode_batch, and `fields` are keyword arguments of v2.encode_batch.
    Raises NotConvertible with `position` for offsets that do not increase, as Kafka's builder does,
    and for a field or a size out of range.
    """
    for before, record in pairwise(records):
        if record.offset <= before.offset:
            reason = (
                f"offset {record.offset} follows {before.offset} in one batch: offsets"
                " must increase"
            )
            raise NotConvertible(reason, position=position)
    try:
        if magic == v2.MAGIC:
            return v2.encode_batch(records, codec=codec, log_append_time=log_append_time, **fields)
        plain = [record._replace(headers=()) for record in records]
        if magic == v1.MAGIC:
            return v1.encode_batch(
                plain, codec=codec, log_append_time=log_append_time, stamp_inner=stamp_inner
            )
        return v0.encode_batch(plain, codec=codec)
    except BadInput as e:
        raise NotConvertible(e.reason, position=position) from e
