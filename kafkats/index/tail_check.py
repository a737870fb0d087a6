"""Check a segment from its whole index files and from the end of its log.

The log is read from the last entry of either index on: that is a few batches of a segment of any
size. So this finds a missing, empty, padded, short or cut-off index. It does not find an entry
inside an index that is in order and wrong, and no damage of the log before its end.

The answer is one of two: a `doubt`, and then the segment must be read whole; or no doubt, and then
the ends of all three files agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kafkats.findings import Finding
from kafkats.index import offset_index, time_index
from kafkats.index.entries import Entries, whole_entries
from kafkats.index.infer import contradicted, other_interval
from kafkats.index.structure import Structure, examine_offset_index, examine_time_index
from kafkats.index.tail import with_first_batch
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX
from kafkats.segment.facts import SegmentFacts, StopReason
from kafkats.segment.reader import Source, log_base_offset, open_source
from kafkats.segment.soundness import log_findings
from kafkats.segment.walk import Walked, walk

SMALL: Final = 64 * 1024
"""A log of at most so many bytes is read from its begin on where its indexes have no entries."""
_NO_ENTRIES: Final = np.empty(0, offset_index.ENTRY)
_NO_TIME_INDEX: Final = "the .timeindex is missing"


class TailCheck(NamedTuple):
    """Facts of depth tail; findings without damage; and why the segment must be read whole.

    `doubt` is "" if it need not.
    """

    facts: SegmentFacts
    findings: tuple[Finding, ...]
    doubt: str


class _Indexes(NamedTuple):
    """The two indexes of a segment, None for a missing one, and entries of theirs."""

    offsets: Structure | None
    times: Structure | None
    offset_entries: Entries
    last_time: tuple[int, int] | None
    """The last time entry: a timestamp and a relative offset."""

    def start(self) -> int:
        """Return the position of the last offset entry that is not above the last time entry."""
        if not len(self.offset_entries):
            return 0
        number = len(self.offset_entries) - 1
        if self.last_time is not None:
            upto = self.offset_entries["relative_offset"].searchsorted(self.last_time[1], "right")
            number = min(number, int(upto) - 1)
        return int(self.offset_entries["position"][number]) if number >= 0 else 0

    def entries_from(self, start: int) -> Entries:
        """Return the offset entries of the batches from `start` on."""
        first = self.offset_entries["position"].searchsorted(start)
        return self.offset_entries[int(first) :]


def check_tail(
    log_path: str | os.PathLike[str],
    *,
    active: bool = False,
    live: bool = False,
    time_index_expected: bool = True,
    index_interval_bytes: int | None = None,
) -> TailCheck:
    """Check one segment by the path of its .log; `active`, `live` as for `check.check_segment`.

    A given `index_interval_bytes` is compared with the entries of the .index.
    `time_index_expected`: False if brokers without time indexes may have written the segment.
    Raises Vanished, StorageFailed, BadInput, UsageError (not a segment's file name).
    """
    path = os.fspath(log_path)
    base_offset = log_base_offset(path)
    moving = active and live
    stem = path.removesuffix(LOG)
    # Read the indexes first: every batch that they index is then already in the log.
    indexes = _examined(stem)
    with open_source(path) as source:
        start = indexes.start()
        doubt = _structure_doubt(indexes, source.size, start, moving, time_index_expected)
        if doubt:
            return TailCheck(SegmentFacts(base_offset, "tail", source.size), (), doubt)
        walked = _walk(source, base_offset, indexes, start)
        facts = walked.facts._replace(depth="tail")
        if start:
            facts = with_first_batch(facts, source)
        findings = (
            *log_findings(path.rpartition("/")[2], facts, source, moving=moving),
            *_interval_findings(indexes.offsets, source, base_offset, index_interval_bytes),
        )
    if indexes.last_time is not None and indexes.last_time[0] > facts.max_timestamp:
        timestamp, relative = indexes.last_time
        facts = facts._replace(
            max_timestamp=timestamp, offset_of_max_timestamp=base_offset + relative
        )
    doubt = (
        _log_doubt(facts, findings)
        or _entries_doubt(indexes, walked, start, moving)
        or _missing_doubt(indexes, facts)
    )
    return TailCheck(facts, findings, doubt)


def _examined(stem: str) -> _Indexes:
    offsets = examine_offset_index(stem + OFFSET_INDEX)
    times = examine_time_index(stem + TIME_INDEX)
    entries, last = _NO_ENTRIES, None
    if offsets:
        entries = whole_entries(offsets.data, offset_index.ENTRY_SIZE, offset_index.ENTRY)
    if times and len(times.data) >= time_index.ENTRY_SIZE:
        end = len(times.data) - len(times.data) % time_index.ENTRY_SIZE
        last = time_index.STRUCT.unpack_from(times.data, end - time_index.ENTRY_SIZE)
    return _Indexes(offsets, times, entries, last)


def _interval_findings(
    offsets: Structure | None, source: Source, base_offset: int, given: int | None
) -> Iterator[Finding]:
    beside = None if given is None else contradicted(given, offsets, source, base_offset)
    if offsets is not None and given is not None and beside is not None:
        yield other_interval(offsets.name, given, beside)


def _structure_doubt(
    indexes: _Indexes, log_bytes: int, start: int, moving: bool, time_index_expected: bool
) -> str:
    """Return what the index files alone show, and which of them is missing."""
    for found in (indexes.offsets, indexes.times):
        if found is None:
            continue
        if found.findings:
            return f"{found.name}: {found.findings[0].kind}"
        if found.zeros and not moving:
            return f"{found.name}: zero-entries"
    if indexes.offsets is None and log_bytes:
        return "the .index is missing"
    if not 0 <= start < max(log_bytes, 1):
        return "an index points behind the end of the log"
    if start == 0 and log_bytes > SMALL:
        return (
            "the largest timestamp is that of the first batches"
            if len(indexes.offset_entries)
            else "the .index has no entries"
        )
    if time_index_expected and indexes.times is None and log_bytes:
        return _NO_TIME_INDEX
    return ""


def _walk(source: Source, base_offset: int, indexes: _Indexes, start: int) -> Walked:
    """Walk from `start` to the end, and compare the entries of what lies there."""
    offsets = indexes.entries_from(start)
    times = indexes.times.data if indexes.times else b""
    if start:  # older entries are of batches that are not read
        entries = whole_entries(times, time_index.ENTRY_SIZE, time_index.ENTRY)
        first = entries["relative_offset"].searchsorted(offsets["relative_offset"][0])
        times = times[int(first) * time_index.ENTRY_SIZE :]
    return walk(
        source, base_offset, start=start, offset_entries=offsets.tobytes(), time_entries=times
    )


def _log_doubt(facts: SegmentFacts, findings: tuple[Finding, ...]) -> str:
    if any(finding.severity in ("damage", "danger") for finding in findings):
        return f"the .log: {findings[0].kind}"
    if facts.stop is not None and facts.stop not in (StopReason.ZERO_TAIL, StopReason.TORN_TAIL):
        return f"the .log: {facts.stop}"
    if 0 <= facts.first_offset < facts.base_offset:
        return "the .log: its first batch lies below the base offset"
    return ""


def _entries_doubt(indexes: _Indexes, walked: Walked, start: int, moving: bool) -> str:
    """Return how the entries at the end contradict the log that was walked."""
    offsets, times = walked.offset_entries, walked.time_entries
    seen = walked.facts
    if offsets.wrong or times.wrong:
        return f"the {OFFSET_INDEX if offsets.wrong else TIME_INDEX}: not-in-log"
    entries = indexes.entries_from(start)
    if len(entries):
        last = int(entries["relative_offset"][-1]) + seen.base_offset
        if last > seen.last_offset or offsets.passed < len(entries):
            return f"the {OFFSET_INDEX}: beyond-end"
        # Batches before `start` are not read: an entry below its own batch may skip some of them.
        first = int(entries["relative_offset"][0]) + seen.base_offset
        if start and first < seen.first_offset:
            return f"the {OFFSET_INDEX}: not-in-log"
    if indexes.last_time is None:
        return ""
    timestamp, relative = indexes.last_time
    if not times.passed or seen.base_offset + relative > seen.last_offset:
        return f"the {TIME_INDEX}: beyond-end"
    if timestamp < seen.max_timestamp and not moving:
        return f"the {TIME_INDEX}: below-maximum"
    if timestamp > seen.max_timestamp:
        return f"the {TIME_INDEX}: above-maximum"
    return ""


def _missing_doubt(indexes: _Indexes, facts: SegmentFacts) -> str:
    """Return what an empty time index lacks, or one that nobody expected but the records do."""
    has_timestamps = max(facts.max_timestamp, facts.first_timestamp) > -1
    if indexes.times is None:
        return _NO_TIME_INDEX if has_timestamps else ""
    preallocated = bool(indexes.times.zeros)  # _structure_doubt refuses others
    if has_timestamps and indexes.last_time is None and not preallocated:
        return f"the {TIME_INDEX}: empty-index"
    return ""
