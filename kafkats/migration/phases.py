"""The phases of a format migration: what each does to a broker and what it waits for.

    phase-1   somebody attests that every broker understands the new format, which no disk shows.
              Then its disks are certified to hold nothing newer than the old format. Newer stray
              batches may be converted back.
    canary    one broker is converted and verified while the others stay unchanged, and a person
              approves it
    phase-2   the other brokers, one after the other
    rollback  of any broker, by undo or by converting back; it may then be converted again

All are pure functions over a ledger. A run that writes records `started` with its run id before its
first byte. Otherwise two canaries that both passed `gate` would both be written. The same run may
record it again, so a task may be retried.

Source: the migration plans of KIP-31 and KIP-32 (phase 1, phase 2, canary, roll-back).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Literal, NamedTuple

from kafkats.errors import CorruptFile, Refused, UsageError
from kafkats.migration.ledger import Entry, append
from kafkats.migration.state import (
    UP,
    Broker,
    Migration,
    as_phase,
    find,
    missing,
    refuse_for,
    standing,
    step,
)


class Work(NamedTuple):
    """The work of a phase on a broker: convert batches to `target_magic`.

    `event` ends it in the ledger. The certificate afterwards claims `min_magic` or `max_magic`.
    `undo` are the runs, latest first, to undo instead of a rollback by conversion.
    """

    target_magic: int
    event: Literal["converted", "converted-back"]
    min_magic: int | None
    max_magic: int | None
    undo: tuple[str, ...]


def state(entries: Iterable[Entry]) -> Migration | None:
    """Return the state after these entries, None before the first `begin`.

    Raises CorruptFile for entries that are out of order or unknown.
    """
    migration = None
    for entry in entries:
        try:
            migration = step(migration, entry)
        except (Refused, UsageError) as e:
            raise CorruptFile(
                f"entry {entry.number} of the ledger cannot stand there: {e.reason}"
            ) from e
    return migration


def check(entries: Sequence[Entry], entry: Entry) -> None:
    """Check that the entry may follow these, for `ledger.append`.

    Raises Refused, UsageError, CorruptFile.
    """
    step(state(entries), entry)


append_step: Final = partial(append, check=check)
"""Append an entry that the phases allow. Raises as `check` and `ledger.append`."""


def gate(entries: Iterable[Entry], phase: str, broker: str) -> None:
    """Check that a run of this phase may start on this broker.

    Raises Refused with everything that is missing, CorruptFile. This reserves nothing: the entry
    `started` does, and is checked by the same rules.
    """
    migration, who = find(state(entries), broker)
    refuse_for(missing(migration, who, phase), phase, broker)


def rows(migration: Migration) -> list[dict[str, str | list[str]]]:
    """Return one row per broker for people: status, runs, the next step and what it waits for."""
    return [_row(migration, who) for who in migration.brokers.values()]


def work(migration: Migration, phase: str, broker: str) -> Work:
    """Return what this phase does on this broker, whether or not it may.

    Raises Refused, UsageError.
    """
    _, who = find(migration, broker)
    old, new = migration.from_magic, migration.to_magic
    if as_phase(phase) in UP:
        return Work(new, "converted", new, None, ())
    if phase == "phase-1":
        return Work(old, "converted", None, old, ())
    runs = tuple(run.run_id for run in reversed(standing(who)) if run.phase != "phase-1")
    return Work(old, "converted-back", None, old, runs)


class Fetcher(NamedTuple):
    """Clients that send these versions of a fetch request, and the newest magic that they read."""

    versions: str
    newest_magic: int
    clients: str
    followers: str


FETCHERS: Final = (
    Fetcher("0-1", 0, "consumers of 0.8 and 0.9", "inter.broker.protocol.version below 0.10.0"),
    Fetcher("2-3", 1, "consumers of 0.10", "inter.broker.protocol.version 0.10.0 to 0.10.2"),
    Fetcher(
        "4+", 2, "consumers of 0.11 and later", "inter.broker.protocol.version 0.11.0 and later"
    ),
)
"""KIP-31, KIP-32, KIP-98; ReplicaFetcherThread of Kafka 0.10 to 3.9.

Brokers from 4.0 on know only 4+ and convert nothing.
"""


def lose_zero_copy(from_magic: int, to_magic: int) -> tuple[Fetcher, ...]:
    """Return who gets batches of `from_magic` unconverted and those of `to_magic` converted."""
    return tuple(f for f in FETCHERS if from_magic <= f.newest_magic < to_magic)


def _row(migration: Migration, who: Broker) -> dict[str, str | list[str]]:
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
    steps = {
        "listed": "attest",
        "attested": "certify",
        "converting": "convert",
        "converted": "verify",
    }
    return steps.get(who.status, "rollback" if who.status == "rolling-back" else "")
