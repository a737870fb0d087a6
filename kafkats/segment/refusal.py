"""The reason why a compiled reader stops at a batch, in the words of the plain decoders."""

from __future__ import annotations

import os

from kafkats.errors import CorruptBatch, KafkatsError
from kafkats.formats import dispatch
from kafkats.formats.framing import MIN_LEFT, MIN_SIZE, OVERHEAD
from kafkats.primitives import read_int32, view
from kafkats.segment.reader import Source


def refused(
    source: Source,
    position: int,
    *,
    end: int | None = None,
    path: str | os.PathLike[str] | None = None,
) -> KafkatsError:
    """Return the error with which the plain decoders refuse the batch at `position`.

    `end` is where the log ends, if not with the source. The error has the `path`.
    """
    last = source.size if end is None else end
    data = source.read(position, min(MIN_LEFT, last - position))
    size, _ = read_int32(view(data), OVERHEAD - 4)
    if size >= MIN_SIZE:
        data = source.read(position, OVERHEAD + size)
    try:
        for batch in dispatch.batches(data):
            dispatch.records(data, batch)
    except CorruptBatch as e:
        return CorruptBatch(e.reason, path=path, position=position + (e.position or 0))
    return KafkatsError(
        "the compiled reader refuses what the plain one reads; please report this",
        path=path,
        position=position,
    )
