"""Time indexes that a broker of KIP-33's text creates when it starts.

    missing, inactive   created with the entry (mtime of the log -> next segment's base offset)
    empty, inactive     gets the entry (mtime of the log -> the segment's own base offset)
    missing, active     created, and left empty

The text names both offsets: the first in its section on startup, the second in its migration plan.
Shipped brokers leave such an index empty and compare the log's mtime instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from kafkats import paths
from kafkats.index import time_index
from kafkats_model.broker import files


def write_first_entries(
    directory: Path, bases: Sequence[int], created: Collection[str], now_ms: int
) -> None:
    """Give every empty time index but the last segment's its entry. Raises StorageFailed.

    `created` names the files that this start has created.
    """
    for base, following in pairwise(bases):
        name = paths.segment_file(base, paths.TIME_INDEX)
        if files.size_of(directory / name) == 0:
            mtime_ms = files.mtime_of(directory / paths.segment_file(base, paths.LOG))
            offset = following - base if name in created else 0
            files.write(directory / name, time_index.STRUCT.pack(mtime_ms, offset), now_ms)
