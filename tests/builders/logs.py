"""The bytes of a log in memory: as a source, and the indexes that they give."""

from __future__ import annotations

from kafkats.generations import DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES, Rule
from kafkats.index.build import Built, build_from
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


def build(
    log: Bytes,
    base_offset: int,
    *,
    rule: Rule = DEFAULT_RULE,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    segment_index_bytes: int = SEGMENT_INDEX_BYTES,
    mtime_ms: int = -1,
    next_base_offset: int | None = None,
) -> Built:
    """Rebuild both indexes from the bytes of a .log (uint8, shape (size,)).

    Only rule kip33 uses `mtime_ms` and `next_base_offset` (None: this is the active segment).
    """
    source = array_source(log, mtime_ms)
    return build_from(
        source, base_offset, rule, index_interval_bytes, segment_index_bytes, next_base_offset
    )
