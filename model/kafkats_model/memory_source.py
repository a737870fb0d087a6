"""Bytes in memory as the source of a log."""

from __future__ import annotations

from kafkats.segment.reader import Bytes, Source, Window


def array_source(view: Bytes, mtime_ms: int = -1) -> Source:
    """Return bytes in memory as a source; `view` must stay alive and be contiguous."""
    size, address = len(view), view.ctypes.data if len(view) else 0
    whole = Window(address, 0, size, size, size)

    def only_zeros(position: int) -> bool:
        return position < size and not view[position:].any()

    def copied(position: int, length: int) -> bytes:
        return view[position : position + length].tobytes()

    return Source(size, mtime_ms, lambda position, needed: whole, copied, only_zeros)
