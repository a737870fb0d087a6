"""Walk over a small segment in plain Python: the same state and tables as `kernels.walk.walk`.

Property tests compare the two. `plain_budget` decides which one reads a log.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.framing import MIN_LEFT, MIN_SIZE, OVERHEAD
from kafkats.formats.model import Batch, Codec
from kafkats.kernels import walk_state as k

_TORN_TAIL: Final = 1
_BAD_LENGTH: Final = 2
_BAD_MAGIC: Final = 3
_SMALLEST: Final = (14, 22, 49)
"""The smallest size field of a batch, by magic."""
_MOST_RELATIVE: Final = 2**31 - 1
_NO_OFFSET: Final = 2**63 - 1
_WORD: Final = 2**64 - 1
_ODD: Final = 0x9E3779B97F4A7C15
_UINT64: Final = struct.Struct(">Q")
_OFFSET_ENTRY: Final = struct.Struct(">iI")
_TIME_ENTRY: Final = struct.Struct(">qi")


class PlainWalk:
    """A walk over `log`, the bytes of a .log from position `start` on.

    `state` and `table` are filled as by the kernel, and `points` are its rows.
    """

    def __init__(
        self,
        state: NDArray[np.int64],
        table: NDArray[np.int64],
        offset_entries: bytes,
        time_entries: bytes,
    ) -> None:
        self._filled = state, table
        self.state: list[int] = state.tolist()  # a number of a list takes a third of the time
        self.table: list[list[int]] = table.tolist()
        self.points: list[tuple[int, int, int, int, int]] = []
        self._offsets = list(_OFFSET_ENTRY.iter_unpack(offset_entries))
        self._times = list(_TIME_ENTRY.iter_unpack(time_entries))
        self._fingerprint = 0

    def walk(self, log: bytes, start: int, *, checksums: bool) -> None:
        """Read `log` to its end or to the first bad batch."""
        s, end = self.state, 0
        s[k.FILE_END] = start + len(log)
        try:
            for batch in dispatch.batches(log, verify=False):
                s[k.STOP] = k.BAD_CRC
                if checksums:
                    dispatch.check_crc(log, batch)
                self._add(log, batch, start + batch.position)
                s[k.STOP], end = k.END, batch.end
        except CorruptBatch:
            s[k.STOP] = s[k.STOP] or k.BAD_OFFSET
        s[k.STOP] = _framing(log, end) or s[k.STOP]
        s[k.POSITION] = start + end
        s[k.FINGERPRINT] = _signed(self._fingerprint)
        state, table = self._filled
        state[:], table[:] = self.state, self.table

    def _add(self, log: bytes, batch: Batch, position: int) -> None:
        s, magic, last = self.state, batch.magic, batch.last_offset
        wrapper = magic < 2 and batch.codec != Codec.NONE
        first = batch.base_offset if magic == 2 else last
        self._count(batch, position, wrapper)
        for at in (0, 8, 13):
            mixed = self._fingerprint ^ _UINT64.unpack_from(log, batch.position + at)[0]
            mixed = mixed * _ODD & _WORD
            self._fingerprint = mixed ^ mixed >> 32
        if not s[k.BATCHES]:
            s[k.FIRST_OFFSET] = k.UNKNOWN if wrapper else first
            s[k.FIRST_TIMESTAMP] = batch.max_timestamp
        elif first <= s[k.HIGHEST_OFFSET] and s[k.NOT_INCREASING] < 0:
            s[k.NOT_INCREASING] = position
        s[k.BATCHES] += 1
        base_offset = s[k.BASE_OFFSET]
        in_range = (last - base_offset) & _WORD <= _MOST_RELATIVE
        if (not in_range or first < base_offset) and s[k.OUT_OF_RANGE] < 0:
            s[k.OUT_OF_RANGE] = position
        self._check_entries(position, last, base_offset)
        s[k.HIGHEST_OFFSET] = max(s[k.HIGHEST_OFFSET], last)
        if batch.max_timestamp > s[k.MAX_TIMESTAMP]:
            s[k.MAX_TIMESTAMP], s[k.MAX_TIMESTAMP_OFFSET] = batch.max_timestamp, last
        if position - s[k.LAST_INDEXED] > s[k.INTERVAL] and in_range:
            newest = s[k.MAX_TIMESTAMP], s[k.MAX_TIMESTAMP_OFFSET]
            self.points.append((position, k.UNKNOWN if wrapper else first, last, *newest))
            s[k.LAST_INDEXED] = position
        s[k.LAST_OFFSET], s[k.LAST_BATCH] = last, position

    def _count(self, batch: Batch, position: int, wrapper: bool) -> None:
        s, magic, codec = self.state, batch.magic, batch.codec
        cell = self.table[(magic * k.CODECS + codec) * k.TYPES + 1 + batch.timestamp_type]
        cell[k.CELL_BYTES] += batch.size
        cell[k.CELL_BATCHES] += 1
        if not wrapper:
            cell[k.CELL_RECORDS] += batch.count if magic == 2 else 1
        if codec > (4 if magic == 2 else 3) and s[k.UNKNOWN_CODEC] < 0:
            s[k.UNKNOWN_CODEC] = position
        if magic < 2:
            return
        cell[k.CELL_TRANSACTIONAL] += batch.transactional
        cell[k.CELL_CONTROL] += batch.control
        cell[k.CELL_DELETE_HORIZON] += batch.delete_horizon_ms is not None
        cell[k.CELL_PRODUCER] += batch.producer_id >= 0
        s[k.HIGHEST_EPOCH] = max(s[k.HIGHEST_EPOCH], batch.leader_epoch)
        span = batch.last_offset - batch.base_offset
        if (span < 0 or not 0 <= batch.count <= span + 1) and s[k.BAD_HEADER] < 0:
            s[k.BAD_HEADER] = position

    def _check_entries(self, position: int, last: int, base_offset: int) -> None:
        """Check the existing entries up to this batch, before it counts."""
        s = self.state
        while (number := s[k.OFFSET_NEXT]) < len(self._offsets):
            relative, at = self._offsets[number]
            if position < at:
                break
            if at != position or s[k.HIGHEST_OFFSET] >= _absolute(base_offset, relative):
                if not s[k.OFFSET_WRONG]:
                    s[k.OFFSET_WRONG_FIRST] = number
                s[k.OFFSET_WRONG] += 1
            s[k.OFFSET_NEXT] += 1
        while (number := s[k.TIME_NEXT]) < len(self._times):
            timestamp, relative = self._times[number]
            if last < _absolute(base_offset, relative):
                break
            if s[k.MAX_TIMESTAMP] >= timestamp:
                if not s[k.TIME_WRONG]:
                    s[k.TIME_WRONG_FIRST] = number
                s[k.TIME_WRONG] += 1
            s[k.TIME_NEXT] += 1


def _framing(log: bytes, position: int) -> int:
    """Return why no whole batch begins at `position`, END if one does or the log ends there."""
    left = len(log) - position
    if not left:
        return k.END
    if left < MIN_LEFT:
        return _TORN_TAIL
    size = int.from_bytes(log[position + 8 : position + OVERHEAD], "big", signed=True)
    if size < MIN_SIZE:
        return _BAD_LENGTH
    if OVERHEAD + size > left:
        return _TORN_TAIL
    magic = log[position + 16]
    if magic > 2:
        return _BAD_MAGIC
    return _BAD_LENGTH if size < _SMALLEST[magic] else k.END


def _absolute(base_offset: int, relative: int) -> int:
    return min(base_offset + relative, _NO_OFFSET)


def _signed(word: int) -> int:
    return word - 2**64 if word >> 63 else word
