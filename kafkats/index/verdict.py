"""Judge each index file from the results of a pass: its state, and findings in words."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kafkats.counts import counted
from kafkats.errors import CorruptBatch
from kafkats.findings import Finding, missing_index
from kafkats.generations import Rule
from kafkats.index import offset_index, time_index
from kafkats.index.build import Built, first_offsets, offset_bytes
from kafkats.index.entries import Entries, whole_entries
from kafkats.index.structure import Structure
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.walk import Merged, Points


class IndexState(StrEnum):
    """The state of one index file."""

    EQUAL = "equal"
    SOUND = "sound"
    DEFECTIVE = "defective"
    MISSING = "missing"


Verdict = tuple[IndexState, list[Finding]]


class Case(NamedTuple):
    """An index file, and what to judge it by."""

    structure: Structure | None
    """None: the file is missing."""
    name: str
    built: Built
    merged: Merged
    """The check of its entries during the walk over the log."""
    other_rule: bool
    """The file is what the other rule builds."""
    preallocated: bool
    """Zeros at its end are normal."""


class OtherRule:
    """Compares an offset index with the rule that was not requested, chunk by chunk."""

    def __init__(
        self,
        base_offset: int,
        rule: Rule,
        offsets: Structure | None,
        first_offset: Callable[[int], int],
    ) -> None:
        self.base_offset = base_offset
        self.first = not rule.first_offset
        self.first_offset = first_offset
        self.data = offsets.data if offsets else b""
        self.at = 0
        self.equal = bool(offsets and offsets.used and offsets.size == len(self.data))

    def add(self, points: Points) -> None:
        """Compare the next index points."""
        if not self.equal:
            return
        end = self.at + len(points) * offset_index.ENTRY_SIZE
        known = points[points[:, 1] != -(2**63)] if self.first else points
        entries = whole_entries(
            self.data[self.at : end], offset_index.ENTRY_SIZE, offset_index.ENTRY
        )
        self.at = end
        with suppress(CorruptBatch):
            self.equal = end <= len(self.data) and self._same(entries, points, known)
            return
        self.equal = False

    def close(self) -> bool:
        """Return whether the file is what the other rule builds."""
        return self.equal and self.at == len(self.data)

    def _same(self, entries: Entries, points: Points, known: Points) -> bool:
        if not np.array_equal(entries["position"], points[:, 0]):
            return False
        if not self.first:
            return offset_bytes(points[:, 2] - self.base_offset, points[:, 0]) == entries.tobytes()
        plain = points[:, 1] != -(2**63)
        if not np.array_equal(entries["relative_offset"][plain], known[:, 1] - self.base_offset):
            return False
        # stops at the first difference
        for entry, point in zip(entries[~plain], points[~plain], strict=True):
            if (
                first_offsets(point[None, :], self.first_offset)[0] - self.base_offset
                != entry["relative_offset"]
            ):
                return False
        return True


def judge_offset_index(case: Case) -> Verdict:
    """Return the verdict on an .index.

    Kafka 2.6 and later create index files at their first use, so a segment without records has
    none.
    """
    index, name, built, merged, other_rule, preallocated = case
    if index is None:
        return _missing(name, expected=built.facts.batches > 0)
    if not built.blocked and index.equals(built.offset_index):
        return IndexState.EQUAL, []
    facts = built.facts
    entries = whole_entries(index.entries, offset_index.ENTRY_SIZE, offset_index.ENTRY)
    findings = [*index.findings, *_zeros(index, preallocated)]
    findings += _wrong(
        index,
        merged,
        entries,
        "not where a batch begins, or offsets from there on lie before it",
    )
    beyond = (entries["position"].astype(np.int64) >= facts.valid_bytes) | (
        entries["relative_offset"].astype(np.int64) > facts.last_offset - facts.base_offset
    )
    findings += _beyond(index, entries, beyond, facts)
    inside = np.flatnonzero(~beyond[merged.passed :])
    if inside.size and not merged.wrong:
        i = merged.passed + int(inside[0])
        findings.append(
            _entry_finding("not-in-log", index, entries, i, "is not where a batch begins")
        )
    if not index.size and built.offset_index:
        entries_missing = len(built.offset_index) // offset_index.ENTRY_SIZE
        reason = (
            f"the file is empty, and a rebuild gives"
            f" {counted(entries_missing, 'entry')}: each search reads from the log's beginning"
        )
        findings.append(Finding("no-entries", name, reason))
    return _state(index, findings, other_rule)


def judge_time_index(case: Case) -> Verdict:
    """Return the verdict on a .timeindex.

    A missing file is no defect if a rebuild would leave it empty.
    """
    index, name, built, merged, other_rule, preallocated = case
    if index is None:
        return _missing(name, expected=bool(built.time_index))
    if not built.blocked and index.equals(built.time_index):
        return IndexState.EQUAL, []
    facts = built.facts
    entries = whole_entries(index.entries, time_index.ENTRY_SIZE, time_index.ENTRY)
    findings = [*index.findings, *_zeros(index, preallocated)]
    if index.size == time_index.ENTRY_SIZE and not any(index.data) and facts.max_timestamp != 0:
        reason = "one entry of zeros, but 0 is not the log's maximum"
        return IndexState.DEFECTIVE, [*findings, Finding("zero-entries", name, reason, 0, 0)]
    findings += _wrong(
        index, merged, entries, "followed by older offsets that hold its time or later ones"
    )
    beyond = entries["relative_offset"].astype(np.int64) > facts.last_offset - facts.base_offset
    findings += _beyond(index, entries, beyond, facts)
    if _stripped(facts, index, findings):
        reason = (
            "the log is of magic 0, which has no timestamps: these are from the"
            " messages before the broker stripped them"
        )
        return IndexState.SOUND, [*findings, Finding("timestamps-not-in-log", name, reason)]
    if not beyond.any():
        findings += _maximum(index, entries, facts, preallocated)
    return _state(index, findings, other_rule)


def _missing(name: str, *, expected: bool) -> Verdict:
    findings = [missing_index(name)] if expected else []
    return IndexState.MISSING, findings


def _state(index: Structure, findings: list[Finding], other_rule: bool) -> Verdict:
    if any(f.severity in {"damage", "danger"} for f in findings):
        return IndexState.DEFECTIVE, findings
    if not findings:
        kind = "other-rule" if other_rule else "sound"
        reason = (
            "as another generation's recovery builds it"
            if other_rule
            else "true, but not what a rebuild gives"
        )
        findings.append(Finding(kind, index.name, reason))
    return IndexState.SOUND, findings


def _zeros(index: Structure, preallocated: bool) -> list[Finding]:
    if not index.zeros:
        return []
    position = len(index.data)
    if preallocated:
        return [
            Finding(
                "preallocated", index.name, f"{counted(index.zeros, 'slot')} not used yet", position
            )
        ]
    reason = f"{counted(index.zeros, 'entry')} of zeros from entry {index.used} on"
    return [Finding("zero-entries", index.name, reason, position, index.used)]


def _wrong(index: Structure, merged: Merged, entries: Entries, what: str) -> list[Finding]:
    if not merged.wrong:
        return []
    more = f"; {merged.wrong} entries are like this" if merged.wrong > 1 else ""
    return [_entry_finding("not-in-log", index, entries, merged.first_wrong, f"is {what}{more}")]


def _beyond(
    index: Structure, entries: Entries, beyond: np.ndarray, facts: SegmentFacts
) -> list[Finding]:
    which = np.flatnonzero(beyond)
    if not which.size:
        return []
    end = f"the log ends at byte {facts.valid_bytes} with offset {facts.last_offset}"
    more = f"; {which.size} entries are like this" if which.size > 1 else ""
    return [
        _entry_finding(
            "beyond-end", index, entries, int(which[0]), f"lies behind the end: {end}{more}"
        )
    ]


def _maximum(
    index: Structure, entries: Entries, facts: SegmentFacts, preallocated: bool
) -> list[Finding]:
    if not index.used:
        # A broker preallocates before it appends, so it never leaves 0 bytes beside records with
        # timestamps.
        empty = facts.has_timestamps and not index.zeros and not (preallocated and index.size)
        reason = f"no entries, but the log has timestamps up to {facts.max_timestamp}"
        return (
            [Finding("empty-index", index.name, reason, expected=str(facts.max_timestamp))]
            if empty
            else []
        )
    if len(entries) < index.used:  # without order there is no last entry
        return []
    last = int(entries["timestamp"][-1])
    if last == facts.max_timestamp or (last < facts.max_timestamp and preallocated):
        return []
    kind = "below-maximum" if last < facts.max_timestamp else "above-maximum"
    reason = f"the last timestamp is {last}, the log's maximum {facts.max_timestamp}"
    i = len(entries) - 1
    return [
        Finding(
            kind, index.name, reason, i * entries.itemsize, i, str(facts.max_timestamp), str(last)
        )
    ]


def _stripped(facts: SegmentFacts, index: Structure, findings: list[Finding]) -> bool:
    """Return whether the entries are timestamps that a broker indexed and then stripped.

    0.10.1 and 0.10.2 do this with message.format.version below 0.10.
    """
    only_magic_0 = facts.magics[0] > 0 and not facts.magics[1] and not facts.magics[2]
    return only_magic_0 and bool(index.used) and not findings


def _entry_finding(kind: str, index: Structure, entries: Entries, i: int, what: str) -> Finding:
    text = ", ".join(str(v) for v in entries[i].item())
    return Finding(
        kind, index.name, f"entry {i} ({text}) {what}", i * entries.itemsize, i, found=text
    )
