"""Mend a log with whole batches of a magic that no release knows: write magic 2 in their place.

A batch's checksum does not cover its magic byte. Brokers read every magic above 2 as magic 2 when
they load a log, and keep the batch (FileLogInputStream.nextBatch). Followers and consumers check
the magic of what they fetch, and fail (ByteBufferLogInputStream.nextBatchSize). Only the log is
mended here: the next plan recovers the partition with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats.counts import counted
from kafkats.errors import Changed, storage
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT
from kafkats.hashes import Hash
from kafkats.logdir.identity import FileIdentity, identify, identity_of
from kafkats.logdir.lease import Lease
from kafkats.logdir.staging import Replace
from kafkats.plans.plan import item_of
from kafkats.plans.rows import Item, SegmentRow, source_log
from kafkats.recovery.decide import log_bytes, log_of
from kafkats.segment.broker_walk import unknown_magics
from kafkats.segment.copying import copy_range
from kafkats.segment.reader import open_segment, open_source

_MAGIC: bytes = bytes([v2.MAGIC])


def mended_log(directory: Path, row: SegmentRow, rule: str) -> Item:
    """Return the item that replaces a segment's log by a mended copy.

    `row` (facts.SEGMENTS) is the segment's. Raises Vanished, StorageFailed.
    """
    places, sha256 = _mended(directory / log_of(row), row["base_offset"])
    reason = (
        f"magic 2 is written into {counted(len(places), 'batch')} with a magic byte above 2, the"
        f" first at byte {places[0]}; plan again to recover the partition"
    )
    return item_of(row, log_of(row), rule, "replace", reason) | {
        "before": row["log"],
        "log_valid_bytes": log_bytes(row),
        "after_bytes": log_bytes(row),
        "after_sha256": sha256,
    }


def stage_mended(log: Path, item: Item, lease: Lease) -> Replace:
    """Stage the mended copy of a log.

    Raises Changed if the log is not as planned, StorageFailed.
    """
    was = FileIdentity(**source_log(item))
    if identify(log) != was or item["after_bytes"] != was.size:
        raise Changed("the log has changed since the plan: make a new plan", path=log)
    places, sha256 = _mended(log, item["base_offset"])
    if sha256 != item["after_sha256"]:
        raise Changed("the log has changed since the plan: make a new plan", path=log)
    staged = lease.staged(item["file"])
    copy_range(log, 0, was.size, staged)
    with storage(staged, "writing magic 2"), staged.open("r+b", buffering=0) as file:
        for position in places:
            file.seek(position + MAGIC_AT)
            file.write(_MAGIC)
    return Replace(item["file"], staged, identity_of(item["before"]), sha256, was.mtime_ns)


def _mended(log: Path, base_offset: int) -> tuple[Sequence[int], str]:
    """Return the positions of the batches to mend, and the SHA-256 of the mended log."""
    with open_source(log, mapped=True) as source:
        places = [position for position, _ in unknown_magics(source, base_offset)]
    mended = Hash("sha256")
    with open_segment(log) as view:
        begin = 0
        for position in places:
            mended.update(view[begin : position + MAGIC_AT].data)
            mended.update(_MAGIC)
            begin = position + MAGIC_AT + 1
        mended.update(view[begin:].data)
    return places, mended.text()
