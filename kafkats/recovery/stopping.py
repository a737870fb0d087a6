"""The files for which no broker loads a partition, also once its recovery is applied."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.logdir.partition import PartitionDir
from kafkats.plans.rows import SegmentRow
from kafkats.recovery.checkpoints import EPOCHS, read_failure
from kafkats.recovery.decide import Blocked, is_recovered, log_of
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.reading import Stops, transactions_defect
from kafkats.recovery.rules import NEWEST
from kafkats.recovery.topic_id import read_topic_id

_NOT_LOADED: Final = "a broker does not load this partition"


def refused_names(listed: PartitionDir) -> Blocked | None:
    """Return what keeps a broker from loading the directory, or the plan from reading it."""
    for finding in listed.findings:
        if finding.kind in ("stops-the-broker", "unreadable"):
            return Blocked(finding.file, f"{finding.file}: {finding.reason}")
    return None


def stops_after(
    directory: Path,
    start: PartitionStart,
    changed: Collection[str],
    rows: Sequence[SegmentRow],
) -> Blocked | None:
    """Return what keeps a broker from loading the partition though the plan is applied.

    `changed` are the files of the plan, `start` is the predicted start without it. The words are
    those of preflight for the newest release. Raises StorageFailed.
    """
    stops = stopping_file(directory, changed)
    if stops is not None:
        return stops
    for row in rows:
        file = paths.segment_file(row["base_offset"], paths.TXN_INDEX)
        if row["txnindex"] and row["txnindex"]["size"] and file not in changed:
            try:
                transactions_defect(directory / file, row["base_offset"])
            except Stops as e:
                return Blocked(file, f"{_NOT_LOADED}: {e.words}; restore it from a replica")
    if not any(map(is_recovered, rows)) and not changed and start.outcome in ("stops", "offline"):
        return Blocked(log_of(rows[-1]), f"{_NOT_LOADED}: {start.words}")
    return None


def stopping_file(directory: Path, changed: Collection[str]) -> Blocked | None:
    """Return the leader epochs or the topic id for which a broker does not load a partition.

    `changed` are files that the plan writes again. Raises StorageFailed.
    """
    epochs = None
    if paths.LEADER_EPOCH not in changed:
        epochs = read_failure(NEWEST, directory / paths.LEADER_EPOCH, EPOCHS)
    if epochs is not None:
        return Blocked(paths.LEADER_EPOCH, f"{_NOT_LOADED}: {epochs.words}")
    topic = read_topic_id(directory, NEWEST)
    if topic.outcome != "loads":
        cure = "write the topic's id into it again, as it is in the topic's other partitions"
        return Blocked(paths.PARTITION_METADATA, f"{_NOT_LOADED}: {topic.words}; {cure}")
    return None
