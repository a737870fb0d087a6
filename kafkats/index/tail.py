"""Read facts of a segment from the ends of its files: cheap enough for a million segments.

It reads the last entry of both indexes, the header of the first batch, and the batch headers from
the last offset entry on. No checksum is verified, and nothing in between is read. If the ends
contradict each other, a finding reports it; the facts are then unreliable.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkats.errors import Vanished, storage
from kafkats.findings import Finding, missing_index, partial_entry
from kafkats.index import offset_index, time_index
from kafkats.index.entries import read_index_bytes
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.reader import Source, log_base_offset, open_source
from kafkats.segment.walk import walk

_FIRST_BYTES: Final = 61


class Tail(NamedTuple):
    """Facts and findings from the ends of a segment's files.

    A finding of damage makes the facts unreliable.
    """

    facts: SegmentFacts
    findings: tuple[Finding, ...]


class Ends(NamedTuple):
    """The end of an index file.

    `last` is the last entry that is not zeros, or None; `zeros` tells whether zeros follow it.
    """

    name: str
    size: int
    last: tuple[int, int] | None
    zeros: bool
    findings: tuple[Finding, ...]


def read_tail(
    log_path: str | os.PathLike[str], *, active: bool = False, live: bool = False
) -> Tail:
    """Return facts of depth tail for a .log; `active`, `live` as for `index.check.check_segment`.

    Raises Vanished, StorageFailed, BadInput, UsageError (not a segment's file name).
    """
    path = os.fspath(log_path)
    stem = path.removesuffix(LOG)
    base = log_base_offset(path)
    moving = active and live
    offsets = _ends(stem + OFFSET_INDEX, offset_index.STRUCT)
    times = _ends(stem + TIME_INDEX, time_index.STRUCT)
    with open_source(path) as source:
        start = offsets.last[1] if offsets and offsets.last else 0
        if not 0 <= start < source.size:
            start = 0
        facts = walk(source, base, start=start, checksums=False).facts
        if start:
            facts = with_first_batch(facts, source)
    facts = facts._replace(depth="tail")
    findings = tuple(_findings(path.rpartition("/")[2], facts, offsets, times, moving))
    return Tail(_with_maximum(facts, times, start), findings)


def with_first_batch(tail: SegmentFacts, source: Source) -> SegmentFacts:
    """Return facts of the whole segment from those of its end, and from its first batch's header.

    Sums are -1 (unknown). `first_offset` is -1 for a wrapper.
    """
    first = source.read(0, _FIRST_BYTES)
    magic = first[16] if len(first) > 16 else -1
    begin, timestamp = int.from_bytes(first[:8], "big", signed=True), -1
    if magic == 1:
        timestamp = int.from_bytes(first[18:26], "big", signed=True)
    elif magic == 2:
        timestamp = int.from_bytes(first[35:43], "big", signed=True)
    wrapper = magic in {0, 1} and first[17] & 7
    return tail._replace(
        batches=-1,
        records=-1,
        first_offset=-1 if wrapper else begin,
        first_timestamp=timestamp,
        magics=(-1, -1, -1),
        codecs=(-1, -1, -1, -1, -1),
        control_batches=-1,
        transactional_batches=-1,
        delete_horizon_batches=-1,
    )


def _with_maximum(facts: SegmentFacts, times: Ends | None, start: int) -> SegmentFacts:
    """Return facts with the larger of the time index's last timestamp and the tail's maximum."""
    if not start or times is None or times.last is None or times.last[0] < facts.max_timestamp:
        return facts
    timestamp, relative = times.last
    return facts._replace(
        max_timestamp=timestamp, offset_of_max_timestamp=facts.base_offset + relative
    )


def _ends(path: str, entry: struct.Struct) -> Ends | None:
    name = path.rpartition("/")[2]
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # do not block on a FIFO
    except FileNotFoundError:
        return None
    except OSError:
        with storage(path, "open"):
            raise
    try:
        with storage(path, "read"):
            size = os.fstat(fd).st_size
            whole = size - size % entry.size
            last = os.pread(fd, entry.size, max(whole - entry.size, 0)) if whole else b""
    finally:
        os.close(fd)
    findings = []
    if whole != size:
        findings.append(partial_entry(name, size, entry.size))
    if not last:
        return Ends(name, size, None, False, tuple(findings))
    if any(last) or whole == entry.size:
        return Ends(name, size, _unpack(entry, last), False, tuple(findings))
    try:
        used = read_index_bytes(path, entry.size).data
    except Vanished:
        return None
    found = _unpack(entry, used[-entry.size :]) if len(used) >= entry.size else None
    return Ends(name, size, found, True, tuple(findings))


def _unpack(entry: struct.Struct, data: bytes) -> tuple[int, int]:
    first, second = entry.unpack(data)
    return first, second


def _findings(
    log: str, facts: SegmentFacts, offsets: Ends | None, times: Ends | None, moving: bool
) -> Iterator[Finding]:
    if facts.stop is not None:
        state = "preallocated" if facts.stop == StopReason.ZERO_TAIL else "moving-tail"
        kind = (
            state
            if moving and facts.stop in {StopReason.ZERO_TAIL, StopReason.TORN_TAIL}
            else str(facts.stop)
        )
        yield Finding(
            kind, log, f"nothing valid from byte {facts.stop_position} on", facts.stop_position
        )
    stem = log.removesuffix(LOG)
    if offsets is None:
        if facts.log_bytes:
            yield missing_index(stem + OFFSET_INDEX)
    else:
        yield from _common(offsets, moving)
        yield from _offset_end(offsets, facts)
    if times is None:
        if facts.max_timestamp > -1:
            yield missing_index(stem + TIME_INDEX)
    else:
        yield from _common(times, moving)
        yield from _time_end(times, facts, moving)


def _common(ends: Ends, moving: bool) -> Iterator[Finding]:
    yield from ends.findings
    if ends.zeros:
        yield Finding(
            "preallocated" if moving else "zero-entries", ends.name, "zeros at the end of the file"
        )


def _below_base(ends: Ends, relative: int) -> Finding:
    reason = f"the last entry lies {-relative} below the segment's base offset"
    return Finding("below-base", ends.name, reason)


def _beyond_end(ends: Ends) -> Finding:
    reason = f"the last entry {ends.last} lies behind the log's last batch"
    return Finding("beyond-end", ends.name, reason)


def _offset_end(ends: Ends, facts: SegmentFacts) -> Iterator[Finding]:
    if ends.last is None:
        return
    relative, position = ends.last
    if relative < 0:
        yield _below_base(ends, relative)
    elif not 0 <= position < facts.log_bytes or facts.base_offset + relative > facts.last_offset:
        yield _beyond_end(ends)
    elif facts.stop is not None and facts.stop_position == position:
        yield Finding(
            "not-in-log", ends.name, f"the last entry {ends.last} is not where a batch begins"
        )


def _time_end(ends: Ends, facts: SegmentFacts, moving: bool) -> Iterator[Finding]:
    if ends.last is None:
        if facts.max_timestamp > -1 and not (moving and ends.size):
            yield Finding(
                "empty-index",
                ends.name,
                f"no entries, but the log has timestamps: {facts.max_timestamp}",
            )
        return
    timestamp, relative = ends.last
    if relative < 0:
        yield _below_base(ends, relative)
    elif facts.base_offset + relative > facts.last_offset:
        yield _beyond_end(ends)
    elif timestamp < facts.max_timestamp and not moving:
        yield Finding(
            "below-maximum",
            ends.name,
            f"the last timestamp is {timestamp}, the log's end has {facts.max_timestamp}",
        )
