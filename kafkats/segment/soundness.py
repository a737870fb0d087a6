"""Report defects of a .log as findings, from the facts of one pass and from its decoded records."""

from __future__ import annotations

from collections.abc import Iterator

from kafkats.counts import counted
from kafkats.errors import CorruptBatch
from kafkats.findings import Finding, unknown_magic
from kafkats.formats.model import NO_TIMESTAMP
from kafkats.generations import MAX_RELATIVE_OFFSET
from kafkats.segment.broker_walk import unknown_magics
from kafkats.segment.columns import columns
from kafkats.segment.deep import Deep
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.reader import Source
from kafkats.segment.search import LOWEST


def log_findings(
    name: str, facts: SegmentFacts, source: Source, *, moving: bool
) -> Iterator[Finding]:
    """Yield the findings from `facts` (depth full) of the .log called `name`.

    `moving`: the active segment of a directory that a broker holds, or was killed in; an unfinished
    tail is then normal.
    """
    if facts.stop is not None:
        yield _stop_finding(name, facts, source, moving)
    elif facts.log_bytes > MAX_RELATIVE_OFFSET:
        yield Finding(
            "offset-out-of-range",
            name,
            f"{facts.log_bytes} bytes: Kafka opens no log above 2^31-1 bytes",
        )
    places = (
        (
            "offsets-not-increasing",
            facts.not_increasing_position,
            "begins at or below an offset before it",
        ),
        (
            "offset-out-of-range",
            facts.out_of_range_position,
            "has offsets below the base or more than 2^31-1 above it",
        ),
        (
            "bad-header",
            facts.bad_header_position,
            "has a negative count or span, or more records than offsets",
        ),
        ("undecodable", facts.unknown_codec_position, "has a codec that its format does not know"),
    )
    for kind, position, what in places:
        if position >= 0:
            yield Finding(kind, name, f"the batch at byte {position} {what}", position)


def record_findings(name: str, looked: Deep) -> Iterator[Finding]:
    """Yield the findings from decoding every record of the .log called `name`."""
    if looked.undecodable:
        more = f" (and {looked.undecodable - 1} more)" if looked.undecodable > 1 else ""
        why = looked.undecodable_reason or "its records do not fit into it"
        reason = f"the batch at byte {looked.undecodable_position}{more}: {why}"
        yield Finding("undecodable", name, reason, looked.undecodable_position)
    if looked.oversized_position >= 0:
        reason = (
            f"the batch at byte {looked.oversized_position} was not looked into:"
            f" {looked.oversized_reason}"
        )
        yield Finding("oversized", name, reason, looked.oversized_position)
    if looked.wrong_maximum:
        more = f" (and {looked.wrong_maximum - 1} more)" if looked.wrong_maximum > 1 else ""
        maximum = str(looked.wrong_maximum_found)
        reason = (
            f"the batch at byte {looked.wrong_maximum_position}{more}: the largest"
            f" timestamp of its records is {maximum}"
        )
        yield Finding(
            "wrong-maximum", name, reason, looked.wrong_maximum_position, expected=maximum
        )


def timestamp_findings(name: str, facts: SegmentFacts, source: Source) -> Iterator[Finding]:
    """Yield a remark if all timestamps of the .log called `name` are negative.

    Brokers leave its time index empty. They search, roll and delete by the file's mtime and their
    clock. `facts` must have depth deep. Raises StorageFailed.
    """
    if facts.max_timestamp >= 0 or facts.stop is not None or not any(facts.magics[1:]):
        return
    count, newest = 0, LOWEST
    try:
        for chunk in columns(source, key=False, value=False, headers=False):
            negative = chunk.timestamp[chunk.timestamp < NO_TIMESTAMP]
            count += len(negative)
            newest = max(newest, int(negative.max(initial=LOWEST)))
    except CorruptBatch:
        return  # reported as undecodable
    if not count:
        return
    reason = (
        f"{counted(count, 'record')} from before 1970, the newest of {newest} ms; brokers search,"
        " roll and delete by the file's mtime"
    )
    if facts.delete_horizon_batches:
        reason += (
            f"; bit 6 of {counted(facts.delete_horizon_batches, 'batch')} is read as a delete"
            " horizon, not as"
            " KIP-228's isTimestampExtended"
        )
    yield Finding("negative-timestamps", name, reason)


def _stop_finding(name: str, facts: SegmentFacts, source: Source, moving: bool) -> Finding:
    stop, position = facts.stop, facts.stop_position
    assert stop is not None
    if stop == StopReason.BAD_MAGIC and unknown_magics(source, facts.base_offset):
        return unknown_magic(name, position)
    left = facts.log_bytes - position
    reason = f"nothing valid from byte {position} on; {left} of {facts.log_bytes} bytes are left"
    kind = str(stop)
    if moving and stop == StopReason.ZERO_TAIL:
        kind = "preallocated"
    elif moving and (stop == StopReason.TORN_TAIL or _reaches_end(facts, source)):
        kind = "moving-tail"
    return Finding(kind, name, reason, position)


def _reaches_end(facts: SegmentFacts, source: Source) -> bool:
    """Return whether the bad batch is the file's last: a broker may be writing it."""
    if facts.stop != StopReason.BAD_CRC:
        return False
    size = 12 + int.from_bytes(source.read(facts.stop_position + 8, 4), "big")
    return facts.stop_position + size >= facts.log_bytes
