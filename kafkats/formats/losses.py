"""Count what a conversion to an older magic cannot carry, by the words of `--accept-loss`.

    headers           records with headers                                             below magic 2
    timestamps        records whose timestamp is not -1                                magic 0
    transactions      transactional batches, which lose that mark                      below magic 2
    control           control batches, which are dropped                               below magic 2
    aborted-visible   dropped ABORT markers: all readers then see the aborted records  below magic 2
    idempotence       batches with a producer id, and empty batches, which are dropped below magic 2
    delete-horizon    batches with the time to delete their tombstones (KIP-534)       below magic 2
    leader-epochs     batches with a leader epoch                                      below magic 2

A control batch counts only as `control`, `aborted-visible` and `leader-epochs`: the batches of its
transaction already count the transaction and the producer. A conversion to a newer magic loses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.model import NO_TIMESTAMP, Batch, Record
from kafkats.generations import LOSSES

_ALL_SINCE: Final = 2
"""The first magic that carries everything."""


def count_losses(batch: Batch, records: list[Record], magic: int) -> dict[str, int]:
    """Return word -> count, without zeros, for converting `batch` with `records` to `magic`.

    Raises CorruptBatch for a control record without a type.
    """
    counts = dict.fromkeys(LOSSES, 0)
    if magic == 0:
        counts["timestamps"] = sum(
            record.timestamp != NO_TIMESTAMP for record in records if not batch.control
        )
    if magic < _ALL_SINCE <= batch.magic:
        counts["leader-epochs"] = int(batch.leader_epoch >= 0)
        if batch.control:
            counts["control"] = 1
            counts["aborted-visible"] = sum(
                decode_control_type(r.key) == ControlType.ABORT for r in records
            )
        else:
            counts["headers"] = sum(bool(record.headers) for record in records)
            counts["transactions"] = int(batch.transactional)
            counts["idempotence"] = int(batch.producer_id >= 0 or not records)
            counts["delete-horizon"] = int(batch.delete_horizon_ms is not None)
    return {word: count for word, count in counts.items() if count}


def add_losses(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of several counts in the order of LOSSES; zeros are left out."""
    parts = list(parts)
    sums = {word: sum(part.get(word, 0) for part in parts) for word in LOSSES}
    return {word: count for word, count in sums.items() if count}
