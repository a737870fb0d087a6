"""The phases of a format migration: what each may do to which broker, and what it waits for. Pure functions over a ledger.

    phase-1   every broker understands the new format (attest: nobody can see that on a disk), and then its disks are seen
              to hold nothing newer than the old one (certified); stray newer batches may be converted back
    canary    one broker is converted and verified while the others stay as they are, and approved by a person
    phase-2   the others, one after the other
    rollback  of any of them, by undo or by converting back; then it may go again

A writing run says `started` before its first byte, with its run id: two canaries that were both let through by `gate`
would otherwise both be written. The same run may say the same again, so a task may be retried.

Source: the migration plans of KIP-31 and KIP-32 (phase 1, phase 2, canary, roll-back).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import CorruptFile, Refused, UsageError
from kafkats.ledger import Entry
from kafkats.migration import EVENTS, PHASES, UP, Broker, Migration, as_phase, find, missing, refuse_for, standing, step

__all__ = [
    "EVENTS",
    "FETCHERS",
    "PHASES",
    "Broker",
    "Fetcher",
    "Migration",
    "Work",
    "check",
    "concerns",
    "gate",
    "lose_zero_copy",
    "rows",
    "state",
    "strays",
    "work",
]


class Work(NamedTuple):
    """What a phase does on a broker's disks: `target_magic` for every batch that `concerns` finds.

    `event` ends it in the ledger, the certificate of what is there then says `min_magic` or `max_magic`, and `undo` are
    the runs, latest first, whose undoing is the other way to roll back.
    """

    target_magic: int
    direction: Literal["up", "down"]
    event: Literal["converted", "converted-back"]
    min_magic: int | None
    max_magic: int | None
    undo: tuple[str, ...]


def state(entries: Iterable[Entry]) -> Migration | None:
    """Where everything stands; None before the first `begin`.

    Raises CorruptFile for entries that could not have come in this order, or that this kafkats does not know.
    """
    migration = None
    for entry in entries:
        try:
            migration = step(migration, entry)
        except (Refused, UsageError) as e:
            raise CorruptFile(f"entry {entry.number} of the ledger cannot stand there: {e.reason}") from e
    return migration


def check(entries: Sequence[Entry], entry: Entry) -> None:
    """Whether the entry may follow these: what `ledger.append` asks. Raises Refused, UsageError, CorruptFile."""
    step(state(entries), entry)


def gate(entries: Iterable[Entry], phase: str, broker: str) -> None:
    """Whether a run of this phase may start on this broker. Raises Refused, which names all that is missing; CorruptFile.

    Nothing is reserved by it: that is for the entry `started`, which is held to the same.
    """
    migration, who = find(state(entries), broker)
    refuse_for(missing(migration, who, phase), phase, broker)


def rows(migration: Migration) -> list[dict[str, Any]]:
    """One row per broker, for people: where it stands, which runs stand there, what comes next and what that waits for."""
    return [_row(migration, who) for who in migration.brokers.values()]


def work(migration: Migration, phase: str, broker: str) -> Work:
    """What this phase has to do on this broker, whether or not it may. Raises Refused, UsageError."""
    _, who = find(migration, broker)
    old, new = migration.from_magic, migration.to_magic
    if as_phase(phase) in UP:
        return Work(new, "up", "converted", new, None, ())
    if phase == "phase-1":
        return Work(old, "down", "converted", None, old, ())
    runs = tuple(run.run_id for run in reversed(standing(who)) if run.phase != "phase-1")
    return Work(old, "down", "converted-back", None, old, runs)


def concerns(work: Work, magic: int) -> bool:
    """Whether a batch of this magic is to be converted: those on the other side of the target alone."""
    return magic < work.target_magic if work.direction == "up" else magic > work.target_magic


_SEGMENT: Final = ["log_dir", "partition_dir", "topic", "partition", "base_offset", "magic"]
_COUNTS: Final = [
    "bytes",
    "batches",
    "control_batches",
    "transactional_batches",
    "producer_batches",
    "delete_horizon_batches",
]


def strays(census: pa.Table, from_magic: int) -> pa.Table:
    """The batches newer than the format that phase 1 promises, one row per segment and magic, sorted.

    `census` has a row per segment, magic, codec and timestamp type, with the columns named here; the counts say what
    converting them back would lose.
    """
    newer = census.filter(pc.greater(census["magic"], from_magic)).select([*_SEGMENT, *_COUNTS])
    summed = newer.group_by(_SEGMENT, use_threads=False).aggregate([(name, "sum") for name in _COUNTS])
    named = summed.select([*_SEGMENT, *(f"{name}_sum" for name in _COUNTS)]).rename_columns([*_SEGMENT, *_COUNTS])
    return named.sort_by([(name, "ascending") for name in _SEGMENT])


class Fetcher(NamedTuple):
    """Who sends which versions of the fetch request, and the newest magic that these understand."""

    versions: str
    newest_magic: int
    clients: str
    followers: str


FETCHERS: Final = (
    Fetcher("0-1", 0, "consumers of 0.8 and 0.9", "inter.broker.protocol.version below 0.10.0"),
    Fetcher("2-3", 1, "consumers of 0.10", "inter.broker.protocol.version 0.10.0 to 0.10.2"),
    Fetcher("4+", 2, "consumers of 0.11 and later", "inter.broker.protocol.version 0.11.0 and later"),
)
"""KIP-31, KIP-32, KIP-98; ReplicaFetcherThread of Kafka 0.10 to 3.9. Brokers from 4.0 know 4+ alone, and convert nothing."""


def lose_zero_copy(from_magic: int, to_magic: int) -> tuple[Fetcher, ...]:
    """Who gets batches of `from_magic` as they lie on the disk, and would get those of `to_magic` converted."""
    return tuple(f for f in FETCHERS if from_magic <= f.newest_magic < to_magic)


def _row(migration: Migration, who: Broker) -> dict[str, Any]:
    following = _next(migration, who)
    waits = missing(migration, who, following) if following in UP else []
    return {
        "broker": who.name,
        "status": who.status,
        "phase": who.phase,
        "at": who.at,
        "by": who.by,
        "runs": [r.run_id for r in standing(who)],
        "next": following,
        "waits_for": "; ".join(waits),
    }


def _next(migration: Migration, who: Broker) -> str:
    if who.status in {"certified", "rolled-back"}:
        return "phase-2" if migration.canary else "canary"
    if who.status == "verified" and who.phase == "canary":
        return "approve"
    steps = {"listed": "attest", "attested": "certify", "converting": "convert", "converted": "verify"}
    return steps.get(who.status, "rollback" if who.status == "rolling-back" else "")
