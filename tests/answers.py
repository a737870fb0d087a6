"""Answers for log directories in one process, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from kafkats import search
from kafkats.lookup.partitions import LOOKUP, LookupOptions, lookup_partitions, lookup_unit


def lookup(
    log_dirs: Iterable[str | Path],
    targets: Sequence[search.Target],
    options: LookupOptions | None = None,
    *,
    topics: str = "*",
) -> pa.Table:
    """Return rows of LOOKUP for all partitions, by partition and then target."""
    batches = [
        lookup_unit(unit, targets, options) for unit in lookup_partitions(log_dirs, topics=topics)
    ]
    return pa.Table.from_batches(batches, schema=LOOKUP)
