"""A segment in another magic or codec, window by window: the kernel does the common batches, formats/convert.py the odd ones."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats.convert import LOSSES, MAX_SEGMENT_BYTES, Target, convert_segment
from kafkats.formats.framing import MIN_LEFT, MIN_SIZE, OVERHEAD, frames
from kafkats.segment.pack import Packer, bytes_at, lz4_compress_default
from kafkats.segment.reader import Source
from kafkats.segment.unpack import Unpacker, lz4_decompress_safe

Write = Callable[[memoryview], object]

_OUT: Final = 1024 * 1024
_PLAIN: Final = 4 * 1024 * 1024
_AREA: Final = 1024 * 1024


class Conversion(NamedTuple):
    """What a segment became, or would become."""

    bytes: int
    sha256: str
    """Of the new bytes."""
    batches_in: int
    batches_out: int
    records: int
    """Of the batches that were written anew."""
    unchanged_batches: int
    losses: dict[str, int]
    """Words of LOSSES -> how many; only those that occurred."""
    kept_last: bool
    """The log's last batch stayed in its magic, for the log's end offset would have fallen."""
    changed: bool
    """Not the same bytes as before."""


def convert_source(
    source: Source, base_offset: int, target: Target, write: Write | None, *, log_end: bool
) -> Conversion:
    """Convert a whole `.log` by the cleaner's rule; the bytes go to `write` in pieces of some MiB that are valid during the call.

    `write` None: a forecast, the same work with nothing written. `log_end`: it is the partition's last segment. The bytes are those of
    formats.convert.convert_segment. Raises, at the position of the first batch that is in the way, CorruptBatch and NotConvertible, and
    StorageFailed; what was written until then is of no use. A file that is cut meanwhile ends as NotConvertible.
    """
    return _Run(source, base_offset, target, write, log_end).go()


class _Run:
    """One conversion: the kernel's state, and the buffers that it points to."""

    def __init__(self, source: Source, base_offset: int, target: Target, write: Write | None, log_end: bool) -> None:
        from kafkats.kernels import convert as k
        from kafkats.kernels.crc import crc_addresses

        self.source, self.base_offset, self.target, self.write, self.log_end = (
            source,
            base_offset,
            target,
            write,
            log_end,
        )
        self.state = state = k.new_state()
        self.unpacker, self.packer = Unpacker(), Packer()
        self.sha256, self.bytes, self.kept_last = hashlib.sha256(), 0, False
        self.plain: NDArray[np.uint8] = np.empty(_PLAIN, np.uint8)
        state[k.PLAIN_BUFFER], state[k.PLAIN_ROOM] = self.plain.ctypes.data, _PLAIN
        self.make_out(_OUT)
        self.make_area(_AREA)
        state[k.MAGIC], state[k.CODEC] = target.magic, -1 if target.codec is None else int(target.codec)
        state[k.BASE_OFFSET], state[k.LOG_END] = base_offset, log_end
        state[k.CRC32], state[k.CRC32C] = crc_addresses()
        state[k.LZ4_DECOMPRESS], state[k.LZ4_COMPRESS] = (
            _address(lz4_decompress_safe()),
            _address(lz4_compress_default()),
        )

    def make_out(self, room: int) -> None:
        from kafkats.kernels import convert as k

        self.out = np.empty(room, np.uint8)
        self.state[k.OUT], self.state[k.ROOM] = self.out.ctypes.data, room

    def make_area(self, room: int) -> None:
        from kafkats.kernels import convert as k

        self.area = np.empty(room, np.uint8)
        self.state[k.AREA_BUFFER], self.state[k.AREA_ROOM] = self.area.ctypes.data, room

    def go(self) -> Conversion:
        from kafkats.kernels import convert as k

        s = self.state
        steps: dict[int, Callable[[], None]] = {
            k.AT_LIMIT: lambda: self.load(MIN_LEFT),
            k.NEED_BYTES: lambda: self.load(int(s[k.NEEDED])),
            k.FULL: self.empty,
            k.NEED_AREA: lambda: self.make_area(int(s[k.NEEDED])),
            k.UNPACK: self.unpack,
            k.PACK: self.pack,
            k.HARD: lambda: self.ask_reference(int(s[k.SIZE])),
            k.STOPPED: self.stopped,
        }
        if self.source.size:
            self.load(MIN_LEFT)
        while (why := k.convert(s)) != k.DONE:
            steps[why]()
        if s[k.FILE_END] < self.source.size:
            self.stopped()
        self.flush()
        lost = dict(zip(LOSSES, s[k.LOSSES : k.LOSSES + len(LOSSES)].tolist(), strict=True))
        batches_in, unchanged = int(s[k.BATCHES_IN]), int(s[k.UNCHANGED])
        return Conversion(
            self.bytes,
            self.sha256.hexdigest(),
            batches_in,
            int(s[k.BATCHES_OUT]),
            int(s[k.RECORDS]),
            unchanged,
            {word: count for word, count in lost.items() if count},
            self.kept_last,
            unchanged != batches_in,
        )

    def load(self, needed: int) -> None:
        self.state[:5] = self.source.window(int(self.state[5]), needed)

    def flush(self) -> None:
        from kafkats.kernels import convert as k

        self.put(self.out[: self.state[k.FILLED]].data)
        self.state[k.FILLED] = 0

    def empty(self) -> None:
        from kafkats.kernels import convert as k

        self.flush()
        if self.state[k.NEEDED] > len(self.out):
            self.make_out(int(self.state[k.NEEDED]))

    def put(self, data: memoryview) -> None:
        self.bytes += len(data)
        if self.bytes > MAX_SEGMENT_BYTES:
            raise NotConvertible(f"it would take more than {MAX_SEGMENT_BYTES} bytes")
        self.sha256.update(data)
        if self.write:
            self.write(data)

    def unpack(self) -> None:
        from kafkats.kernels import convert as k

        s = self.state
        packed = bytes_at(int(s[k.PACKED]), int(s[k.PACKED_SIZE]))
        try:
            plain = self.unpacker.unpack(int(s[k.UNPACK_CODEC]), packed, broken_lz4=self.magic_here() == 0)
        except CorruptBatch:
            self.ask_reference(int(s[k.SIZE]))
            return
        self.unpacked = plain
        s[k.PLAIN], s[k.PLAIN_SIZE] = plain.ctypes.data, plain.size

    def magic_here(self) -> int:
        from kafkats.kernels import convert as k

        s = self.state
        return bytes_at(int(s[k.ADDRESS] + s[k.POSITION] - s[k.ORIGIN] + 16), 1)[0]

    def pack(self) -> None:
        from kafkats.kernels import convert as k

        s = self.state
        codec, source, size = int(s[k.PACK_CODEC]), int(s[k.AREA]), int(s[k.AREA_SIZE])
        into, room = int(s[k.INTO]), int(s[k.INTO_ROOM])
        s[k.INTO_SIZE] = self.packer.pack(codec, source, size, into, room, broken_lz4=self.target.magic == 0)
        if s[k.INTO_SIZE] < 0:
            self.ask_reference(int(s[k.SIZE]))

    def ask_reference(self, size: int) -> None:
        """Let formats/convert.py do the frame of `size` bytes at the kernel's position."""
        from kafkats.kernels import convert as k

        s = self.state
        position = int(s[k.POSITION])
        frame = self.source.read(position, size)
        last = self.log_end and position + size == int(s[k.FILE_END])
        try:
            done = convert_segment(frame, self.base_offset, self.target, log_end=last)
        except (CorruptBatch, NotConvertible) as e:
            raise type(e)(e.reason, position=position + (e.position or 0)) from e
        self.flush()
        self.put(memoryview(done.data))
        same = done.data == frame
        s[k.BATCHES_OUT] += sum(1 for _ in frames(done.data))
        s[k.UNCHANGED] += same
        self.kept_last |= last and same and frame[16] != self.target.magic
        s[k.RECORDS] += done.records
        for number, word in enumerate(LOSSES):
            s[k.LOSSES + number] += done.losses.get(word, 0)
        s[k.BATCHES_IN] += 1
        s[k.POSITION], s[k.PHASE] = position + size, 0

    def stopped(self) -> None:
        """Say why the log does not go on. Raises CorruptBatch, NotConvertible."""
        from kafkats.kernels import convert as k

        position, end = int(self.state[k.POSITION]), int(self.state[k.FILE_END])
        left = end - position
        head = self.source.read(position, min(left, MIN_LEFT))
        size = OVERHEAD + int.from_bytes(head[8:12], "big", signed=True)
        if left >= MIN_LEFT and (size < OVERHEAD + MIN_SIZE or size <= left):
            self.ask_reference(max(size, MIN_LEFT))
        raise NotConvertible(f"{left} bytes after the last whole batch", position=position)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0
