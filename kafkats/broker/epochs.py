"""The leader epochs of a partition, as appends, truncations and deletions change them.

Source: LeaderEpochFileCache and UnifiedLog.append of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from kafkats.broker.log_rules import LogRule
from kafkats.formats import v2
from kafkats.formats.model import Batch
from kafkats.logdir.checkpoints import EpochStart


def begun_by(epochs: list[EpochStart], batch: Batch, rule: LogRule) -> list[EpochStart]:
    """Return the epochs with the one that the batch begins.

    A batch of another epoch than the last one begins it, and replaces entries with an epoch or a
    start that is not lower. A batch of an older format deletes all entries. `rule` says from which
    release on.
    """
    if batch.magic < v2.MAGIC:
        return [] if rule.forgets_epochs else epochs
    if batch.leader_epoch < 0:
        return epochs
    new = EpochStart(batch.leader_epoch, batch.base_offset)
    last = epochs[-1] if epochs else None
    if last and new.epoch == last.epoch and new.start_offset >= last.start_offset:
        return epochs
    if not rule.falling_epochs:
        rises = not last or (new.epoch > last.epoch and new.start_offset >= last.start_offset)
        return [*epochs, new] if rises else epochs
    kept = len(epochs)
    while kept and (
        epochs[kept - 1].epoch >= new.epoch or epochs[kept - 1].start_offset >= new.start_offset
    ):
        kept -= 1
    return [*epochs[:kept], new]


def until(epochs: list[EpochStart], end: int) -> list[EpochStart]:
    """Return the epochs that begin below the log end."""
    return [one for one in epochs if one.start_offset < end]


def after(epochs: list[EpochStart], start: int) -> list[EpochStart]:
    """Return the epochs from the log start on. The one that holds there begins there."""
    below = [one for one in epochs if one.start_offset <= start]
    above = [one for one in epochs if one.start_offset > start]
    return [EpochStart(below[-1].epoch, start), *above] if below else above
