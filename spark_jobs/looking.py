"""What the jobs that read share: look at every segment on the workers, keep what was seen in a report folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from fanout import spread
from pyspark.sql import SparkSession

from kafkats.operations.census import CELL, CENSUS, census_unit, summarize
from kafkats.operations.inventory import inventory_units
from kafkats.operations.lookup import PartitionUnit
from kafkats.operations.verify import VerifyOptions, verify_unit
from kafkats.report import SEGMENTS, make_folder, summary, write_report, write_table
from kafkats.units import Unit

ORDER = [("log_dir", "ascending"), ("partition_dir", "ascending"), ("base_offset", "ascending")]
CHUNK = 100
"""Segments that one call looks at, where only their ends are: each is read in a fraction of a millisecond."""
END_BYTES = 16 * 1024
"""What is read of a segment's files then."""


def look(spark: SparkSession, units: Sequence[Unit], options: VerifyOptions) -> pa.Table:
    """Verify the units; report.SEGMENTS, sorted."""
    table = spread(spark, "verify", units, partial(verify_unit, options=options), SEGMENTS, size=lambda u: u.bytes)
    return table.sort_by(ORDER)


def look_at_ends(spark: SparkSession, units: Sequence[Unit]) -> pa.Table:
    """Read the ends of logs and indexes: report.SEGMENTS of depth tail, sorted."""
    chunks = [tuple(units[n : n + CHUNK]) for n in range(0, len(units), CHUNK)]
    table = spread(spark, "inventory", chunks, inventory_units, SEGMENTS, size=lambda chunk: len(chunk) * END_BYTES)
    return table.sort_by(ORDER)


def size_of(unit: PartitionUnit, suffix: str) -> int:
    """Bytes that are read, about: all files of that kind. What cannot be seen counts nothing; the search says why."""
    with suppress(OSError):
        return sum(path.stat().st_size for path in unit.path.glob(f"*{suffix}"))
    return 0


def keep(segments: pa.Table, folder: Path | None, **more: Any) -> Mapping[str, Any]:
    """The summary of what was seen; with a folder also written there, beside the rows themselves."""
    seen = summary(segments)
    if folder is not None:
        write_report(folder, segments, seen)
        more["report"] = str(folder)
    return seen | more


def look_at_formats(spark: SparkSession, units: Sequence[Unit], *, deep: bool = False) -> pa.Table:
    """What is there of which format; census.CENSUS, sorted."""
    table = spread(spark, "census", units, partial(census_unit, deep=deep), CENSUS, size=lambda u: u.bytes)
    return table.sort_by([*ORDER, *((name, "ascending") for name in CELL)])


def keep_census(census: pa.Table, folder: Path | None) -> Mapping[str, Any]:
    """Bytes and batches per magic; with a folder all rows are also written there."""
    said: dict[str, Any] = dict(summarize(census))
    if folder is not None:
        make_folder(folder, "the report")
        write_table(folder / "census.parquet", census)
        said["report"] = str(folder)
    return said
