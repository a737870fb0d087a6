"""The predicted start of stopped brokers, from a report of recover_log_dirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from pydantic import BaseModel

from kafkats.evidence.borders import behind_high_watermark
from kafkats_airflow.reading.files import Unreadable, model
from kafkats_airflow.ui.reading.tables import table_of

RECOVERY: Final = "recovery.parquet"
_COLUMNS: Final = (
    "log_dir", "partition_dir", "high_watermark", "log_end", "segments", "bytes", "cut_bytes",
    "dropped_segments", "dropped_bytes", "blocked",
)  # fmt: skip
_TEXTS: Final = {
    "log_dir": pa.dictionary(pa.int32(), pa.string()),
    "partition_dir": pa.string(),
    "blocked": pa.string(),
}
_TYPES: Final = pa.schema([(name, _TEXTS.get(name, pa.int64())) for name in _COLUMNS])
_MOST_ROWS: Final = 500


class Partition(NamedTuple):
    """A partition that a broker would recover, or that the plan has refused (`blocked`).

    `behind`: offsets between the log end after the recovery and the high watermark.
    """

    log_dir: str
    partition_dir: str
    segments: int
    bytes: int
    cut_bytes: int
    dropped_segments: int
    dropped_bytes: int
    behind: int
    blocked: str

    @property
    def lost_bytes(self) -> int:
        """Bytes that a start cuts off or drops."""
        return self.cut_bytes + self.dropped_bytes


class Start(NamedTuple):
    """The sums of a log directory."""

    log_dir: str
    partitions: int
    segments: int
    bytes: int
    lost_bytes: int
    behind: int
    blocked: int


class LogDir(BaseModel):
    """A log directory of a broker that preflight looked at."""

    log_dir: str


class Preflight(BaseModel):
    """The words and sums of preflight on the start of one broker. Earlier versions wrote no
    `said`.
    """

    kafka: str
    outcome: str
    said: list[str] = []
    log_dirs: list[LogDir] = []
    recovered_segments: int = 0
    recovered_bytes: int = 0
    cut_bytes: int = 0
    deleted_bytes: int = 0


class _Report(BaseModel):
    starts: list[Preflight] = []


def preflights_of(folder: Path) -> list[Preflight] | Unreadable:
    """Return what preflight said of each broker before the run; nothing if it was not asked."""
    found = model(folder / "report.json", _Report)
    if isinstance(found, Unreadable):
        return found
    return [one for one in found.starts if one.said] if found else []


def partitions_of(folder: Path) -> list[Partition] | Unreadable | None:
    """Return the partitions of a report, those in most trouble first; None if it has none."""
    table = table_of(folder / RECOVERY, _COLUMNS, coded=("log_dir",), types=_TYPES)
    if not isinstance(table, pa.Table):
        return table
    rows = [
        Partition(
            **{name: row[name] for name in Partition._fields if name != "behind"},
            behind=behind_high_watermark(row["log_end"], row["high_watermark"]),
        )
        for row in table.to_pylist()
    ]
    rows.sort(key=lambda one: (not one.blocked, -one.behind, -one.lost_bytes, -one.bytes, one))
    return rows


def starts_of(rows: list[Partition]) -> list[Start]:
    """Return the sums of each log directory, those in most trouble first."""
    found: dict[str, list[Partition]] = {}
    for row in rows:
        found.setdefault(row.log_dir, []).append(row)
    starts = [
        Start(
            log_dir,
            len(some),
            sum(one.segments for one in some),
            sum(one.bytes for one in some),
            sum(one.lost_bytes for one in some),
            sum(one.behind > 0 for one in some),
            sum(bool(one.blocked) for one in some),
        )
        for log_dir, some in found.items()
    ]
    return sorted(starts, key=lambda one: (-one.blocked, -one.behind, -one.lost_bytes, one.log_dir))


class Sums(NamedTuple):
    """Segments and bytes that a start reads, and bytes that it cuts off or deletes."""

    segments: int
    bytes: int
    lost_bytes: int


class Compared(NamedTuple):
    """The sums of preflight beside those of the page, and what only preflight counts (`more`)."""

    kafka: str
    log_dirs: list[str]
    preflight: Sums
    page: Sums
    more: Sums


def compared(said: Sequence[Preflight], starts: Sequence[Start]) -> list[Compared]:
    """Return both sums for each broker whose log directories are all on the page."""
    of, found = {one.log_dir: one for one in starts}, []
    for one in said:
        log_dirs = [place.log_dir for place in one.log_dirs]
        if log_dirs and all(log_dir in of for log_dir in log_dirs):
            told = Sums(
                one.recovered_segments, one.recovered_bytes, one.cut_bytes + one.deleted_bytes
            )
            mine = [of[log_dir] for log_dir in log_dirs]
            page = Sums(*(sum(getattr(start, name) for start in mine) for name in Sums._fields))
            more = Sums(*(a - b for a, b in zip(told, page, strict=True)))
            found.append(Compared(one.kafka, log_dirs, told, page, more))
    return found


def shown(rows: list[Partition]) -> list[Partition]:
    """Return the partitions with something to do, as many as a page shows."""
    return [one for one in rows if one.segments or one.lost_bytes or one.blocked][:_MOST_ROWS]
