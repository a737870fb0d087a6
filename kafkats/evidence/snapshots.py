"""Compare a `.snapshot` with the producers that a replay of the log finds at its offset.

A producer that the snapshot lacks has expired by the broker's clock, unless a later snapshot still
has it or its transaction is open. A producer that the snapshot has must match the log: its last
batch lies below the snapshot's offset and belongs to it, and no later batch of it follows. In 0.11
a marker counts as a batch. A batch that the cleaner or retention removed contradicts nothing.
Source: ProducerStateManager of Kafka 0.11 to 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkats.findings import Finding
from kafkats.logdir.producers import Producers
from kafkats.logdir.snapshot import ProducerEntry


class Doubt(NamedTuple):
    """A snapshot's producer that differs from the replay. The batch at its last offset decides."""

    offset: int
    """The offset of the snapshot."""
    entry: ProducerEntry


class Compared(NamedTuple):
    """The result of comparing one snapshot. `wrong` are sentences."""

    wrong: list[str]
    doubts: list[Doubt]
    absent: dict[int, int]
    """Last offset by producer id, for producers that the log has and the snapshot lacks."""


def compare(
    offset: int, entries: Sequence[ProducerEntry], known: Producers, markers: Mapping[int, int],
    first_offset: int, *, exact: bool,
) -> Compared:  # fmt: skip
    """Compare `entries` of the snapshot at `offset` with the producers `known` at that offset.

    `markers` are the offsets of the producers' last markers. `first_offset` is where the log
    begins. `exact`: the replay saw every batch that was written.
    """
    result = Compared([], [], {})
    for entry in entries:
        why = _impossible(offset, entry) or _differs(
            entry, known.get(entry.producer_id), markers, exact=exact
        )
        if why:
            result.wrong.append(f"producer {entry.producer_id} {why}")
        elif (
            _unseen(entry, known.get(entry.producer_id), markers)
            and entry.last_offset >= first_offset
        ):
            result.doubts.append(Doubt(offset, entry))
    named = {entry.producer_id for entry in entries}
    for producer in known.values():
        if producer.producer_id not in named:
            result.absent[producer.producer_id] = producer.last_offset
            if exact and producer.txn_first_offset >= 0:
                begun = producer.txn_first_offset
                result.wrong.append(
                    f"producer {producer.producer_id} is missing, whose transaction is open"
                    f" since {begun}"
                )
    return result


def _impossible(offset: int, entry: ProducerEntry) -> str:
    above = max(entry.last_offset, entry.txn_first_offset)
    return (
        f"is said to have written at offset {above}, behind the snapshot's own end"
        if above >= offset
        else ""
    )


def _differs(
    entry: ProducerEntry, known: ProducerEntry | None, markers: Mapping[int, int], *, exact: bool
) -> str:
    if known is None:
        return ""
    if known.last_offset > entry.last_offset and entry.last_offset >= 0:
        return (
            f"has a batch up to offset {known.last_offset} in the log, the snapshot knows"
            f" {entry.last_offset}"
        )
    same = (
        known.last_offset == entry.last_offset >= 0
        and markers.get(entry.producer_id, -1) < known.last_offset
    )
    fields = ("producer_epoch", "last_sequence", "offset_delta")
    for name in fields if same else ():
        if getattr(entry, name) != getattr(known, name):
            return f"has {name} {getattr(known, name)} in the log, {getattr(entry, name)} here"
    if exact and entry.txn_first_offset != known.txn_first_offset:
        return (
            f"has an open transaction from {known.txn_first_offset} in the log, from"
            f" {entry.txn_first_offset} here"
        )
    return ""


def _unseen(entry: ProducerEntry, known: ProducerEntry | None, markers: Mapping[int, int]) -> bool:
    if known is None:
        return entry.last_offset >= 0
    marked = entry.last_offset == markers.get(entry.producer_id, -2)
    as_marker = marked and (entry.offset_delta, entry.last_sequence) == (0, known.last_sequence)
    return entry.last_offset not in (known.last_offset, -1) and not as_marker


def still_known(absent: Mapping[int, int], later: Sequence[ProducerEntry]) -> list[str]:
    """Return why a snapshot without the producers `absent` is wrong, by a `later` snapshot."""
    return [
        f"producer {e.producer_id} is missing, which a later snapshot has with its last"
        f" batch at {e.last_offset}"
        for e in later
        if e.last_offset >= 0 and absent.get(e.producer_id) == e.last_offset
    ]


def snapshot_finding(name: str, wrong: Sequence[str]) -> Finding:
    """Return the finding for a snapshot file."""
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Finding(
        "wrong-producers", name, f"{wrong[0]}{more}: it is not of this log, or was changed"
    )
