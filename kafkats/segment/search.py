"""Search one .log by timestamp from a given position, as brokers do.

A search reads about `index.interval.bytes` and one batch, and nothing else. Unlike Kafka's, this
search verifies the checksum of every batch that it reads, and a mismatch is an error.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import Changed, CorruptBatch, KafkatsError, storage
from kafkats.formats.framing import MIN_LEFT
from kafkats.formats.message_set import WRAPPER_CODECS
from kafkats.kernels import search as k
from kafkats.kernels.crc import crc_addresses
from kafkats.segment.reader import Source, Window, open_regular
from kafkats.segment.refusal import refused
from kafkats.segment.unpack import Unpacker

LOWEST: Final = -(2**63)
_AT_ONCE: Final = 64 * 1024
_READS_BEFORE_MAP: Final = 4


class Hit(NamedTuple):
    """A record, the leader epoch of its batch (-1: none), and the position of that batch."""

    offset: int
    timestamp: int
    leader_epoch: int
    position: int


class Swept(NamedTuple):
    """The number of answered targets, and the error of a bad batch that ended the sweep."""

    answered: int
    error: KafkatsError | None


class OpenLog:
    """An open .log.

    `mapped` allows a map; set it only if no broker can truncate the file. The file is mapped only
    after a few reads, because the first access to a fresh map costs more than a read. Otherwise it
    is read in pieces. Raises Vanished, StorageFailed, BadInput (not a regular file).
    """

    def __init__(self, path: str, *, mapped: bool) -> None:
        self.path = path
        self._buffer = np.empty(0, np.uint8)
        self._whole: Window | None = None
        self._zeros_from: set[int] = set()
        self._fd, facts = open_regular(path)
        self.size, self.mtime_ms = facts.st_size, facts.st_mtime_ns // 1_000_000
        self._reads_left = _READS_BEFORE_MAP if mapped and self.size else -1
        self.source: Final = Source(
            self.size, self.mtime_ms, self._window, self._read, self._only_zeros
        )

    def close(self) -> None:
        """Close the file; a map is released with its last view."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._whole, self._buffer = -1, None, np.empty(0, np.uint8)

    def _window(self, position: int, needed: int) -> Window:
        if self._whole is not None:
            return self._whole
        if self._reads_left == 0:
            return self._map()
        self._reads_left -= 1
        wanted = min(max(needed, _AT_ONCE), max(self.size - position, 0))
        if len(self._buffer) < wanted:
            self._buffer = np.empty(wanted, np.uint8)
        with storage(self.path, "read"):
            got = os.preadv(self._fd, [self._buffer[:wanted].data], position) if wanted else 0
        end = position + got
        return Window(
            self._buffer.ctypes.data, position, end, end, self.size if got == wanted else end
        )

    def _map(self) -> Window:
        with storage(self.path, "map"):
            region = mmap.mmap(self._fd, self.size, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(self._fd)  # the map has its own descriptor
        self._fd = -1
        self._buffer = np.frombuffer(region, np.uint8)
        self._whole = Window(self._buffer.ctypes.data, 0, self.size, self.size, self.size)
        return self._whole

    def _read(self, position: int, size: int) -> bytes:
        if self._whole is not None:
            return self._buffer[position : position + size].tobytes()
        with storage(self.path, "read"):
            return os.pread(self._fd, size, position)

    def _only_zeros(self, position: int) -> bool:
        if position in self._zeros_from:  # scanning preallocated space takes long
            return not any(self._read(position, MIN_LEFT))
        at = position
        while at < self.size:
            data = self._read(at, 1 << 20)
            if data.count(0) != len(data) or not data:
                return False
            at += len(data)
        self._zeros_from.add(position)
        return position < self.size


class Searcher:
    """Reuses the kernel's state and the buffer for decompressed batches across searches."""

    def __init__(self) -> None:
        self._state = np.zeros(k.STATE_SLOTS, np.int64)
        self._state[k.CRC32], self._state[k.CRC32C] = crc_addresses()
        self._unpacker: Unpacker | None = None

    def first_record(
        self,
        log: OpenLog,
        position: int,
        target: int,
        *,
        start_offset: int = LOWEST,
        equal: bool = False,
        strict: bool = False,
    ) -> Hit | None:
        """Return the first record at `target` (ms) or later, from the batch at `position` on.

        Only records with an offset of `start_offset` or higher qualify. Batches are selected by the
        maximum timestamp in their headers. `equal`: return the first record with exactly that
        timestamp in the first batch with that maximum. `strict`: a batch whose maximum promises a
        record that it lacks is an error, as in Kafka 0.10.

        Raises CorruptBatch, Changed (the file was truncated meanwhile), StorageFailed.
        """
        if position < 0:
            raise CorruptBatch("no batch begins before the file", path=log.path, position=position)
        state = self._state
        state[k.POSITION : k.NEEDED + 1] = position, 0
        state[k.TARGET : k.STRICT + 1] = target, start_offset, equal, strict
        _load(state, log, log.source.window(position, MIN_LEFT))
        while (why := k.search(state)) != k.DONE:
            if why == k.COMPRESSED:
                why = self._inside()
                if why == k.DONE:
                    continue
            if why == k.FOUND:
                values = state.tolist()
                return Hit(
                    values[k.OFFSET], values[k.TIMESTAMP], values[k.EPOCH], values[k.POSITION]
                )
            at = int(state[k.POSITION])
            if why == k.NEED_BYTES:
                _load(state, log, log.source.window(at, int(state[k.NEEDED])))
            elif why == k.ABSENT and strict:
                reason = (
                    "the batch's maximum promises a record of that time, it has none: a"
                    " broker of 0.10 fails here"
                )
                raise CorruptBatch(reason, path=log.path, position=at)
            elif why == k.ABSENT:
                break
            elif log.source.only_zeros(at):
                break  # preallocated, or not written yet
            else:
                raise refused(log.source, at, path=log.path)
        return None

    def sweep(
        self,
        log: OpenLog,
        targets: NDArray[np.int64],
        starts: NDArray[np.int64],
        found: NDArray[np.int64],
        *,
        start_offset: int = LOWEST,
    ) -> Swept:
        """Run first_record for many `targets` (ms, int64, ascending) in one pass.

        `starts` holds the position for each target, ascending. Writes offset, timestamp and leader
        epoch to the rows of `found` (int64, shape (n, 3)). Ends at a bad batch, or when no record
        is late enough. Raises Changed, StorageFailed.
        """
        state = self._state
        state[k.POSITION : k.NEEDED + 1] = 0
        state[k.TARGET : k.STRICT + 1] = 0, start_offset, 0, 0
        state[k.NUMBER : k.LAST + 1] = 0, k.BEGIN, 0
        _load(state, log, log.source.window(int(starts[0]) if len(starts) else 0, MIN_LEFT))
        while (why := k.sweep(state, targets, starts, found)) != k.DONE:
            if why == k.COMPRESSED:
                why = self._inside()
                if why == k.FOUND:
                    state[k.STEP] = k.NOTE
                if why in {k.DONE, k.FOUND}:
                    continue
            at = int(state[k.POSITION])
            if why != k.NEED_BYTES:
                return Swept(int(state[k.NUMBER]), refused(log.source, at, path=log.path))
            _load(state, log, log.source.window(at, int(state[k.NEEDED])))
        return Swept(int(state[k.NUMBER]), None)

    def _inside(self) -> int:
        state = self._state
        codec, magic, packed, size = state[k.CODEC : k.PACKED_SIZE + 1].tolist()
        if magic < 2 and codec not in WRAPPER_CODECS:
            return k.BAD
        self._unpacker = self._unpacker or Unpacker()
        try:
            plain = self._unpacker.unpack(
                codec, memoryview(ctypes.string_at(packed, size)), broken_lz4=magic == 0
            )
        except CorruptBatch:
            return k.BAD
        return int(k.inside(state, plain.ctypes.data if len(plain) else 0, len(plain)))


def _load(state: np.ndarray, log: OpenLog, window: Window) -> None:
    address, origin, loaded, limit, file_end = window
    if file_end < log.size:
        raise Changed("the file was cut while it was read", path=log.path, position=file_end)
    state[:5] = address, origin, loaded, limit, file_end
