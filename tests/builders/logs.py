"""The indexes that the bytes of a log in memory give."""

from __future__ import annotations

from kafkats.generations import DEFAULT_RULE, INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES, Rule
from kafkats.index.build import Built, build_from
from kafkats.segment.reader import Bytes
from kafkats_model.memory_source import array_source


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
