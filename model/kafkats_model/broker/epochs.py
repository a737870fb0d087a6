"""The leader epoch that an append begins. Source: UnifiedLog.append of Kafka 0.11 to 4.3."""

from __future__ import annotations

from kafkats.formats import v2
from kafkats.formats.model import Batch
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import assigned
from kafkats_model.broker.generation import Generation


def begun_by(epochs: list[EpochStart], batch: Batch, generation: Generation) -> list[EpochStart]:
    """Return the epochs with the one that the batch begins.

    A batch of an older format deletes all entries. `generation` says from which release on.
    """
    if batch.magic < v2.MAGIC:
        return [] if generation.log.forgets_epochs else epochs
    if batch.leader_epoch < 0:
        return epochs
    begun = EpochStart(batch.leader_epoch, batch.base_offset)
    return assigned(epochs, begun, falling=generation.start.falling_epochs)
