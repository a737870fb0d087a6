"""The proof after an apply: every file that a plan wrote, read again from the disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from fanout import spread
from looking import look
from pyspark.sql import SparkSession

from kafkats.errors import storage
from kafkats.operations.verify import VerifyOptions
from kafkats.paths import LOG, TIME_INDEX
from kafkats.plan import Plan
from kafkats.units import Unit

NAMED: Final = 20
"""Wrong files that a result names."""
_FOUND: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("file", pa.string()),
    ("sha256", pa.string()),  # "": there is no such file
])


def prove(
    spark: SparkSession, plan: Plan, units: Sequence[Unit], options: VerifyOptions
) -> tuple[pa.Table, Mapping[str, Any]]:
    """Look at the plan's segments once more: report.SEGMENTS, and how many of the plan's files are as they should be.

    An index must equal a rebuild from the log as it is now; a log must be the one that was approved, to the byte; what was to
    be removed must be gone.
    """
    writes = plan.items.filter(pc.not_equal(plan.items["action"], "blocked")).to_pylist()
    wanted = {(row["log_dir"], row["partition_dir"], row["base_offset"]) for row in writes}
    chosen = [unit for unit in units if (unit.log_dir, unit.partition_dir, unit.base_offset) in wanted]
    segments = look(spark, chosen, options)
    states = {(row["log_dir"], row["partition_dir"], row["base_offset"]): row for row in segments.to_pylist()}
    hashed = _hash(spark, [row for row in writes if _is_log(row) or row["action"] == "remove"])
    wrong = [_path(row) for row in writes if not _right(row, states, hashed)]
    for path in wrong:
        print(f"not as it should be: {path}")
    return segments, {"files": len(writes), "equal": len(writes) - len(wrong), "not_equal": wrong[:NAMED]}


def _right(row: Mapping[str, Any], states: Mapping[Any, Mapping[str, Any]], hashed: Mapping[str, str]) -> bool:
    if _is_log(row) or row["action"] == "remove":
        return hashed[_path(row)] == ("" if row["action"] == "remove" else row["after_sha256"])
    seen = states.get((row["log_dir"], row["partition_dir"], row["base_offset"]))
    column = "time_index" if row["file"].endswith(TIME_INDEX) else "offset_index"
    return seen is not None and seen[column] == "equal"


def _hash(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    def do(row: Mapping[str, Any]) -> pa.RecordBatch:
        path, sha256 = Path(row["log_dir"], row["partition_dir"], row["file"]), ""
        with storage(path, "reading what was written"):
            if path.exists():
                with path.open("rb") as file:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return pa.RecordBatch.from_pylist([{**row, "sha256": sha256}], schema=_FOUND)

    found = spread(spark, "prove", rows, do, _FOUND, size=lambda row: max(row["after_bytes"], 0))
    return {_path(row): row["sha256"] for row in found.to_pylist()}


def _is_log(row: Mapping[str, Any]) -> bool:
    return bool(row["file"].endswith(LOG))


def _path(row: Mapping[str, Any]) -> str:
    return f"{row['log_dir']}/{row['partition_dir']}/{row['file']}"
