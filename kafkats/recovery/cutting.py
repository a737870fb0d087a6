"""Cut torn tails in place without undo, where a disk has no room for a copy of them.

The one exception to "a plan that cannot be undone is not applied", for a recovery before a start:
only bytes that the broker's own start would cut, and that hold no whole batch. A crash in between
leaves what a broker recovers: no recovery point is raised here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.compute as pc

from kafkats.errors import storage
from kafkats.logdir.disk import DISK
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.plans.operation import Planned
from kafkats.plans.rows import Item, PartitionKey, item_rows, partition_of
from kafkats.segment.facts import StopReason

HARMLESS: Final = (StopReason.TORN_TAIL, StopReason.ZERO_TAIL)
"""Tails without a whole batch."""


def cut_tails(planned: Planned) -> dict[PartitionKey, int]:
    """Cut the tails that a plan cuts in place and a broker would cut, too. Return their bytes.

    A log that has changed since is left alone. Call it with the log directories locked. Raises
    StorageFailed.
    """
    cut: dict[PartitionKey, int] = {}
    for item in _tails(planned):
        log, size = Path(item["log_dir"], item["partition_dir"], item["file"]), item["after_bytes"]
        was = FileIdentity(**item["before"]) if item["before"] else None
        if was is None or identify(log) != was or size >= was.size:
            continue
        with storage(log, "cutting its torn tail"):
            DISK.truncate(log, size)
            os.utime(log, ns=(was.mtime_ns, was.mtime_ns))
            DISK.sync_file(log)
        key = partition_of(item)
        cut[key] = cut.get(key, 0) + was.size - size
    return cut


def _tails(planned: Planned) -> Iterator[Item]:
    """Yield the items that cut only a torn tail of a segment that the next start recovers."""
    columns = ["log_dir", "partition_dir", "base_offset", "stop", "recovery"]
    harmless = {
        (row["log_dir"], row["partition_dir"], row["base_offset"])
        for row in planned.segments.select(columns).to_pylist()
        if row["recovery"] and row["stop"] in HARMLESS
    }
    items = planned.plan.items
    for item in item_rows(items.filter(pc.equal(items["action"], "truncate"))):
        if (item["log_dir"], item["partition_dir"], item["base_offset"]) in harmless:
            yield item
