"""Rows of plans, and totals: what tests of plans share."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkats.plans.plan import ITEMS, sorted_items
from kafkats.plans.rows import Totals

TOTALS: Totals = {
    "files": 30,
    "blocked": 0,
    "segments": 30,
    "partitions": 3,
    "read_bytes": 0,
    "write_bytes": 0,
    "segments_seen": 30,
}


def rows_of(partition: int, count: int = 10, log_dir: str = "/data") -> pa.Table:
    rows = [item(3 * n + partition) | {"log_dir": log_dir} for n in range(count)]
    return sorted_items(pa.Table.from_pylist(rows, schema=ITEMS))


def item(number: int) -> dict[str, Any]:
    file = {"size": number, "mtime_ns": 1, "ctime_ns": 2, "inode": 3}
    return {
        "log_dir": "/data",
        "partition_dir": f"orders-{number % 3}",
        "base_offset": number,
        "next_base_offset": -1,
        "directory_ctime_ns": 1,
        "file": f"{number:020d}.timeindex",
        "action": "add" if number % 2 else "replace",
        "reason": "missing-index",
        "before": None if number % 2 else file,
        "log": file,
        "log_valid_bytes": number,
        "after_bytes": 12,
        "after_sha256": "00",
        "rule": "last-offset",
        "index_interval_bytes": 4096,
        "segment_index_bytes": 10485760,
        "settings_from": "given",
    }
