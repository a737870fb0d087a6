"""Convert a segment to or from a dialect, and prove it, with the readable reference.

No kernel knows a dialect: segments of this kind are for study, not for brokers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from kafkats.errors import CorruptBatch, NotConvertible, NotEqual
from kafkats.formats.build import Target
from kafkats.formats.convert import MAX_SEGMENT_BYTES, add_losses
from kafkats.formats.framing import MIN_LEFT, MIN_SIZE, OVERHEAD
from kafkats.formats.model import Batch, Record
from kafkats.generations import LOSSES, MAX_RELATIVE_OFFSET
from kafkats.hashes import Hash
from kafkats.segment.convert import Conversion, Write
from kafkats.segment.parity import Parity
from kafkats.segment.reader import Source
from kafkats_model.formats.enriched_convert import convert_batch
from kafkats_model.formats.readers import reader

_UNKNOWN: Final = -1
"""The first or last offset of a wrapper that only its content tells."""


class Framed(NamedTuple):
    """One batch in bytes of its own, and where they lie in the segment."""

    position: int
    data: bytes
    batch: Batch


def read_batches(source: Source, dialect: str | None) -> Iterator[Framed]:
    """Yield the batches of a segment, with their checksums checked.

    Raises CorruptBatch and, for bytes after the last whole batch, NotConvertible, both with their
    position; StorageFailed.
    """
    position = 0
    batches = reader(dialect).batches
    while source.size - position >= MIN_LEFT:
        head = source.read(position, OVERHEAD)
        size = OVERHEAD + int.from_bytes(head[8:], "big", signed=True)
        if size >= OVERHEAD + MIN_SIZE and size > source.size - position:
            break
        data = source.read(position, max(size, MIN_LEFT))
        try:
            for batch in batches(data):
                yield Framed(position, data, batch)
        except CorruptBatch as e:
            raise _moved(e, position) from e
        position += size
    if position < source.size:
        left = source.size - position
        raise NotConvertible(f"{left} bytes after the last whole batch", position=position)


def _moved(error: CorruptBatch | NotConvertible, position: int) -> CorruptBatch | NotConvertible:
    return type(error)(error.reason, position=position + (error.position or 0))


def convert_source(
    source: Source, base_offset: int, target: Target, write: Write | None, *, log_end: bool
) -> Conversion:
    """Convert a whole `.log` to or from a dialect: as segment.convert.convert_source."""
    digest, losses = Hash(), dict.fromkeys(LOSSES, 0)
    size = batches_in = batches_out = records = 0
    to = reader(target.dialect)
    for position, data, batch in read_batches(source, target.source):
        last = log_end and position + len(data) == source.size
        try:
            made = convert_batch(data, batch, target, last_of_log=last)
        except (CorruptBatch, NotConvertible) as e:
            raise _moved(e, position) from e
        for new in to.batches(made.data, verify=False):
            batches_out += 1
            for offset in {new.base_offset, new.last_offset} - {_UNKNOWN}:
                if not 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET:
                    reason = f"offset {offset} cannot be in a segment of base offset {base_offset}"
                    raise NotConvertible(reason, position=position)
        losses = dict.fromkeys(LOSSES, 0) | add_losses([losses, made.losses])
        size += len(made.data)
        if size > MAX_SEGMENT_BYTES:
            raise NotConvertible(f"it would take more than {MAX_SEGMENT_BYTES} bytes")
        digest.update(made.data)
        if write is not None and made.data:
            write(memoryview(made.data))
        batches_in, records = batches_in + 1, records + made.records
    return Conversion(
        bytes=size,
        hash=digest.text(),
        batches_in=batches_in,
        batches_out=batches_out,
        records=records,
        losses={word: count for word, count in losses.items() if count},
        kept_last=False,
        changed=batches_in > 0,
    )


def read_records(source: Source, dialect: str | None, *, control: bool) -> Iterator[Record]:
    """Yield the records of a segment; `control`: also those of control batches. Raises as above."""
    records = reader(dialect).records
    for position, data, batch in read_batches(source, dialect):
        if batch.control and not control:
            continue
        try:
            yield from records(data, batch)
        except CorruptBatch as e:
            raise _moved(e, position) from e


def prove(old: Source, new: Source, target: Target) -> tuple[Parity, Parity]:
    """Compare the records of both logs: offsets, keys, values and, if the target has them, times.

    Raises NotEqual with the first record that differs.
    """
    kept = target.dialect is not None
    both = zip_longest(
        read_records(old, target.source, control=kept),
        read_records(new, target.dialect, control=kept),
    )
    digests, count = (hashlib.sha256(), hashlib.sha256()), 0
    for before, after in both:
        one, two = _seen(before, target), _seen(after, target)
        if one != two:
            raise NotEqual(f"the converted log tells a consumer something else: {two}, not {one}")
        digests[0].update(repr(one).encode())
        digests[1].update(repr(two).encode())
        count += 1
    return Parity(count, digests[0].hexdigest()), Parity(count, digests[1].hexdigest())


def _seen(
    record: Record | None, target: Target
) -> tuple[int, int, bytes | None, bytes | None] | None:
    """Return what a consumer of both formats sees of a record."""
    if record is None:
        return None
    timed = target.dialect is not None or target.magic > 0
    return record.offset, record.timestamp if timed else -1, record.key, record.value
