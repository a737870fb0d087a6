"""Memory between two pages that nobody may touch, and segments in it: what is read or written beside it kills the process."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kafkats.segment.reader import Source, Window
from kafkats_model.memory_source import array_source

_PAGE: Final = mmap.PAGESIZE
_libc: Final = ctypes.CDLL(None, use_errno=True)
_NOTHING: Final = 0


class Guarded:
    """`room` bytes, rounded up to pages, with an unreadable page before and after them."""

    def __init__(self, room: int) -> None:
        self.room = max(-(-room // _PAGE), 1) * _PAGE
        self._map = mmap.mmap(-1, self.room + 2 * _PAGE)
        self.address = np.frombuffer(self._map, np.uint8).ctypes.data + _PAGE
        for page in (self.address - _PAGE, self.address + self.room):
            if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(_PAGE), _NOTHING):
                raise OSError(ctypes.get_errno(), "mprotect")

    def put(self, data: bytes, *, last: bool) -> int:
        """Copy `data` to the end (`last`) or the beginning; its address."""
        address = self.address + (self.room - len(data) if last else 0)
        ctypes.memmove(address, data, len(data))
        return address

    def array(self, count: int, dtype: Any) -> NDArray[Any]:
        """`count` numbers whose last byte lies before the page behind."""
        size = count * np.dtype(dtype).itemsize
        data = np.frombuffer(self._map, np.uint8)[_PAGE + self.room - size : _PAGE + self.room]
        return data.view(dtype)


class GuardedNumpy:
    """numpy, but for arrays without contents: each lies directly before an unreadable page."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
        count = int(np.prod(shape))
        return Guarded(count * np.dtype(dtype).itemsize).array(count, dtype).reshape(shape)


class GuardedSource:
    """A .log in windows of `step` bytes, or as few as were asked for, each between unreadable pages.

    `last`: a window ends at the page behind, else it begins at the page before.
    """

    def __init__(self, data: bytes, *, step: int, last: bool, region: Guarded) -> None:
        self.data, self.step, self.last, self.region = data, step, last, region

    def window(self, position: int, needed: int) -> Window:
        assert 0 <= position <= len(self.data)
        loaded = min(position + max(needed, self.step), len(self.data))
        address = self.region.put(self.data[position:loaded], last=self.last)
        return Window(address, position, loaded, loaded, len(self.data))

    def source(self) -> Source:
        plain = array_source(np.frombuffer(self.data, np.uint8), 5)
        return plain._replace(window=self.window)
