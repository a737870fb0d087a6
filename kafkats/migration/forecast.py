"""Forecast the result of converting stored segments, by converting without writing.

One row per segment gives its new size, what would be lost, and whether it can be converted. A
directory's own rows name small files to remove, and what blocks the whole partition.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import pyarrow as pa

from kafkats import paths
from kafkats.compression import Codec
from kafkats.errors import BadInput, KafkatsError, UsageError
from kafkats.formats.build import Target
from kafkats.generations import COMPRESSION_TYPES, LOSSES, PRODUCER
from kafkats.logdir.identity import FileRow, listed_row
from kafkats.logdir.partition import UNFINISHED, FileFacts, scan_partition, unfinished_swaps
from kafkats.logdir.snapshot import read_snapshot
from kafkats.plans.columns import batch_of, schema_of
from kafkats.plans.dialect_hook import migration_of
from kafkats.plans.rows import SegmentKey
from kafkats.plans.units import Unit
from kafkats.segment.convert import convert_source
from kafkats.segment.reader import open_source

_LOST: Final = pa.struct([(f"loses_{loss}", pa.int64()) for loss in LOSSES])


class ForecastRow(NamedTuple):
    """One segment, or with base_offset -1 the directory as a whole."""

    log_dir: str
    partition_dir: str
    base_offset: int
    file: str
    action: str  # convert, keep (nothing to convert), remove (a small file), blocked
    reason: str = ""  # why it is blocked or removed
    before: FileRow | None = None  # of a file to remove; the facts have a .log's
    before_bytes: int = 0
    after_bytes: int = 0
    after_sha256: str = ""  # a hash of kafkats.hashes
    batches_before: int = 0
    batches_after: int = 0
    records: int = 0
    kept_last: bool = False  # the log's last batch stays magic 2, to keep the log end offset
    losses: Annotated[Mapping[str, int], _LOST] = dict.fromkeys(LOSSES, 0)  # what is lost, by kind
    seconds: float = 0.0  # the time of the forecast; an apply takes about as long

    @property
    def key(self) -> SegmentKey:
        return SegmentKey(self.log_dir, self.partition_dir, self.base_offset)


FORECAST: Final = pa.schema([
    column
    for one in schema_of(ForecastRow)
    for column in (one.type if one.type == _LOST else (one,))
])
"""The columns of ForecastRow; each loss has one."""


def forecast_rows(forecast: pa.Table) -> list[ForecastRow]:
    """Return the rows of a table of FORECAST."""
    losses = [
        {loss: row[f"loses_{loss}"] for loss in LOSSES}
        for row in forecast.select([f"loses_{loss}" for loss in LOSSES]).to_pylist()
    ]
    names = [name for name in ForecastRow._fields if name != "losses"]
    rows = forecast.select(names).to_pylist()
    return [ForecastRow(**row, losses=lost) for row, lost in zip(rows, losses, strict=True)]


def target_of(
    to_magic: int, compression_type: str, to: str | None = None, source: str | None = None
) -> Target:
    """Return the target format; `to` and `source` are the dialects of both sides.

    Raises UsageError for a magic or compression.type that Kafka does not know, or that do not go
    together.
    """
    if to_magic not in (0, 1, 2) or compression_type not in COMPRESSION_TYPES:
        raise UsageError(
            f"no format has magic {to_magic} and compression.type {compression_type!r}"
        )
    if to_magic < 2 and compression_type == "zstd":
        raise UsageError("zstd needs magic 2")
    codec = None if compression_type == PRODUCER else Codec[compression_type.upper()]
    return Target(to_magic, codec, to, source)


def forecast_unit(unit: Unit, target: Target) -> pa.RecordBatch:
    """Return rows of FORECAST: the result for one segment, or a directory's files to remove.

    Writes nothing. A segment that cannot be converted is a blocked row.
    """
    rows = _directory_rows(unit, target) if unit.base_offset < 0 else [_segment_row(unit, target)]
    return batch_of(
        [
            {**row._asdict(), **{f"loses_{loss}": count for loss, count in row.losses.items()}}
            for row in rows
        ],
        FORECAST,
    )


def _row(unit: Unit, file: str, action: str, reason: str = "") -> ForecastRow:
    return ForecastRow(unit.log_dir, unit.partition_dir, unit.base_offset, file, action, reason)


def _segment_row(unit: Unit, target: Target) -> ForecastRow:
    dialect = target.dialect or target.source
    convert = migration_of(dialect).convert if dialect else convert_source
    log = unit.log.name
    if unit.active and not unit.clean:
        return _row(
            unit,
            log,
            "blocked",
            "the active segment, and no clean-shutdown marker: a broker has yet to recover it",
        )
    began = time.monotonic()
    try:
        with open_source(unit.log, mapped=not unit.live) as source:
            result = convert(source, unit.base_offset, target, None, log_end=unit.active)
    except BadInput as e:
        where = "" if e.position is None else f" at byte {e.position}"
        return _row(unit, log, "blocked", f"cannot be converted{where}: {e.reason}")
    except KafkatsError as e:
        return _row(unit, log, "blocked", str(e))
    return _row(unit, log, "convert" if result.changed else "keep")._replace(
        before_bytes=source.size,
        after_bytes=result.bytes,
        after_sha256=result.hash,
        batches_before=result.batches_in,
        batches_after=result.batches_out,
        records=result.records,
        kept_last=result.kept_last,
        losses={loss: result.losses.get(loss, 0) for loss in LOSSES},
        seconds=time.monotonic() - began,
    )


def _directory_rows(unit: Unit, target: Target) -> list[ForecastRow]:
    if not unit.partition_dir:
        return []
    try:
        partition = scan_partition(Path(unit.log_dir, unit.partition_dir))
        if unfinished := unfinished_swaps(f.file for f in partition.findings):
            return [_row(unit, "", "blocked", f"{unfinished[0]}: {UNFINISHED}")]
        return list(_removals(unit, partition.files.values())) if target.magic < 2 else []
    except KafkatsError as e:
        return [_row(unit, "", "blocked", str(e))]


def _removals(unit: Unit, files: Iterable[FileFacts]) -> Iterator[ForecastRow]:
    """Yield the files to remove below magic 2, which has neither producers nor transactions.

    A broker without these files starts with none.
    """
    for file in sorted(files):
        name = paths.parse_segment_file(file.name)
        if name is None or name.suffix or not file.size:
            continue
        if name.kind == paths.TXN_INDEX:
            reason = "aborted transactions, which this format does not know"
        elif name.kind == paths.SNAPSHOT and _has_producers(
            Path(unit.log_dir, unit.partition_dir, file.name)
        ):
            reason = "producers, which this format does not know"
        else:
            continue
        yield _row(unit, file.name, "remove", reason)._replace(
            base_offset=name.base_offset, before=listed_row(file)
        )


def _has_producers(snapshot: Path) -> bool:
    try:
        return bool(read_snapshot(snapshot))
    except BadInput:
        return True  # a broker rebuilds a damaged one
