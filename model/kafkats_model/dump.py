"""Rows that `dump` has of dialects, and of index files that never shipped.

Of `enriched`, beside the fields of the formats that shipped:

batch    type    normal, gzip, snappy, lz4, leader-epoch, start-transaction, commit-transaction,
                 abort-transaction
         tags    timestamp_ms messages honored unkeyed unknown_hex (model/docs/formats/enriched.md)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkats.formats.model import Batch, Record
from kafkats.logdir.strict_json import Json
from kafkats.plans.dialect_hook import Entries
from kafkats_model.formats import enriched, kip228
from kafkats_model.index import enriched_index, minute_index


def enriched_columns(data: bytes, batch: Batch, decoded: Sequence[Record]) -> dict[str, Json]:
    """Return the columns of a message or wrapper that differ from those of the shipped formats.

    `decoded` are its records, or none. Only they tell the last offset of a wrapper with the tag
    `honored`. Raises CorruptBatch.
    """
    tags = enriched.decode_tags(data, batch)
    last = decoded[-1].offset if decoded else batch.last_offset
    return {
        "base_offset": batch.base_offset,
        "last_offset": None if last < 0 else last,
        "count": len(decoded) or (None if batch.count < 0 else batch.count),
        "type": enriched.message_type(batch).label,
        "tags": {
            "timestamp_ms": tags.timestamp_ms,
            "messages": tags.messages,
            "honored": tags.honored,
            "unkeyed": tags.unkeyed,
            "unknown_hex": tags.unknown.hex(),
        },
    }


def kip228_columns(data: bytes, batch: Batch, decoded: Sequence[Record]) -> dict[str, Json]:
    """Return the column of a batch that the formats that shipped do not have."""
    return {"timestamp_extended": kip228.is_extended(batch)}


TIME_INDEX: Final = Entries(minute_index.ENTRY, "time-entry")
ENRICHED_INDEX: Final = Entries(enriched_index.ENTRY, "enriched-entry")
