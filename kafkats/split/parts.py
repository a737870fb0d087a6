"""Find the places where segments can be cut: rows of PARTS from batch headers.

rolled     where segment.bytes or segment.ms would have made a broker roll
mixed      before and after batches without a timestamp, or with an implausible one
expired    after the head that retention by time would delete if it were a segment (the
           enriched-metadata document of 2014 wanted the cleaner to truncate such a head)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats import paths
from kafkats.config.options import IndexSettings
from kafkats.errors import KafkatsError, Refused, UsageError
from kafkats.generations import RULES
from kafkats.logdir.families import Part, aborted_in
from kafkats.plans.columns import batch_of, schema_of
from kafkats.plans.missing import Accepting
from kafkats.plans.rows import KeyRow
from kafkats.plans.units import Unit
from kafkats.segment.reader import Source, open_source
from kafkats.split.options import SPLITS, Split
from kafkats.split.points import MOST, NO_LIMIT, Border, as_rolled, expired_head, unmixed
from kafkats.text import Flag


class PartRow(KeyRow):
    """One part of a segment; a segment that is not cut has none. `base_offset` is the segment's."""

    part_offset: int  # base offset of the part
    start: int  # bytes of the .log
    end: int
    aborted: int  # transactions whose abort marker lies in the part
    # of its first batch, and the largest, beside the end of an expired head; else None
    first_timestamp: int | None
    largest_timestamp: int | None
    action: str  # split, or blocked with a reason
    reason: str


PARTS: Final = schema_of(PartRow)
_DEFAULT: Final = Split.model_construct(where=SPLITS[0])


@dataclass(frozen=True)
class SplitOptions(Accepting):
    """Options of a split: `split` is a word of SPLITS.

    `segment_bytes` and `segment_ms` are for `rolled`. For `mixed` a timestamp is plausible from
    `earliest_ms` to `latest_ms`. For `expired` a timestamp before `expired_before_ms` has expired.
    """

    split: str
    segment_bytes: int | None = _DEFAULT.segment_bytes
    segment_ms: int | None = _DEFAULT.segment_ms
    earliest_ms: int = _DEFAULT.earliest
    latest_ms: int = 2**63 - 1
    expired_before_ms: int | None = _DEFAULT.before
    rule: str = IndexSettings.model_construct().rule


def look(unit: Unit, options: SplitOptions) -> pa.RecordBatch:
    """Return rows of PARTS for one segment from its batch headers, none for a directory's unit.

    A segment that cannot be cut is a blocked row. Raises UsageError for incomplete options.
    """
    check_options(options)
    rows: list[PartRow] = []
    small = (
        options.split == "rolled"
        and not options.segment_ms
        and unit.bytes <= (options.segment_bytes or 0)
    )
    if unit.base_offset >= 0 and unit.bytes and not small:
        try:
            with open_source(unit.log, mapped=not unit.live) as source:
                rows = _rows(unit, unit.directory, source, options)
        except KafkatsError as e:
            rows = [_blocked(unit, unit.bytes, str(e))]
    return batch_of(rows, PARTS)


def check_options(options: SplitOptions) -> None:
    """Raise UsageError for incomplete options, Refused for a rule that would mislead a broker."""
    if options.split not in SPLITS:
        raise UsageError(f"unknown split {options.split!r}; known are {', '.join(SPLITS)}")
    if options.split == "rolled" and not (options.segment_bytes or options.segment_ms):
        raise UsageError(
            *(Flag("--where"), " rolled needs "),
            *(Flag("--segment-bytes"), " or ", Flag("--segment-ms")),
        )
    if options.split == "expired" and options.expired_before_ms is None:
        raise UsageError(
            Flag("--where"), " expired needs ", Flag("--before"), ": what is older has expired"
        )
    if options.rule not in RULES or not RULES[options.rule].for_brokers:
        raise Refused(f"rule {options.rule} would mislead a broker, or is unknown")


def _rows(unit: Unit, directory: Path, source: Source, options: SplitOptions) -> list[PartRow]:
    if options.split == "rolled":
        size, time = options.segment_bytes or NO_LIMIT, options.segment_ms or NO_LIMIT
        return _part_rows(
            unit, directory, as_rolled(source, segment_bytes=size, segment_ms=time), source.size
        )
    if options.split == "mixed":
        borders = unmixed(source, earliest_ms=options.earliest_ms, latest_ms=options.latest_ms)
        return _part_rows(unit, directory, borders, source.size)
    head = expired_head(source, expired_before_ms=options.expired_before_ms or 0)
    if head is None:
        return []
    rows = _part_rows(unit, directory, [head.border], source.size)
    rows[0]["largest_timestamp"] = head.largest_timestamp
    rows[-1]["first_timestamp"] = head.next_timestamp
    return rows


def _part_rows(unit: Unit, directory: Path, borders: Sequence[Border], size: int) -> list[PartRow]:
    if not borders:
        return []
    if len(borders) > MOST:
        return [_blocked(unit, size, f"it would become more than {MOST} segments")]
    if unit.active and not unit.clean:
        reason = (
            "the active segment is split only after a clean stop: there is no clean-shutdown marker"
        )
        return [_blocked(unit, size, reason)]
    txn = unit.files[paths.SEGMENT_KINDS.index(paths.TXN_INDEX)]
    chain = [Border(0, unit.base_offset), *borders, Border(size, unit.next_base_offset)]
    rows = []
    for here, following in pairwise(chain):
        following_offset = None if following.offset < 0 else following.offset
        part = Part(
            unit.base_offset, here.position, following.position, here.offset, following_offset
        )
        row = _row(unit, here.offset, part.start, part.end)
        row["aborted"] = len(aborted_in(directory, part)) if txn else 0
        rows.append(row)
    return rows


def _blocked(unit: Unit, size: int, reason: str) -> PartRow:
    return _row(unit, unit.base_offset, 0, size) | {"action": "blocked", "reason": reason}


def _row(unit: Unit, offset: int, start: int, end: int) -> PartRow:
    return {
        "log_dir": unit.log_dir,
        "partition_dir": unit.partition_dir,
        "base_offset": unit.base_offset,
        "part_offset": offset,
        "start": start,
        "end": end,
        "aborted": 0,
        "first_timestamp": None,
        "largest_timestamp": None,
        "action": "split",
        "reason": "",
    }
