"""Decode the records of a segment into flat buffers with Arrow's layout.

A chunk holds about 2 MiB of records. Its buffers are reused for the next chunk.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import Changed, CorruptBatch
from kafkats.formats.framing import MIN_LEFT
from kafkats.formats.message_set import WRAPPER_CODECS
from kafkats.formats.v2 import MAGIC as MAGIC_V2
from kafkats.kernels import columns as k
from kafkats.kernels.ahead import ahead
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.layout import MIN_RECORD
from kafkats.segment.reader import Source, Window
from kafkats.segment.refusal import refused
from kafkats.segment.unpack import Unpacker, address_of, lz4_decompress_safe, zstd_functions

ROOM: Final = 2 * 1024 * 1024
"""Bytes of records in a chunk, unless a single batch has more."""
_JOINED: Final = 1024 * 1024
_PACKED_AT_ONCE: Final = 64


class Binary(NamedTuple):
    """`n` nullable byte strings.

    `data` is uint8; `offsets` is int32 of shape (n + 1,); `valid` holds (n + 7) // 8 bytes of
    validity bits, lowest first.
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int32]
    valid: NDArray[np.uint8]
    nulls: int
    """Number of nulls; if it is 0, `valid` need not be read."""


class Headers(NamedTuple):
    """Record headers: `offsets`, int32 of shape (rows + 1,), into `keys` and `values`.

    Keys are bytes as stored, never null.
    """

    offsets: NDArray[np.int32]
    keys: Binary
    values: Binary


class BatchFields(NamedTuple):
    """Fields of the record's batch, per record; -1 for fields that magic 0 and 1 lack.

    `sequence` is the record's own.
    """

    magic: NDArray[np.int8]
    attributes: NDArray[np.int16]
    leader_epoch: NDArray[np.int32]
    producer_id: NDArray[np.int64]
    producer_epoch: NDArray[np.int16]
    sequence: NDArray[np.int32]


class Columns(NamedTuple):
    """Records in file order; views of buffers that are valid until the next chunk is requested."""

    rows: int
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    """ms; under LogAppendTime the header's timestamp, in magic 0 -1."""
    timestamp_type: NDArray[np.int8]
    """A TimestampType: -1 none, 0 CreateTime, 1 LogAppendTime."""
    key: Binary | None
    value: Binary | None
    headers: Headers | None
    batch: BatchFields | None


class _Wanted(NamedTuple):
    key: bool
    value: bool
    headers: bool
    batch: bool


def columns(
    source: Source,
    *,
    start: int = 0,
    end: int | None = None,
    control: bool = True,
    key: bool = True,
    value: bool = True,
    headers: bool = True,
    batch: bool = False,
    checksums: bool = True,
    room: int = ROOM,
    reuse: bool = True,
    quiet_zeros: bool = False,
    on_end: Callable[[int], object] = int,
) -> Iterator[Columns]:
    """Yield the records of the batches from `start` to `end`, in nonempty chunks.

    The default of `end` is the end of the file. Reading ends at the quiet end of the log: an
    unfinished batch, and with `quiet_zeros` also zeros up to the end of the file, as in a
    preallocated one. Unwanted columns are None and cost nothing. Without `control` the records of
    control batches are left out. With `reuse` False each chunk has its own buffers, which live as
    long as they are referenced; Arrow arrays can then use them without a copy. After the last
    chunk, `on_end` gets the end position of the last batch read, also before CorruptBatch.

    Raises CorruptBatch at the position where `formats.dispatch` refuses a batch, after the records
    before it. Raises Changed if the file was truncated meanwhile; Vanished, StorageFailed.
    """
    state = _state(start, control=control, checksums=checksums)
    end = source.size if end is None else min(end, source.size)
    wanted, ahead = _Wanted(key, value, headers, batch), _Ahead(state)
    # a small segment should not allocate large buffers
    room = min(max(room, 1), max(4096, 4 * (end - start)))
    buffers = _Buffers(state, wanted, room, room // MIN_RECORD)
    stopped = -1
    if end > start:
        _load(state, source.window(start, MIN_LEFT), end)
    while (why := k.columns(state, ahead.plain)) != k.DONE:
        position = int(state[k.POSITION])
        if why == k.NEED_BYTES:
            _load(state, source.window(position, int(state[k.NEEDED])), end)
        elif why == k.COMPRESSED and ahead.unpack():
            continue
        elif why == k.FULL:
            if state[k.ROWS]:
                yield buffers.filled()
            buffers = _emptied(buffers, room, reuse=reuse)
        elif stopped != position:  # a broker may have written a batch there meanwhile
            stopped = position
            _load(state, source.window(position, MIN_LEFT), end)
        else:
            break
    position = int(state[k.POSITION])
    if state[k.ROWS]:
        yield buffers.filled()
    on_end(position)
    if why != k.DONE and not (quiet_zeros and end == source.size and source.only_zeros(position)):
        raise refused(source, position, end=end)


def _state(start: int, *, control: bool, checksums: bool) -> NDArray[np.int64]:
    state = np.zeros(k.STATE_SLOTS, np.int64)
    state[k.POSITION], state[k.CONTROL] = start, control
    if checksums:
        state[k.CRC32], state[k.CRC32C] = crc_addresses()
    return state


def _emptied(buffers: _Buffers, room: int, *, reuse: bool) -> _Buffers:
    """Return empty buffers with the room that the next batch needs, at least `room` bytes."""
    state = buffers.state
    most = max(int(state[k.NEEDED]), room)
    rows = max(int(state[k.NEEDED_ROWS]), room // MIN_RECORD)
    if not reuse or (most, rows) != (state[k.ROOM], state[k.ROWS_ROOM]):
        buffers = _Buffers(state, buffers.wanted, most, rows)
    buffers.clear()
    return buffers


class _Buffers:
    """The buffers of one chunk; the kernel's state holds their addresses."""

    def __init__(self, state: NDArray[np.int64], wanted: _Wanted, room: int, rows: int) -> None:
        self.state, self.wanted = state, wanted
        state[k.ROOM], state[k.ROWS_ROOM] = room, rows
        slots: dict[int, tuple[int, type[np.generic] | None]] = {
            k.OFFSET: (rows, np.int64), k.TIMESTAMP: (rows, np.int64),
            k.TIMESTAMP_TYPE: (rows, np.int8)
        }  # fmt: skip
        if wanted.key:
            slots |= {
                k.KEY_DATA: (room, np.uint8),
                k.KEY_OFFSETS: (rows + 1, np.int32),
                k.KEY_VALID: (rows, None),
            }
        if wanted.value:
            slots |= {
                k.VALUE_DATA: (room, np.uint8),
                k.VALUE_OFFSETS: (rows + 1, np.int32),
                k.VALUE_VALID: (rows, None),
            }
        if wanted.headers:
            entries = room // 2  # a key and a value of one byte each
            slots |= {
                k.HEADER_OFFSETS: (rows + 1, np.int32), k.HEADER_KEY_DATA: (room, np.uint8),
                k.HEADER_KEY_OFFSETS: (entries + 1, np.int32),
                k.HEADER_VALUE_DATA: (room, np.uint8),
                k.HEADER_VALUE_OFFSETS: (entries + 1, np.int32),
                k.HEADER_VALUE_VALID: (entries, None),
            }  # fmt: skip
        if wanted.batch:
            slots |= {
                k.MAGIC: (rows, np.int8), k.ATTRIBUTES: (rows, np.int16),
                k.LEADER_EPOCH: (rows, np.int32), k.PRODUCER_ID: (rows, np.int64),
                k.PRODUCER_EPOCH: (rows, np.int16), k.SEQUENCE: (rows, np.int32),
            }  # fmt: skip
        self.arrays: dict[int, NDArray[Any]] = {
            slot: np.empty((size + 7) // 8 + 1, np.uint8)
            if kind is None
            else np.empty(max(size, 1), kind)
            for slot, (size, kind) in slots.items()
        }
        for slot, array in self.arrays.items():
            state[slot] = array.ctypes.data
            if array.dtype == np.int32:
                array[0] = 0

    def clear(self) -> None:
        self.state[k.USED : k.HEADER_NULLS + 1] = 0

    def filled(self) -> Columns:
        s, a, wanted = self.state.tolist(), self.arrays, self.wanted
        rows, entries = s[k.ROWS], s[k.HEADERS]

        def binary(data: int, size: int, count: int, nulls: int | None) -> Binary:
            # the slots of a column's data, offsets and validity bits are adjacent
            valid = a[data + 2][: (count + 7) // 8] if nulls is not None else _all_valid(count)
            return Binary(
                a[data][: s[size]],
                a[data + 1][: count + 1],
                valid,
                s[nulls] if nulls is not None else 0,
            )

        return Columns(
            rows,
            a[k.OFFSET][:rows],
            a[k.TIMESTAMP][:rows],
            a[k.TIMESTAMP_TYPE][:rows],
            binary(k.KEY_DATA, k.KEY_BYTES, rows, k.KEY_NULLS) if wanted.key else None,
            binary(k.VALUE_DATA, k.VALUE_BYTES, rows, k.VALUE_NULLS) if wanted.value else None,
            Headers(
                a[k.HEADER_OFFSETS][: rows + 1],
                binary(k.HEADER_KEY_DATA, k.HEADER_KEY_BYTES, entries, None),
                binary(k.HEADER_VALUE_DATA, k.HEADER_VALUE_BYTES, entries, k.HEADER_NULLS),
            )
            if wanted.headers
            else None,
            BatchFields(*(a[slot][:rows] for slot in range(k.MAGIC, k.SEQUENCE + 1)))
            if wanted.batch
            else None,
        )


def _all_valid(count: int) -> NDArray[np.uint8]:
    return np.full((count + 7) // 8, 0xFF, np.uint8)


class _Ahead:
    """Decompresses the next batches of the window in one kernel call instead of one call per batch.

    The kernel decompresses lz4 and zstd itself, by function address; the unpacker handles the rest.
    Batches are decompressed before they are checked. One that does not decompress is left to the
    decoders, which report it.
    """

    def __init__(self, state: NDArray[np.int64]) -> None:
        self.plain = np.zeros((_PACKED_AT_ONCE, k.PLAIN_COLUMNS), np.int64)
        self._state = state
        self._unpacker = Unpacker()
        self._joined = np.empty(0, np.uint8)
        self._last: NDArray[np.uint8] | None = None

    def unpack(self) -> bool:
        """Fill `plain` from the batch at POSITION on.

        Returns False if that batch does not decompress.
        """
        state = self._state
        if not len(self._joined):
            self._begin()
        state[k.AHEAD], state[k.JOINED_USED], state[k.PLAIN_NEXT], state[k.PLAIN_COUNT] = (
            state[k.POSITION],
            0,
            0,
            0,
        )
        while ahead(state, self.plain):
            position, codec, magic, start, size = state[k.PACKED : k.PACKED + 5].tolist()
            if magic < MAGIC_V2 and codec not in WRAPPER_CODECS:
                break
            try:
                plain = self._unpacker.unpack(
                    codec, memoryview(ctypes.string_at(start, size)), broken_lz4=magic == 0
                )
            except CorruptBatch:
                break
            used, count = int(state[k.JOINED_USED]), int(state[k.PLAIN_COUNT])
            fits = used + plain.size <= _JOINED
            self.plain[count] = (
                position,
                self._address + used if fits else plain.ctypes.data,
                plain.size,
            )
            state[k.PLAIN_COUNT] = count + 1
            if not fits:
                self._last = plain  # valid until the unpacker's next use, which follows the read
                break
            self._joined[used : used + plain.size] = plain
            state[k.JOINED_USED] = used + plain.size
        return bool(state[k.PLAIN_COUNT] and self.plain[0, 0] == state[k.POSITION])

    def _begin(self) -> None:
        state = self._state
        self._joined = np.empty(_JOINED, np.uint8)
        self._address = self._joined.ctypes.data
        state[k.JOINED], state[k.JOINED_ROOM] = self._address, _JOINED
        state[k.LZ4] = address_of(lz4_decompress_safe())
        zstd = zstd_functions()
        if zstd is not None:  # threads must not share a context
            context = zstd.create()
            weakref.finalize(self, zstd.free, context)
            state[k.ZSTD], state[k.ZSTD_CONTEXT] = address_of(zstd.decompress), context


def _load(state: NDArray[np.int64], window: Window, end: int) -> None:
    address, origin, loaded, limit, file_end = window
    if file_end < end:
        raise Changed("the file was cut while it was read", position=file_end)
    state[:5] = address, origin, min(loaded, end), min(limit, end), end
