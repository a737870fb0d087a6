"""Compare a segment's `.txnindex` with the abort markers in its log.

An abort marker that ends a transaction has an entry in the index of its own segment. The entry
holds the producer, the first offset of the transaction, the marker's offset, and the last stable
offset at that time: the first offset of the oldest other open transaction, else the offset after
the marker. A marker of a transaction without a batch in this partition has no entry. The cleaner
removes aborted batches and may leave their entry; later it removes both. In a compacted log the
first offset of an entry is therefore not compared for equality. Source: ProducerAppendInfo,
ProducerStateManager.lastStableOffset, CleanedTransactionMetadata of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkats.findings import Finding
from kafkats.index.entries import Entries
from kafkats.index.txn_index import ENTRY_SIZE


class Aborted(NamedTuple):
    """A transaction that an abort marker in the log ended."""

    producer_id: int
    first_offset: int
    """-1: it began before the replayed batches."""
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    position: int
    """The position of the marker in the .log."""
    present: bool
    """Whether the log has records of the transaction."""


def aborted_findings(
    index: str,
    entries: Entries,
    aborts: Sequence[Aborted],
    *,
    exact: bool,
    contradicted: Sequence[int],
) -> Iterator[Finding]:
    """Yield what is missing or wrong in a .txnindex, at most one finding each.

    `index` is the file's name, `entries` its content (dtype txn_index.ENTRY, empty for a missing
    file). `exact`: the log holds every batch that was written. `contradicted` are the numbers of
    entries whose last offset lies in a batch that is no abort marker of their producer.
    """
    there = {
        (int(e["producer_id"]), int(e["last_offset"])): (
            n,
            int(e["first_offset"]),
            int(e["last_stable_offset"]),
        )
        for n, e in enumerate(entries)
    }
    yield from _missing(
        index, [a for a in aborts if a.present and (a.producer_id, a.last_offset) not in there]
    )
    wrong = dict.fromkeys(contradicted, "where the log has no abort marker of this producer")
    marked = {(a.producer_id, a.last_offset) for a in aborts}
    if exact:
        gone = (n for key, (n, _, _) in there.items() if key not in marked)
        wrong |= dict.fromkeys(gone, "where the log has no abort marker of this producer")
    for a in aborts:
        if (a.producer_id, a.last_offset) in there:
            n, first, stable = there[a.producer_id, a.last_offset]
            why = _differs(a, first, stable, exact=exact)
            wrong |= {n: why} if why else {}
    yield from _wrong(index, entries, wrong)


def _missing(index: str, lost: Sequence[Aborted]) -> Iterator[Finding]:
    if lost:
        a = lost[0]
        more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
        reason = (
            f"no entry for the transaction of producer {a.producer_id} that the marker at"
            f" offset {a.last_offset} aborts{more}:"
            " consumers with read_committed are shown its records"
        )
        yield Finding("missing-aborted", index, reason)


def _differs(a: Aborted, first: int, stable: int, *, exact: bool) -> str:
    """Return what an entry gets wrong about the transaction `a`, or ""."""
    if stable > a.last_offset + 1:
        return f"its last stable offset lies above {a.last_offset + 1}"
    if a.first_offset < 0:
        return ""
    if first > a.first_offset or (exact and first != a.first_offset):
        return f"the transaction begins at offset {a.first_offset}"
    if exact and stable != a.last_stable_offset:
        return f"the last stable offset was {a.last_stable_offset}"
    return ""


def _wrong(index: str, entries: Entries, wrong: dict[int, str]) -> Iterator[Finding]:
    if wrong:
        n = min(wrong)
        more = f"; {len(wrong)} entries are like this" if len(wrong) > 1 else ""
        text = ", ".join(str(v) for v in entries[n].item()[1:])
        yield Finding(
            "wrong-aborted",
            index,
            f"entry {n} ({text}): {wrong[n]}{more}",
            n * ENTRY_SIZE,
            n,
            found=text,
        )
