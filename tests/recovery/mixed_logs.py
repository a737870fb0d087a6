"""Small partition directories: one letter per batch of one record, magic 0 to 2, or 5 as after a flipped bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkats import paths
from kafkats.formats import v0, v1, v2
from kafkats.formats.framing import MAGIC_AT
from kafkats.formats.model import Record, TimestampType


def write_log(
    directory: Path,
    segments: Sequence[str],
    *,
    epochs: Sequence[int] = (),
    indexes: bool = True,
    suffix: str = "",
) -> int:
    """Write `segments` with empty indexes, and return the log end. `epochs` are those of all batches in order, else 0."""
    directory.mkdir(parents=True, exist_ok=True)
    offset = 0
    for magics in segments:
        log = directory / f"{paths.segment_file(offset, paths.LOG)}{suffix}"
        kinds = (paths.OFFSET_INDEX, paths.TIME_INDEX) if indexes else ()
        for kind in kinds:
            (directory / f"{paths.segment_file(offset, kind)}{suffix}").touch()
        data = b""
        for magic in magics:
            data += _batch(int(magic), offset, epochs[offset] if epochs else 0)
            offset += 1
        log.write_bytes(data)
    return offset


def _batch(magic: int, offset: int, epoch: int) -> bytes:
    records = [Record(offset, 1_700_000_000_000, TimestampType.CREATE_TIME, b"k", b"v")]
    if magic < v2.MAGIC:
        return v1.encode_batch(records) if magic else v0.encode_batch(records)
    batch = bytearray(v2.encode_batch(records, leader_epoch=epoch))
    batch[MAGIC_AT] = magic
    return bytes(batch)
