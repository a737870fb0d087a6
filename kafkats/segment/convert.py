"""Convert a segment to another magic or codec: run the kernel and serve its requests.

The kernel requests windows, codecs, an emptied buffer, and the conversion of uncommon batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats.build import Target
from kafkats.formats.convert import MAX_SEGMENT_BYTES, convert_segment
from kafkats.formats.framing import MAGIC_AT, MIN_LEFT, MIN_SIZE, OVERHEAD, frames
from kafkats.generations import LOSSES
from kafkats.hashes import Hash
from kafkats.kernels import convert_state as k
from kafkats.kernels.convert import convert
from kafkats.kernels.crc import crc_addresses
from kafkats.segment.pack import Packer, bytes_at, lz4_compress_default
from kafkats.segment.reader import Source
from kafkats.segment.unpack import Unpacker, address_of, lz4_decompress_safe

_PIECE: Final = 1024 * 1024
"""Bytes per call of `write`, so that the pages of the new file are written in runs.

Pieces of odd sizes take half as much time again.
"""
_ROOM: Final = _PIECE + 64 * 1024
_AREA: Final = 1024 * 1024
_PLAIN: Final = 4 * 1024 * 1024

Write = Callable[[memoryview], object]


class Conversion(NamedTuple):
    """The result of a conversion, or of its forecast."""

    bytes: int
    hash: str
    """Hash (kafkats.hashes) of the new bytes; "" if not requested."""
    batches_in: int
    batches_out: int
    records: int
    """Number of records in rebuilt batches."""
    losses: dict[str, int]
    """Word of LOSSES -> count; zero counts are left out."""
    kept_last: bool
    """The log's last batch kept its magic, because the log end offset would have fallen."""
    changed: bool
    """The new bytes differ from the old ones."""


def convert_source(
    source: Source,
    base_offset: int,
    target: Target,
    write: Write | None,
    *,
    log_end: bool,
    digest: bool = True,
) -> Conversion:
    """Convert a whole `.log` by the cleaner's rule of formats.convert.convert_segment.

    `write` receives the bytes in pieces, mostly of 1 MiB, each valid only during the call. `write`
    None makes a forecast: the same work, nothing written. `log_end`: it is the partition's last
    segment.
    `digest` False saves the hash, which takes longer than converting uncompressed messages.

    Raises CorruptBatch and NotConvertible at the position of the first batch that cannot be
    converted, and StorageFailed; the bytes written so far are then useless. A file truncated
    meanwhile raises NotConvertible.
    """
    run = _Run(source, base_offset, target, write, log_end, digest)
    s, steps = run.state, run.steps()
    if source.size:
        run.load(MIN_LEFT)
    while (why := convert(run.vector)) != k.DONE:
        steps[why]()
    if s[k.FILE_END] < source.size:
        run.stop()
    run.flush()
    batches_in, unchanged = s[k.BATCHES_IN], s[k.UNCHANGED]
    return Conversion(
        bytes=run.bytes,
        hash=run.hash.text() if run.hash else "",
        batches_in=batches_in,
        batches_out=s[k.BATCHES_OUT],
        records=s[k.RECORDS],
        losses={word: s[k.LOSSES + n] for n, word in enumerate(LOSSES) if s[k.LOSSES + n]},
        kept_last=run.kept_last,
        changed=unchanged != batches_in,
    )


class Converter:
    """The kernels' state, the buffers that it names, and the codecs; use one per thread."""

    def __init__(self, target: Target) -> None:
        self.target, self.packer = target, Packer()
        self.vector = k.new_state()
        # A slot of a memoryview takes a third of the time of a slot of a numpy array.
        s = self.state = memoryview(self.vector)  # type: ignore[arg-type]
        s[k.MAGIC], s[k.CODEC] = target.magic, -1 if target.codec is None else int(target.codec)
        s[k.CRC32], s[k.CRC32C] = crc_addresses()
        s[k.LZ4_DECOMPRESS], s[k.LZ4_COMPRESS] = (
            address_of(lz4_decompress_safe()),
            address_of(lz4_compress_default()),
        )
        self.take_out(_ROOM)
        self.take_area(_AREA)

    def take_out(self, room: int) -> None:
        """Take a new buffer OUT of `room` bytes. What was in the old one is gone."""
        self.out = np.empty(room, np.uint8)
        self.state[k.OUT], self.state[k.ROOM] = self.out.ctypes.data, room

    def take_area(self, room: int) -> None:
        """Take a new AREA_BUFFER of `room` bytes."""
        self.area = np.empty(room, np.uint8)
        self.state[k.AREA_BUFFER], self.state[k.AREA_ROOM] = self.area.ctypes.data, room

    def pack(self) -> bool:
        """Compress AREA to INTO, as the kernel requests. False: it has no room."""
        s = self.state
        size = self.packer.pack(
            s[k.PACK_CODEC],
            s[k.AREA],
            s[k.AREA_SIZE],
            s[k.INTO],
            s[k.INTO_ROOM],
            broken_lz4=self.target.magic == 0,
        )
        s[k.INTO_SIZE] = size
        return size >= 0


class _Run(Converter):
    """One conversion of a segment: its bytes, and the steps that the kernel requests."""

    def __init__(
        self,
        source: Source,
        base_offset: int,
        target: Target,
        write: Write | None,
        log_end: bool,
        digest: bool,
    ) -> None:
        super().__init__(target)
        self.source, self.base_offset, self.log_end = source, base_offset, log_end
        self.write = write
        self.hash = Hash() if digest else None
        self.bytes, self.kept_last = 0, False
        self.unpacker = Unpacker()
        self.plain: NDArray[np.uint8] = np.empty(_PLAIN, np.uint8)
        s = self.state
        s[k.BASE_OFFSET], s[k.LOG_END] = base_offset, log_end
        s[k.PLAIN_BUFFER], s[k.PLAIN_ROOM] = self.plain.ctypes.data, _PLAIN

    def steps(self) -> dict[int, Callable[[], None]]:
        """Return the step for each reason to return."""
        s = self.state
        return {
            k.AT_LIMIT: lambda: self.load(MIN_LEFT),
            k.NEED_BYTES: lambda: self.load(s[k.NEEDED]),
            k.FULL: self.empty,
            k.NEED_AREA: lambda: self.take_area(s[k.NEEDED]),
            k.UNPACK: self.unpack,
            k.PACK: self.pack_or_ask,
            k.HARD: lambda: self.ask(s[k.SIZE]),
            k.STOPPED: self.stop,
        }

    def load(self, needed: int) -> None:
        """Load the window that begins at the kernel's position."""
        window = self.source.window(self.state[k.POSITION], needed)
        for slot, value in zip(
            (k.ADDRESS, k.ORIGIN, k.LOADED, k.LIMIT, k.FILE_END), window, strict=True
        ):
            self.state[slot] = value
        self.window = bytes_at(window.address, window.loaded - window.origin)

    def empty(self) -> None:
        """Write the whole pieces in the buffer, or all of it, so that the needed bytes fit."""
        s = self.state
        left = s[k.FILLED] % _PIECE
        if left + s[k.NEEDED] > s[k.ROOM]:
            self.flush()
            if s[k.NEEDED] > s[k.ROOM]:
                self.take_out(s[k.NEEDED])
            return
        whole = s[k.FILLED] - left
        self.put(self.out[:whole].data)
        self.out[:left] = self.out[whole : whole + left]
        s[k.FILLED] = left

    def flush(self) -> None:
        self.put(self.out[: self.state[k.FILLED]].data)
        self.state[k.FILLED] = 0

    def put(self, data: memoryview) -> None:
        self.bytes += len(data)
        if self.bytes > MAX_SEGMENT_BYTES:
            raise NotConvertible(f"it would take more than {MAX_SEGMENT_BYTES} bytes")
        if self.hash:
            self.hash.update(data)
        if self.write is not None:
            self.write(data)

    def add(self, data: bytes) -> None:
        """Append `data` to the buffer."""
        s = self.state
        if not data:
            return
        s[k.NEEDED] = len(data)
        if s[k.FILLED] + len(data) > s[k.ROOM]:
            self.empty()
        self.out[s[k.FILLED] : s[k.FILLED] + len(data)] = np.frombuffer(data, np.uint8)
        s[k.FILLED] += len(data)

    def unpack(self) -> None:
        s, unpacker = self.state, self.unpacker
        start = s[k.PACKED] - s[k.ADDRESS]
        codec, packed, broken_lz4 = (
            s[k.UNPACK_CODEC],
            self.window[start : start + s[k.PACKED_SIZE]],
            s[k.OLD_MAGIC] == 0,
        )
        size = unpacker.short_cut(codec, packed, broken_lz4)
        if size >= 0:
            s[k.PLAIN], s[k.PLAIN_SIZE] = unpacker.address, size
            return
        try:
            # the kernel keeps its address
            self.unpacked = unpacker.unpack(codec, packed, broken_lz4=broken_lz4)
        except CorruptBatch:
            self.ask(s[k.SIZE])
            return
        s[k.PLAIN], s[k.PLAIN_SIZE] = self.unpacked.ctypes.data, self.unpacked.size

    def pack_or_ask(self) -> None:
        if not self.pack():
            self.ask(self.state[k.SIZE])

    def ask(self, size: int) -> None:
        """Convert the batch of `size` bytes with formats/convert.py.

        Raises CorruptBatch and NotConvertible at its position.
        """
        s = self.state
        position = s[k.POSITION]
        batch = self.source.read(position, size)
        last = self.log_end and position + size == s[k.FILE_END]
        try:
            converted = convert_segment(batch, self.base_offset, self.target, log_end=last)
        except (CorruptBatch, NotConvertible) as e:
            raise type(e)(e.reason, position=position + (e.position or 0)) from e
        self.add(converted.data)
        same = converted.data == batch
        self.kept_last = last and same and batch[MAGIC_AT] != self.target.magic
        s[k.BATCHES_IN] += 1
        s[k.BATCHES_OUT] += sum(1 for _ in frames(converted.data))
        s[k.UNCHANGED] += same
        s[k.RECORDS] += converted.records
        for number, word in enumerate(LOSSES):
            s[k.LOSSES + number] += converted.losses.get(word, 0)
        s[k.POSITION], s[k.PHASE] = position + size, 0

    def stop(self) -> None:
        """Raise CorruptBatch or NotConvertible: no batch begins at the kernel's position."""
        position, end = self.state[k.POSITION], self.state[k.FILE_END]
        if end < self.source.size:
            raise NotConvertible(
                f"cut from {self.source.size} to {end} bytes while it was read", position=end
            )
        left = end - position
        head = self.source.read(position, min(left, MIN_LEFT))
        size = OVERHEAD + int.from_bytes(head[8:OVERHEAD], "big", signed=True)
        if left >= MIN_LEFT and (size < OVERHEAD + MIN_SIZE or size <= left):
            self.ask(max(size, MIN_LEFT))
        raise NotConvertible(f"{left} bytes after the last whole batch", position=position)
