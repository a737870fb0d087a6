"""A segment in another magic or codec: what a conversion tells, and how to begin one. The work is in rewrite.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkats.formats.convert import Target
from kafkats.segment.reader import Source

__all__ = ["Conversion", "Target", "Write", "convert_source"]

Write = Callable[[memoryview], object]


class Conversion(NamedTuple):
    """What a segment became, or would become."""

    bytes: int
    sha256: str
    """Of the new bytes; "" where it was not wanted."""
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
    source: Source, base_offset: int, target: Target, write: Write | None, *, log_end: bool, digest: bool = True
) -> Conversion:
    """Convert a whole `.log` by the cleaner's rule; the bytes go to `write` in pieces of some MiB that are valid during the call.

    `write` None: a forecast, the same work with nothing written. `log_end`: it is the partition's last segment. `digest` False saves the
    sha256, which costs more than the conversion of uncompressed messages. The bytes are those of formats.convert.convert_segment.
    Raises, at the position of the first batch that is in the way, CorruptBatch and NotConvertible, and StorageFailed; what was
    written until then is of no use. A file that is cut meanwhile ends as NotConvertible.
    """
    from kafkats.segment.rewrite import rewrite  # numba costs 0.4 s, and who imports us may not need it

    return rewrite(source, base_offset, target, write, log_end=log_end, digest=digest)
