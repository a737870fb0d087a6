"""Walk over a .log once: load windows for the kernel, and collect its results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.formats.model import TimestampType
from kafkats.kernels import walk_state as k
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.walk import walk as kernel
from kafkats.segment.facts import Cell, SegmentFacts, StopReason
from kafkats.segment.reader import Source

Points = NDArray[np.int64]
"""Index points: shape (n, 5), one row per index entry.

Columns: position, first offset, last offset, largest timestamp so far, offset of that timestamp.
"""

POINTS_AT_ONCE: Final = 16384
NO_INTERVAL: Final = 2**62

_STOPS: Final = (
    None,
    StopReason.TORN_TAIL,
    StopReason.BAD_LENGTH,
    StopReason.BAD_MAGIC,
    StopReason.BAD_CRC,
    StopReason.BAD_OFFSET,
)


class Merged(NamedTuple):
    """Existing index entries: how many were checked, how many are wrong, the first wrong one."""

    passed: int
    wrong: int
    first_wrong: int


class Walked(NamedTuple):
    """The result of one pass."""

    facts: SegmentFacts
    offset_entries: Merged
    time_entries: Merged
    cut_to: int
    """Size of the file at the end of the pass; smaller if it was truncated meanwhile."""
    cells: tuple[Cell, ...]
    """The census of the batches, in the order magic, codec, timestamp type; no empty cells."""
    fingerprint: int
    """64-bit hash over offset, size, checksum and magic of every batch; see `kernels.walk`."""


def walk_points(
    source: Source,
    base_offset: int,
    *,
    interval: int,
    start: int = 0,
    end: int | None = None,
    checksums: bool = True,
) -> tuple[Points, Walked]:
    """Walk, and also return the points of all batches that get an index entry, shape (n, 5)."""
    parts: list[Points] = [np.empty((0, 5), np.int64)]
    walked = walk(
        source,
        base_offset,
        interval=interval,
        start=start,
        end=end,
        checksums=checksums,
        on_points=lambda points: parts.append(points.copy()),
    )
    return np.concatenate(parts), walked


def walk(
    source: Source,
    base_offset: int,
    *,
    interval: int = NO_INTERVAL,
    offset_entries: bytes = b"",
    time_entries: bytes = b"",
    start: int = 0,
    end: int | None = None,
    checksums: bool = True,
    on_points: Callable[[Points], None] | None = None,
) -> Walked:
    """Walk from `start` to `end` (default: end of the file) or the first bad batch.

    This is what LogSegment.recover does. `offset_entries` and `time_entries` are whole, increasing
    entries of existing indexes; each entry up to the end of the walk is checked against the log.
    `on_points` receives the points of the batches that get an index entry, in chunks. Raises
    Vanished, StorageFailed.
    """
    state, cells = k.new_state(), k.new_table()
    points = np.empty((POINTS_AT_ONCE if on_points else 1, k.POINT_COLUMNS), np.int64)
    state[k.BASE_OFFSET], state[k.INTERVAL] = base_offset, interval if on_points else NO_INTERVAL
    if checksums:
        state[k.CRC32], state[k.CRC32C] = crc_addresses()
    state[k.OFFSET_ENTRIES] = _address(offset_entries)
    state[k.OFFSET_COUNT] = len(offset_entries) // 8
    state[k.TIME_ENTRIES], state[k.TIME_COUNT] = _address(time_entries), len(time_entries) // 12
    state[k.POSITION] = start
    end = source.size if end is None else min(end, source.size)
    if end > start:
        _load(state, source, start, 18, end)
    while (why := kernel(state, cells, points)) != k.STOPPED:
        if why == k.POINTS_FULL and on_points:
            on_points(points)
            state[k.POINTS] = 0
            continue
        needed = int(state[k.NEEDED]) if why == k.NEED_BYTES else 18
        _load(state, source, int(state[k.POSITION]), needed, end)
    if on_points and state[k.POINTS]:
        on_points(points[: state[k.POINTS]])
    found = tuple(_cells(cells))
    return Walked(
        _facts(state, found, source, base_offset, start, checksums),
        Merged(
            int(state[k.OFFSET_NEXT]), int(state[k.OFFSET_WRONG]), int(state[k.OFFSET_WRONG_FIRST])
        ),
        Merged(int(state[k.TIME_NEXT]), int(state[k.TIME_WRONG]), int(state[k.TIME_WRONG_FIRST])),
        int(state[k.FILE_END]),
        found,
        int(state[k.FINGERPRINT]) & (2**64 - 1),
    )


def _cells(table: NDArray[np.int64]) -> Iterator[Cell]:
    for at in table[:, k.CELL_BATCHES].nonzero()[0].tolist():
        magic, codec, kind = at // (k.CODECS * k.TYPES), at // k.TYPES % k.CODECS, at % k.TYPES
        row = table[at].tolist()
        yield Cell(
            magic,
            codec,
            TimestampType(kind - 1),
            bytes=row[k.CELL_BYTES],
            batches=row[k.CELL_BATCHES],
            records=-1 if magic < 2 and codec else row[k.CELL_RECORDS],
            control_batches=row[k.CELL_CONTROL],
            transactional_batches=row[k.CELL_TRANSACTIONAL],
            producer_batches=row[k.CELL_PRODUCER],
            delete_horizon_batches=row[k.CELL_DELETE_HORIZON],
        )


def _load(state: NDArray[np.int64], source: Source, position: int, needed: int, end: int) -> None:
    address, origin, loaded, limit, file_end = source.window(position, needed)
    state[:5] = address, origin, min(loaded, end), min(limit, end), min(file_end, end)


def _address(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def _facts(
    state: NDArray[np.int64],
    cells: Sequence[Cell],
    source: Source,
    base_offset: int,
    start: int,
    checksums: bool,
) -> SegmentFacts:
    s = state.tolist()
    batches = s[k.BATCHES]
    m, c = [0] * k.MAGICS, [0] * k.CODECS
    wrappers = records = control = transactional = horizons = 0
    for cell in cells:
        m[cell.magic] += cell.bytes
        c[cell.codec] += cell.batches
        wrappers += cell.batches if cell.magic < 2 and cell.codec else 0
        records += cell.records
        control += cell.control_batches
        transactional += cell.transactional_batches
        horizons += cell.delete_horizon_batches
    stop = _STOPS[s[k.STOP]]
    position = s[k.POSITION]
    if (
        stop in {StopReason.TORN_TAIL, StopReason.BAD_LENGTH}
        and s[k.FILE_END] == source.size
        and source.only_zeros(position)
    ):
        stop = StopReason.ZERO_TAIL
    return SegmentFacts(
        base_offset=base_offset,
        depth="full" if start == 0 and checksums else "tail",
        log_bytes=source.size,
        valid_bytes=position,
        stop=stop,
        stop_position=position,
        batches=batches,
        records=-1 if wrappers else records,
        first_offset=max(s[k.FIRST_OFFSET], -1),
        last_offset=s[k.LAST_OFFSET],
        next_offset=s[k.LAST_OFFSET] + 1 if batches else base_offset,
        first_timestamp=s[k.FIRST_TIMESTAMP],
        max_timestamp=s[k.MAX_TIMESTAMP],
        offset_of_max_timestamp=s[k.MAX_TIMESTAMP_OFFSET] if s[k.MAX_TIMESTAMP] > -1 else -1,
        magics=(m[0], m[1], m[2]),
        codecs=(c[0], c[1], c[2], c[3], c[4]),
        control_batches=control,
        transactional_batches=transactional,
        delete_horizon_batches=horizons,
        highest_leader_epoch=s[k.HIGHEST_EPOCH],
        not_increasing_position=s[k.NOT_INCREASING],
        out_of_range_position=s[k.OUT_OF_RANGE],
        bad_header_position=s[k.BAD_HEADER],
        unknown_codec_position=s[k.UNKNOWN_CODEC],
    )
