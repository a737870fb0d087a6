"""Compare epochs, aborted transactions and producer snapshots with the headers of the log.

The pass checks no checksums and decodes only transaction markers. It ends at the first unreadable
place of the log, which is a finding of its segment. What lies behind is not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from kafkats import paths
from kafkats.errors import KafkatsError
from kafkats.evidence.aborted import Aborted, aborted_findings
from kafkats.evidence.claims import Claims
from kafkats.evidence.epochs import EpochCheck
from kafkats.evidence.looking import was_compacted
from kafkats.evidence.snapshots import Compared, Doubt, compare, snapshot_finding, still_known
from kafkats.findings import Finding
from kafkats.index import txn_index
from kafkats.index.entries import Entries
from kafkats.kernels import headers_state as k
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.partition import PartitionDir, SegmentFiles
from kafkats.logdir.producers import Marker, OpenTransactions, Producers, advance
from kafkats.logdir.snapshot import ProducerEntry, read_snapshot
from kafkats.segment.headers import Rows, batch_headers
from kafkats.segment.reader import Source, open_source

_NO_ENTRIES: Final = np.empty(0, txn_index.ENTRY)
_ABSENT: Final = -(2**63)


def replay_findings(
    partition: PartitionDir, claims: Claims, epochs: Sequence[EpochStart]
) -> Iterator[Finding]:
    """Yield the errors in epochs, aborted transactions and snapshots of one partition directory.

    Beside an unfinished replacement of segments only the transaction indexes that it leaves alone
    are compared, up to the first gap. The rest changes at the next start of the broker.
    """
    if not partition.segments or (claims.unsettled and not claims.replacing):
        return
    replay = _Replay(partition, claims, epochs)
    if claims.unsettled:
        with suppress(KafkatsError):  # a finding of its segment
            yield from replay.indexes_left_alone(f.file for f in partition.findings)
        return
    with suppress(KafkatsError):  # damaged, or deleted meanwhile: a finding of its segment
        for segment in partition.segments:
            yield from replay.segment(segment)
    yield from replay.snapshot_findings()


class _Replay:
    """The producers known so far, and the results for snapshots on the way."""

    def __init__(
        self, partition: PartitionDir, claims: Claims, epochs: Sequence[EpochStart]
    ) -> None:
        self._directory, self._claims = partition.path, claims
        self._segments = partition.segments
        self._epochs = EpochCheck(epochs, 0 if claims.live else claims.flushed_to)
        self._snapshots = dict(_snapshots(partition))
        self._first = partition.segments[0].base_offset
        self._known: Producers = {}
        self._markers: dict[int, int] = {}
        self._open = OpenTransactions()
        self._present: set[int] = set()
        self._aborts: list[Aborted] = []
        self._end = -1
        """The offset after the last batch seen."""
        self._gap = False
        self._whole: bool | None = None
        self._compared: dict[int, Compared] = {}
        self._begin()

    def _begin(self) -> None:
        """Start from the snapshot at the log's first offset, if that is not 0."""
        first = self._snapshots.get(self._first)
        self._from_start = self._first == 0
        if first is not None and all(
            max(e.last_offset, e.txn_first_offset) < self._first for e in first
        ):
            self._known = {e.producer_id: e for e in first}
            self._open = OpenTransactions(first)
            self._from_start = True

    @property
    def _exact(self) -> bool:
        """Return whether the log holds every batch written since its first offset.

        Determined on first use.
        """
        if self._whole is None:
            cleaned = self._claims.compacted or was_compacted(self._directory) is not False
            self._whole = self._from_start and not cleaned and self._claims.log_start <= self._first
        return self._whole and not self._gap

    def segment(self, segment: SegmentFiles) -> Iterator[Finding]:
        """Yield the findings of the next segment.

        Raises CorruptBatch, Changed, Vanished, StorageFailed.
        """
        log = segment.log.name
        self._aborts = []
        self._gap |= segment.base_offset > max(self._end, self._first)
        try:
            with open_source(self._directory / log) as source:
                for rows in batch_headers(source):
                    self._epochs.add(rows)
                    self._end = int(rows[-1, k.LAST_OFFSET]) + 1
                    self._producers(rows, source)
        finally:
            yield from self._epochs.findings(log)
        if not self._recovered(segment):
            yield from self._aborted(segment)

    def indexes_left_alone(self, replacements: Iterable[str]) -> Iterator[Finding]:
        """Yield the findings of transaction indexes that no `.swap` of `replacements` replaces.

        Raises CorruptBatch, Changed, Vanished, StorageFailed.
        """
        self._whole = False
        parsed = [paths.parse_segment_file(name) for name in replacements if name.endswith(".swap")]
        replaced = {one.base_offset for one in parsed if one is not None}
        for segment in self._segments:
            if segment.base_offset != max(self._end, self._first):
                return
            name = paths.segment_file(segment.base_offset, paths.TXN_INDEX)
            findings = [finding for finding in self.segment(segment) if finding.file == name]
            if segment.base_offset not in replaced:
                yield from findings

    def _recovered(self, segment: SegmentFiles) -> bool:
        """Return whether a broker still writes this .txnindex, or rebuilds it at its next start."""
        bases = [s.base_offset for s in self._segments]
        following = bases[bases.index(segment.base_offset) + 1 :]
        if self._claims.live and not following:
            return True
        return not following or following[0] > self._claims.flushed_to if self._unclean else False

    @property
    def _unclean(self) -> bool:
        return self._claims.rooted and not self._claims.clean

    def _producers(self, rows: Rows, source: Source) -> None:
        """Replay the batches, and compare the snapshots whose offsets lie between them."""
        last = rows[:, k.LAST_OFFSET]
        due = [offset for offset in sorted(self._snapshots) if offset not in self._compared]
        begin = 0
        for offset in due:
            if offset > int(last[-1]):
                break
            end = int(np.searchsorted(last, offset))
            self._advance(rows[begin:end], source)
            self._compare(offset)
            begin = max(begin, end)
        self._advance(rows[begin:], source)

    def _advance(self, rows: Rows, source: Source) -> None:
        advance(self._known, rows[rows[:, k.PRODUCER_ID] >= 0], source, self._tell)

    def _tell(self, row: Sequence[int], before: ProducerEntry, marker: Marker | None) -> None:
        producer, offset = before.producer_id, row[k.LAST_OFFSET]
        after = self._known[producer]
        if marker is None:
            self._open.add(after)
            inside = after.txn_first_offset >= 0
            if inside and row[k.COUNT] > 0 and offset >= self._claims.log_start:
                self._present.add(producer)
            return
        self._markers[producer] = offset
        first = self._open.end(producer)
        if marker.aborts and first >= 0:
            stable = self._open.last_stable(offset)
            present = producer in self._present
            self._aborts.append(Aborted(producer, first, offset, stable, row[k.AT], present))
        elif marker.aborts:  # a transaction without a batch here, or whose batches were removed
            self._aborts.append(Aborted(producer, -1, offset, offset + 1, row[k.AT], present=False))
        self._present.discard(producer)

    def _compare(self, offset: int) -> None:
        entries = self._snapshots[offset]
        known = dict(self._known)
        judge = partial(compare, offset, entries, known, dict(self._markers), self._first)
        compared = judge(exact=False)
        if (
            compared.wrong
            or any(_transaction_differs(e, known) for e in entries)
            or _open_and_absent(entries, known)
        ):
            compared = judge(exact=self._exact)
        self._compared[offset] = compared

    def snapshot_findings(self) -> Iterator[Finding]:
        """Yield a finding per wrong snapshot, after the last segment.

        These are the snapshots compared on the way and the one at the log's end.
        """
        if self._end in self._snapshots and self._end not in self._compared:
            self._compare(self._end)
        owners = _owners(
            self._directory, self._segments, [d for c in self._compared.values() for d in c.doubts]
        )
        wrong: dict[int, list[str]] = defaultdict(list)
        for offset, compared in self._compared.items():
            wrong[offset] += compared.wrong
            wrong[offset] += [why for d in compared.doubts if (why := self._unowned(d, owners))]
            later = [self._snapshots[other] for other in sorted(self._compared) if other > offset]
            wrong[offset] += still_known(compared.absent, later[0]) if later else []
        for offset, sentences in wrong.items():
            if sentences:
                yield snapshot_finding(paths.segment_file(offset, paths.SNAPSHOT), sentences)

    def _unowned(self, doubt: Doubt, owners: dict[int, int]) -> str:
        """Return how the batch at the producer's last offset contradicts the snapshot, or ""."""
        entry, owner = doubt.entry, owners.get(doubt.entry.last_offset, _ABSENT)
        if owner == _ABSENT and not self._exact:
            return ""
        if owner == entry.producer_id:
            return f"producer {owner} has no batch that ends at offset {entry.last_offset}"
        other = (
            f"is producer {owner}'s"
            if owner >= 0
            else "is no producer's"
            if owner == -1
            else "is not there"
        )
        return (
            f"producer {entry.producer_id} is said to have written the batch at offset"
            f" {entry.last_offset}, which {other}"
        )

    def _aborted(self, segment: SegmentFiles) -> Iterator[Finding]:
        name = paths.segment_file(segment.base_offset, paths.TXN_INDEX)
        entries: Entries = _NO_ENTRIES
        if paths.TXN_INDEX in segment.files:
            entries = txn_index.read(self._directory / name)
        marked = {(a.producer_id, a.last_offset): a for a in self._aborts}
        keys = [(int(e["producer_id"]), int(e["last_offset"])) for e in entries]
        unmarked = [n for n, key in enumerate(keys) if key not in marked]
        owners = _batches_at(self._directory / segment.log.name, [keys[n][1] for n in unmarked])
        contradicted = [n for n in unmarked if keys[n][1] in owners]
        suspicious = unmarked or any(_entry_differs(e, marked) for e in entries)
        exact = bool(suspicious) and self._exact
        yield from aborted_findings(
            name, entries, self._aborts, exact=exact, contradicted=contradicted
        )


def _entry_differs(entry: np.void, marked: dict[tuple[int, int], Aborted]) -> bool:
    a = marked.get((int(entry["producer_id"]), int(entry["last_offset"])))
    return (
        a is not None and (int(entry["first_offset"]), int(entry["last_stable_offset"])) != a[1:4:2]
    )


def _transaction_differs(entry: ProducerEntry, known: Producers) -> bool:
    there = known.get(entry.producer_id)
    return there is not None and there.txn_first_offset != entry.txn_first_offset


def _open_and_absent(entries: Iterable[ProducerEntry], known: Producers) -> bool:
    named = {entry.producer_id for entry in entries}
    return any(p.txn_first_offset >= 0 and p.producer_id not in named for p in known.values())


def _snapshots(partition: PartitionDir) -> Iterator[tuple[int, list[ProducerEntry]]]:
    names = [s.files[paths.SNAPSHOT].name for s in partition.segments if paths.SNAPSHOT in s.files]
    names += [f.name for f in partition.others if f.name.endswith(paths.SNAPSHOT)]
    for name in names:
        parsed = paths.parse_segment_file(name)
        if parsed is not None and parsed.base_offset >= partition.segments[0].base_offset:
            with suppress(KafkatsError):  # an unreadable snapshot is a finding of its own
                yield parsed.base_offset, read_snapshot(partition.path / name)


def _owners(
    directory: Path, segments: Sequence[SegmentFiles], doubts: Sequence[Doubt]
) -> dict[int, int]:
    """Return the producer id per offset of `doubts`, -1 for a batch without a producer.

    Offsets in no batch are left out.
    """
    offsets = sorted({doubt.entry.last_offset for doubt in doubts})
    bases = [s.base_offset for s in segments]
    owners: dict[int, int] = {}
    for n, segment in enumerate(segments):
        end = bases[n + 1] if n + 1 < len(bases) else 2**63 - 1
        wanted = [offset for offset in offsets if segment.base_offset <= offset < end]
        owners |= _batches_at(directory / segment.log.name, wanted)
    return owners


def _batches_at(log: Path, offsets: Sequence[int]) -> dict[int, int]:
    """Return the producer ids of the batches that hold these offsets, by offset.

    Offsets whose batch is missing or unreadable are left out.
    """
    counts: dict[int, int] = {}
    if not offsets:
        return counts
    wanted = np.array(sorted(offsets), np.int64)
    with suppress(KafkatsError), open_source(log) as source:
        for rows in batch_headers(source):
            at = np.searchsorted(rows[:, k.LAST_OFFSET], wanted)
            for offset, n in zip(wanted.tolist(), at.tolist(), strict=True):
                if n < len(rows) and rows[n, k.FIRST_OFFSET] <= offset:
                    counts[offset] = int(rows[n, k.PRODUCER_ID])
    return counts
