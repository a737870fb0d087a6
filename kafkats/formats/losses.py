"""What a conversion to an older magic cannot carry, as the words of `--accept-loss`, and their counts.

    headers           records with headers                                                  below magic 2
    timestamps        records whose timestamp is not -1                                     magic 0
    transactions      transactional batches, whose records lose the mark                    below magic 2
    control           control batches, dropped                                              below magic 2
    aborted-visible   ABORT markers dropped: every reader then sees the aborted records     below magic 2
    idempotence       batches with a producer id, and empty batches, which are dropped      below magic 2
    delete-horizon    batches that knew when their tombstones may go (KIP-534)              below magic 2
    leader-epochs     batches with a leader epoch                                           below magic 2

A control batch counts as `control`, `aborted-visible` and `leader-epochs` only: its transaction and its producer are
those of the batches it ends. Upward nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkats.formats.control import ControlType, decode_control_type
from kafkats.formats.model import NO_TIMESTAMP, Batch, Record
from kafkats.generations import LOSSES

_ALL_SINCE: Final = 2
"""The magic that carries everything."""


def count_losses(batch: Batch, records: list[Record], magic: int) -> dict[str, int]:
    """Word -> how many, without zeros, when `batch` with these `records` becomes `magic`.

    Raises CorruptBatch for a control record without a type.
    """
    found = dict.fromkeys(LOSSES, 0)
    if magic == 0:
        found["timestamps"] = sum(record.timestamp != NO_TIMESTAMP for record in records if not batch.control)
    if magic < _ALL_SINCE <= batch.magic:
        found["leader-epochs"] = int(batch.leader_epoch >= 0)
        if batch.control:
            found["control"] = 1
            found["aborted-visible"] = sum(decode_control_type(r.key) == ControlType.ABORT for r in records)
        else:
            found["headers"] = sum(bool(record.headers) for record in records)
            found["transactions"] = int(batch.transactional)
            found["idempotence"] = int(batch.producer_id >= 0 or not records)
            found["delete-horizon"] = int(batch.delete_horizon_ms is not None)
    return {word: count for word, count in found.items() if count}


def add_losses(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of several counts, in the order of LOSSES, without zeros."""
    parts = list(parts)
    sums = {word: sum(part.get(word, 0) for part in parts) for word in LOSSES}
    return {word: count for word, count in sums.items() if count}
