"""Reference implementation of the index build and check, in plain Python over `kafkats.formats`.

The kernels are held to it; new readers should start here. `build_reference` and `untrue_entries`
process batches one by one and keep lists; they are slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.framing import MAX_OFFSET, MIN_LEFT, MIN_SIZE
from kafkats.formats.model import Batch
from kafkats.generations import (
    DEFAULT_RULE,
    INDEX_INTERVAL_BYTES,
    MAX_RELATIVE_OFFSET,
    SEGMENT_INDEX_BYTES,
    Rule,
)
from kafkats.index import offset_index, time_index
from kafkats.index.build import Built, offset_bytes, time_bytes
from kafkats.segment.facts import SegmentFacts, StopReason


class Untrue(NamedTuple):
    """Numbers of the entries that mislead a lookup."""

    offset_entries: list[int]
    time_entries: list[int]


def read_batches(log: bytes) -> tuple[list[Batch], int, StopReason | None]:
    """Return the good batches, where reading ended, and why if that is not the end of the file."""
    batches: list[Batch] = []
    try:
        for batch in dispatch.batches(log):
            batches.append(batch)
    except CorruptBatch:
        pass
    end = batches[-1].end if batches else 0
    return batches, end, _stop(log, end)


def _stop(log: bytes, position: int) -> StopReason | None:
    rest = log[position:]
    if not rest:
        return None
    size = int.from_bytes(rest[8:12], "big", signed=True)
    magic = rest[16] if len(rest) > 16 else -1
    if len(rest) < MIN_LEFT or (size >= MIN_SIZE and 12 + size > len(rest)):
        return StopReason.TORN_TAIL if any(rest) else StopReason.ZERO_TAIL
    if size < MIN_SIZE:
        return StopReason.BAD_LENGTH if any(rest) else StopReason.ZERO_TAIL
    if magic > 2:
        return StopReason.BAD_MAGIC
    if size < (14, 22, 49)[magic]:
        return StopReason.BAD_LENGTH
    last = int.from_bytes(rest[:8], "big", signed=True)
    if magic == 2:
        last += int.from_bytes(rest[23:27], "big", signed=True)
    return StopReason.BAD_CRC if -(2**63) <= last <= MAX_OFFSET else StopReason.BAD_OFFSET


def facts_of(log: bytes, base_offset: int) -> SegmentFacts:
    """Return the facts of a log with depth full."""
    batches, end, stop = read_batches(log)
    facts = SegmentFacts(
        base_offset=base_offset,
        depth="full",
        log_bytes=len(log),
        valid_bytes=end,
        stop=stop,
        stop_position=end,
        batches=len(batches),
        records=sum(b.count for b in batches)
        if all(b.count != -1 or b.magic == 2 for b in batches)
        else -1,
        next_offset=base_offset,
        magics=(_bytes(batches, 0), _bytes(batches, 1), _bytes(batches, 2)),
        codecs=(*(sum(b.codec == c for b in batches) for c in range(5)),),  # type: ignore[arg-type]
        control_batches=sum(b.control for b in batches),
        transactional_batches=sum(b.transactional for b in batches),
        delete_horizon_batches=sum(b.delete_horizon_ms is not None for b in batches),
        not_increasing_position=_first_not_increasing(batches),
        out_of_range_position=_first(batches, [not _in_range(b, base_offset) for b in batches]),
        bad_header_position=_first(
            batches, [b.magic == 2 and _contradicts_itself(b) for b in batches]
        ),
        unknown_codec_position=_first(
            batches, [b.codec > (4 if b.magic == 2 else 3) for b in batches]
        ),
    )
    if not batches:
        return facts
    first, last = batches[0], batches[-1]
    newest = max(b.max_timestamp for b in batches)
    holder = next(b for b in batches if b.max_timestamp == newest)
    try:
        first_offset = dispatch.first_offset(log, first)
    except CorruptBatch:
        first_offset = -1
    epochs = [b.leader_epoch for b in batches if b.magic == 2]
    return facts._replace(
        first_offset=max(first_offset, -1),
        last_offset=last.last_offset,
        next_offset=last.last_offset + 1,
        first_timestamp=first.max_timestamp,
        max_timestamp=max(newest, -1),
        offset_of_max_timestamp=holder.last_offset if newest > -1 else -1,
        highest_leader_epoch=max([-1, *epochs]),
    )


def build_reference(
    log: bytes,
    base_offset: int,
    *,
    rule: Rule = DEFAULT_RULE,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    segment_index_bytes: int = SEGMENT_INDEX_BYTES,
    mtime_ms: int = -1,
    next_base_offset: int | None = None,
) -> Built:
    """Build both indexes as `index.build.build` does.

    Raises CorruptBatch if rule first-offset needs a wrapper that does not decompress.
    """
    facts = facts_of(log, base_offset)
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    following = facts.next_offset if next_base_offset is None else next_base_offset
    most_offsets = segment_index_bytes // offset_index.ENTRY_SIZE
    most_times = segment_index_bytes // time_index.ENTRY_SIZE - 1
    newest, newest_offset, indexed, full = -1, 0, 0, False
    for batch in read_batches(log)[0]:
        if batch.max_timestamp > newest:
            newest, newest_offset = batch.max_timestamp, batch.last_offset
        if (
            batch.position - indexed > index_interval_bytes
            and 0 <= batch.last_offset - base_offset <= MAX_RELATIVE_OFFSET
        ):
            full = full or len(offsets) >= most_offsets or len(times) >= most_times
            offset = dispatch.first_offset(log, batch) if rule.first_offset else batch.last_offset
            offsets.append((offset - base_offset, batch.position))
            if newest > (times[-1][0] if times else -1):
                times.append((
                    newest,
                    (batch.last_offset + 1 if rule.next_offset else newest_offset) - base_offset,
                ))
            indexed = batch.position
    if newest > (times[-1][0] if times else -1):
        closing = following if rule.next_offset else newest_offset
        times.append((newest, min(max(closing - base_offset, 0), MAX_RELATIVE_OFFSET)))
    if rule.mtime_entry and next_base_offset is not None and newest == -1:
        times.append((mtime_ms, min(max(following - base_offset, 0), MAX_RELATIVE_OFFSET)))
    return Built(
        facts,
        offset_bytes([_int32(o) for o, _ in offsets], [p for _, p in offsets]),
        time_bytes([t for t, _ in times], [_int32(o) for _, o in times]),
        _blocked(facts, full),
    )


def untrue_entries(
    log: bytes,
    base_offset: int,
    offsets: Sequence[tuple[int, int]],
    times: Sequence[tuple[int, int]],
) -> Untrue:
    """Return which entries within the valid log mislead a lookup.

    `offsets` holds (relative offset, position) and `times` holds (timestamp, relative offset).
    """
    batches, end, _ = read_batches(log)
    last = max((b.last_offset for b in batches), default=-1)
    wrong_offsets = []
    for i, (relative, position) in enumerate(offsets):
        begins = any(b.position == position for b in batches)
        skipped = any(
            b.last_offset >= base_offset + relative for b in batches if b.position < position
        )
        if position < end and (not begins or skipped):
            wrong_offsets.append(i)
    wrong_times = []
    for i, (timestamp, relative) in enumerate(times):
        if base_offset + relative > last:
            continue
        before = []
        for b in batches:
            if b.last_offset >= base_offset + relative:
                break
            before.append(b.max_timestamp)
        if max(before, default=-1) >= timestamp or timestamp < 0:
            wrong_times.append(i)
    return Untrue(wrong_offsets, wrong_times)


def _blocked(facts: SegmentFacts, full: bool) -> str:
    if facts.stop == StopReason.BAD_OFFSET:
        return "bad-offset"
    if facts.out_of_range_position >= 0:
        return "offset-out-of-range"
    if facts.not_increasing_position >= 0:
        return "offsets-not-increasing"
    return "index-full" if full else ""


def _int32(number: int) -> int:
    """Return the low 32 bits of an offset that is out of range; the segment is then blocked."""
    return (number + 2**31) % 2**32 - 2**31


def _bytes(batches: list[Batch], magic: int) -> int:
    return sum(b.size for b in batches if b.magic == magic)


def _begin(batch: Batch) -> int:
    return batch.base_offset if batch.magic == 2 else batch.last_offset


def _in_range(batch: Batch, base_offset: int) -> bool:
    return (
        _begin(batch) >= base_offset and 0 <= batch.last_offset - base_offset <= MAX_RELATIVE_OFFSET
    )


def _contradicts_itself(batch: Batch) -> bool:
    span = batch.last_offset - batch.base_offset
    return span < 0 or not 0 <= batch.count <= span + 1


def _first(batches: list[Batch], wanted: list[bool]) -> int:
    return next((b.position for b, w in zip(batches, wanted, strict=True) if w), -1)


def _first_not_increasing(batches: list[Batch]) -> int:
    highest = None
    for b in batches:
        if highest is not None and _begin(b) <= highest:
            return b.position
        highest = b.last_offset if highest is None else max(highest, b.last_offset)
    return -1
