"""The empty segment at the log end, and the recovery point that is raised to it.

A broker that starts without a clean-shutdown marker reads all of the segment that contains the
recovery point, even where everything was flushed. If an empty segment begins at the recovery point,
that is the one it reads. The clean-shutdown marker is never written: it would also tell the
controller that nothing was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kafkats import paths
from kafkats.generations import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.hashes import EMPTY_SHA256
from kafkats.logdir.identity import listed_row
from kafkats.logdir.partition import FileFacts
from kafkats.logdir.workarea import ROOT
from kafkats.plans.plan import item_of
from kafkats.plans.rows import Item
from kafkats.recovery.decide import Decision


def empty_segment(
    decision: Decision, there: Mapping[str, FileFacts], rule: str, *, newer: bool
) -> Iterator[Item]:
    """Yield the items of the empty segment at the log end.

    `there` has the partition's files by name: of a dropped segment that begins there, or indexes
    without a log. `newer`: brokers of 0.11 or later wrote here. Brokers before 0.10.1 have no time
    indexes.
    """
    last = decision.kept[-1]
    kinds = (
        paths.LOG,
        paths.OFFSET_INDEX,
        *((paths.TIME_INDEX,) if last["timeindex"] or newer else ()),
    )
    for kind in kinds:
        name = paths.segment_file(decision.log_end, kind)
        before = listed_row(there[name]) if name in there else None
        item = item_of(last, name, rule, "replace" if before else "add", _EMPTY)
        yield item | {
            "base_offset": decision.log_end,
            "next_base_offset": -1,
            "before": before,
            "after_bytes": 0,
            "after_sha256": EMPTY_SHA256,
        }


_EMPTY: Final = "an empty segment at the log end"


def recovery_point(decision: Decision, before: int, rule: str) -> Item:
    """Return the item that raises (or lowers) a partition's recovery point to the log end."""
    last = decision.kept[-1]
    was = "none" if before < 0 else str(before)
    change = "stays" if before == decision.log_end else f"{was} becomes"
    reason = f"recovery point {change} {decision.log_end}, the log end"
    return item_of(last, paths.RECOVERY_POINT, rule, "update", reason) | {
        "base_offset": decision.log_end,
        "next_base_offset": -1,
        "log_valid_bytes": 0,
    }


def checkpoint_item(log_dir: str, partitions: Sequence[str], rule: str) -> Item:
    """Return the item for a log directory's checkpoint of the recovery points of `partitions`."""
    more = f", and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return {
        "log_dir": log_dir,
        "partition_dir": ROOT,
        "directory_ctime_ns": 0,
        "base_offset": 0,
        "next_base_offset": -1,
        "file": paths.RECOVERY_POINT,
        "action": "update",
        "reason": f"the recovery point of {partitions[0]}{more}, after all partitions",
        "before": None,
        "log": None,
        "log_valid_bytes": 0,
        "after_bytes": -1,
        "after_sha256": "",
        "rule": rule,
        "index_interval_bytes": INDEX_INTERVAL_BYTES,
        "segment_index_bytes": SEGMENT_INDEX_BYTES,
        "settings_from": "default",
    }
