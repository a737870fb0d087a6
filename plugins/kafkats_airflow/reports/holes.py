"""Bytes of segment files that have no block on the disk, for reports (kafkats.plans.holes).

A row counts only for a file that still has the size that the plan saw: a new file has no holes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkats.paths import SEGMENT_KINDS

if TYPE_CHECKING:
    import pyarrow as pa

_SEGMENT = ("log_dir", "partition_dir", "base_offset")


def by_log_dir(holes: pa.Table, segments: pa.Table) -> Mapping[str, int]:
    """Return the bytes of the files in facts.SEGMENTS that are not on the disk."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not holes.num_rows:
        return {}
    standing = []
    for kind in SEGMENT_KINDS:
        files = segments[kind.removeprefix(".")]
        sizes = segments.select(_SEGMENT).append_column("size", pc.struct_field(files, "size"))
        mine = holes.filter(pc.ends_with(holes["file"], kind))
        standing.append(mine.join(sizes, [*_SEGMENT, "size"], join_type="left semi"))
    return _summed(pa.concat_tables(standing))


def without(rows: pa.Table, holes: pa.Table) -> pa.Table:
    """Return rows about segments whose `bytes` are those of their files, as bytes on the disk."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkats.plans.rows import grouped

    if not holes.num_rows:
        return rows
    sums = grouped(holes, _SEGMENT, [("bytes", "sum")])
    found = {tuple(row[name] for name in _SEGMENT): row["bytes_sum"] for row in sums.to_pylist()}
    keys = zip(*(rows[name].to_pylist() for name in _SEGMENT), strict=True)
    less = pa.array([found.get(key, 0) for key in keys], pa.int64())
    at = rows.schema.get_field_index("bytes")
    return rows.set_column(at, rows.schema.field(at), pc.subtract(rows["bytes"], less))


def of_kept(holes: pa.Table, kept: pa.Table) -> Mapping[str, int]:
    """Return the bytes of old files, facts.ACTIONS, that are not on the disk, by log directory."""
    if not holes.num_rows:
        return {}
    names = ["log_dir", "partition_dir", "file", "size"]
    files = kept.select(["log_dir", "partition_dir", "file", "before_bytes"]).rename_columns(names)
    return _summed(holes.join(files, names, join_type="left semi"))


def _summed(holes: pa.Table) -> dict[str, int]:
    from kafkats.plans.rows import grouped

    rows = grouped(holes, "log_dir", [("bytes", "sum")]).to_pylist()
    return {row["log_dir"]: row["bytes_sum"] for row in rows}
