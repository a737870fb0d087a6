"""Rows of facts.SEGMENTS that have findings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkats.findings import KINDS
from kafkats.plans.facts import FINDING, SEGMENTS


def finding(kind: str, file: str) -> dict[str, Any]:
    return dict.fromkeys(FINDING.names, None) | {
        "kind": kind,
        "severity": KINDS[kind][0],
        "file": file,
    }


def segments(*rows: tuple[str, int, list[dict[str, Any]]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            dict.fromkeys(SEGMENTS.names, None)
            | {
                "log_dir": "/data",
                "partition_dir": partition,
                "base_offset": base,
                "findings": findings,
            }
            for partition, base, findings in rows
        ],
        schema=SEGMENTS,
    )


TABLE = segments(
    ("b-0", 100, []),
    ("b-0", 20, [finding("sound", "x.timeindex"), finding("below-maximum", "x.timeindex")]),
    (
        "a-0",
        0,
        [
            finding("bad-crc", "x.log"),
            finding("missing-index", "x.timeindex"),
            finding("empty-index", "x.index"),
        ],
    ),
    ("a-0", -1, [finding("stray", "lost+found")]),
)
