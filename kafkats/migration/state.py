"""The state of a format migration: each broker's status, the effect of each event, and their order.

    listed -attest-> attested -certified-> certified -started-> converting
    converting -converted-> converted -verified-> verified
    verified -approved-> approved                                         (only the canary)
    from converting on: -started (rollback), undone-> rolling-back
    rolling-back -undone, converted-back-> rolled-back
    certified -started (phase-1)-> attested: what that run writes must be certified again

Every step is a pure function that refuses an event out of order. Other modules use `phases`.
docs/decisions/phases.md gives the reason for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from kafkats.errors import Refused, UsageError
from kafkats.migration.ledger import Entry
from kafkats.migration.options import PHASES

OLD: Final = ("listed", "attested", "certified", "rolled-back")
"""Statuses of a broker whose disks hold the old format."""
NEW: Final = ("converting", "converted", "verified", "approved", "rolling-back")
_BUSY: Final = ("converting", "converted", "rolling-back")
UP: Final = ("canary", "phase-2")
_MAGICS: Final = range(3)


class Run(NamedTuple):
    """A run that writes or wrote on a broker's disks."""

    run_id: str
    phase: str
    state: Literal["started", "finished", "undone"]


class Broker(NamedTuple):
    """The state of a broker: `status` is one of OLD or NEW, `phase` the current or last one.

    `at` and `by` are those of its last entry.
    """

    name: str
    status: str = "listed"
    phase: str = ""
    runs: tuple[Run, ...] = ()
    at: str = ""
    by: str = ""


class Migration(NamedTuple):
    """The migration of the last `begin`, from a magic to a higher one."""

    from_magic: int
    to_magic: int
    brokers: Mapping[str, Broker]

    @property
    def canary(self) -> Broker | None:
        """The current canary. A broker that was rolled back is no longer the canary."""
        return next(
            (b for b in self.brokers.values() if b.phase == "canary" and b.status in NEW), None
        )


def missing(migration: Migration, who: Broker, phase: str) -> list[str]:
    """Return why a run of this phase may not start on this broker, [] if it may.

    Raises UsageError for an unknown phase.
    """
    if as_phase(phase) == "rollback":
        return [] if who.status in NEW else [f"there is nothing to roll back, it is {who.status}"]
    if who.status == "rolling-back":
        return ["it is being rolled back"]
    if phase == "phase-1":
        return _first_phase(who)
    if who.status in NEW and who.phase != phase:
        return [f"it was converted as {who.phase} and is {who.status}"]
    others = [b for b in migration.brokers.values() if b.name != who.name]
    order = _canary_order if phase == "canary" else _second_order
    return [*_phase_1_incomplete(migration), *order(migration, who), *_unverified(others)]


def _first_phase(who: Broker) -> list[str]:
    if who.status in NEW:
        return [f"it is {who.status}; only a rollback goes down from there"]
    return (
        ["nobody has attested that it understands the new format"] if who.status == "listed" else []
    )


def _phase_1_incomplete(migration: Migration) -> list[str]:
    missing = [
        ("nobody has attested that the new format is understood by", "listed"),
        ("there is no certificate of phase 1 for", "attested"),
    ]
    brokers = migration.brokers.values()
    named = [
        (why, named_brokers(b.name for b in brokers if b.status == status))
        for why, status in missing
    ]
    return [f"{why} {who}" for why, who in named if who]


def _canary_order(migration: Migration, who: Broker) -> list[str]:
    canary = migration.canary
    return (
        []
        if canary is None or canary.name == who.name
        else [f"broker {canary.name} is the canary; there is one"]
    )


def _second_order(migration: Migration, who: Broker) -> list[str]:
    canary = migration.canary
    if canary is None:
        return ["there is no canary"]
    if canary.status == "approved":
        return []
    lacking = "approved" if canary.status == "verified" else "verified"
    return [f"the canary, broker {canary.name}, is {canary.status}, not {lacking}"]


def _unverified(others: Iterable[Broker]) -> list[str]:
    # _second_order covers the canary
    busy = [b for b in others if b.status in _BUSY and b.phase == "phase-2"]
    return [f"broker {b.name} is {b.status}; one broker at a time" for b in busy]


def refuse_for(reasons: Sequence[str], phase: str, broker: str) -> None:
    """Raise Refused with these reasons, if there are any."""
    if reasons:
        raise Refused(f"{phase} of broker {broker}: {'; '.join(reasons)}")


def step(migration: Migration | None, entry: Entry) -> Migration:
    """Return the state after one more entry.

    Raises Refused when it is out of order, UsageError when it lacks a required field.
    """
    if entry.event == "begin":
        return _begin(migration, entry)
    if entry.event not in EVENTS:
        raise UsageError(f"no event of a migration: {entry.event!r}")
    migration, who = find(migration, entry.broker)
    after = EVENTS[entry.event](migration, who, entry)
    after = after._replace(at=entry.at, by=entry.by)
    return migration._replace(brokers={**migration.brokers, who.name: after})


def _begin(migration: Migration | None, entry: Entry) -> Migration:
    old, new = _magic(entry, "from_magic"), _magic(entry, "to_magic")
    if old >= new:
        raise UsageError(
            f"from magic {old} to {new}: the phases go up; a rollback goes down, or a plan"
            " without a ledger"
        )
    listed = entry.details.get("brokers")
    listed = listed if isinstance(listed, list) else []
    names = [name for name in listed if isinstance(name, str) and name.strip()]
    if not names or len(names) < len(listed):
        raise UsageError("the entry begin names no brokers")
    if len(set(names)) < len(names):
        raise UsageError("the entry begin names a broker twice")
    known: Mapping[str, Broker] = {}
    if migration is not None:
        if (migration.from_magic, migration.to_magic) == (old, new):
            known = migration.brokers  # brokers may change during the weeks of a migration
            _let_go(migration, [b for name, b in known.items() if name not in names])
        else:
            _let_end(migration)
    return Migration(
        old, new, {name: known.get(name, Broker(name, at=entry.at, by=entry.by)) for name in names}
    )


def _let_go(migration: Migration, leaving: Iterable[Broker]) -> None:
    held = [b for b in leaving if b.status in _BUSY or b == migration.canary]
    if held:
        raise Refused(
            "; ".join(
                f"broker {b.name} is {b.status} ({b.phase}) and cannot be left out" for b in held
            )
        )


def _let_end(migration: Migration) -> None:
    brokers = migration.brokers.values()
    pending = [b for b in brokers if not _finished(b)]
    if pending and any(b.status in NEW for b in brokers):
        where = "; ".join(f"broker {b.name} is {b.status}" for b in pending)
        raise Refused(
            f"the migration from magic {migration.from_magic} to {migration.to_magic} is"
            f" under way: {where}"
        )


def _finished(who: Broker) -> bool:
    return who.status == "approved" or (who.status == "verified" and who.phase == "phase-2")


def _attest(_: Migration, who: Broker, entry: Entry) -> Broker:
    _text(entry, "text")
    if who.status in NEW:
        raise _out_of_order(who, entry)
    return who._replace(status="attested") if who.status == "listed" else who


def _started(migration: Migration, who: Broker, entry: Entry) -> Broker:
    run_id = _text(entry, "run_id")
    run = _run(who, run_id, as_phase(entry.phase))
    status = {"phase-1": "attested", "rollback": "rolling-back"}.get(entry.phase, "converting")
    if run is not None and _goes_on(who, run, status):
        return who
    refuse_for(missing(migration, who, entry.phase), entry.phase, who.name)
    fresh = who.status == "rolled-back" or (who.status in OLD and entry.phase != "phase-1")
    # Runs before a fresh start can no longer be undone.
    runs = () if fresh else tuple(r for r in who.runs if r.run_id != run_id)
    phase = who.phase if entry.phase == "rollback" else entry.phase
    return who._replace(
        status=status, phase=phase, runs=(*runs, Run(run_id, entry.phase, "started"))
    )


def _goes_on(who: Broker, run: Run, status: str) -> bool:
    """Return whether the state has this run already: repeated applies of a plan are one run."""
    if run.state == "started":
        return who.status == status
    return run.state == "finished" and (
        run.phase == "rollback" or who.status not in {"rolling-back", "rolled-back"}
    )


def _converted(_: Migration, who: Broker, entry: Entry) -> Broker:
    run = _own(who, entry)
    if run.phase == "rollback":
        raise UsageError("a rollback ends with converted-back or undone")
    if run.state == "finished" or run.phase == "phase-1":
        return _mark(who, run, "finished")
    if who.status != "converting":
        raise _out_of_order(who, entry)
    return _mark(who, run, "finished")._replace(status="converted")


def _verified(_: Migration, who: Broker, entry: Entry) -> Broker:
    _expect(
        who,
        entry,
        ("attested", "certified"),
        ("converted", "verified", "approved"),
        ("rolled-back",),
    )
    return who._replace(status="verified") if who.status == "converted" else who


def _certified(migration: Migration, who: Broker, entry: Entry) -> Broker:
    _text(entry, "digest")
    old = ("attested", "certified", "rolled-back")
    _expect(who, entry, old, ("verified", "approved"), old)
    if entry.phase in UP:
        if _magic(entry, "min_magic") < migration.to_magic:
            raise Refused(f"the certificate allows less than magic {migration.to_magic}")
        return who
    if _magic(entry, "max_magic") > migration.from_magic:
        raise Refused(f"the certificate allows more than magic {migration.from_magic}")
    return who._replace(status="certified")


def _approved(_: Migration, who: Broker, entry: Entry) -> Broker:
    if entry.phase != "canary" or who.phase != "canary":
        raise Refused(f"approval of broker {who.name}: only the canary is approved")
    if who.status not in {"verified", "approved"}:
        raise _out_of_order(who, entry)
    return who._replace(status="approved")


def _undone(_: Migration, who: Broker, entry: Entry) -> Broker:
    run_id = _text(entry, "run_id")
    run = next((r for r in who.runs if r.run_id == run_id), None)
    if run is None:
        raise Refused(f"run {run_id} is none of those that stand on broker {who.name}")
    if run.state == "undone":
        return who
    after = _mark(who, run, "undone")
    return after._replace(
        status="attested" if run.phase == "phase-1" else _status_after_undo(standing(after), run)
    )


def _status_after_undo(rest: Sequence[Run], run: Run) -> str:
    back = [r.state for r in rest if r.phase == "rollback"]
    if "finished" in back or not any(r.phase in UP for r in rest):
        return "rolled-back"
    return "rolling-back" if back or run.phase in UP else "converted"


def _converted_back(_: Migration, who: Broker, entry: Entry) -> Broker:
    run = _own(who, entry)
    if run.phase != "rollback":
        raise UsageError("converted-back is the end of a rollback")
    if who.status not in {"rolling-back", "rolled-back"}:
        raise _out_of_order(who, entry)
    return _mark(who, run, "finished")._replace(status="rolled-back")


EVENTS: Final[Mapping[str, Callable[[Migration, Broker, Entry], Broker]]] = {
    "attest": _attest,
    "started": _started,
    "converted": _converted,
    "verified": _verified,
    "certified": _certified,
    "approved": _approved,
    "undone": _undone,
    "converted-back": _converted_back,
}


def find(migration: Migration | None, broker: str) -> tuple[Migration, Broker]:
    """Return the migration and its broker of this name. Raises Refused when there is none."""
    if migration is None:
        raise Refused("no migration has begun in this ledger")
    if broker not in migration.brokers:
        raise Refused(
            f"broker {broker or '(none)'} is not of this migration, which has"
            f" {named_brokers(migration.brokers)}"
        )
    return migration, migration.brokers[broker]


def _expect(
    who: Broker, entry: Entry, first: Sequence[str], up: Sequence[str], back: Sequence[str]
) -> None:
    """Refuse the entry unless the broker's status is one that its phase allows."""
    phase = as_phase(entry.phase)
    allowed = up if phase in UP else first if phase == "phase-1" else back
    if who.status not in allowed or (phase in UP and who.phase != phase):
        raise _out_of_order(who, entry)


def _out_of_order(who: Broker, entry: Entry) -> Refused:
    stands = f"{who.status} ({who.phase})" if who.phase else who.status
    return Refused(
        f"{entry.event} of broker {who.name}, {entry.phase or 'no phase'}: it is {stands}"
    )


def _own(who: Broker, entry: Entry) -> Run:
    """Return the run that the entry names. Raises Refused if it was not started, or was undone."""
    run_id = _text(entry, "run_id")
    run = _run(who, run_id, as_phase(entry.phase))
    if run is None or run.state == "undone":
        raise Refused(f"run {run_id} has not been started on broker {who.name} as {entry.phase}")
    return run


def _run(who: Broker, run_id: str, phase: str) -> Run | None:
    return next((r for r in who.runs if (r.run_id, r.phase) == (run_id, phase)), None)


def _mark(who: Broker, run: Run, state: Literal["finished", "undone"]) -> Broker:
    return who._replace(runs=tuple(r._replace(state=state) if r == run else r for r in who.runs))


def standing(who: Broker) -> list[Run]:
    """Return the runs that were not undone, in the order in which they started."""
    return [r for r in who.runs if r.state != "undone"]


def named_brokers(names: Iterable[str]) -> str:
    """Return brokers as text."""
    return ", ".join(f"broker {name}" for name in names)


def as_phase(phase: str) -> str:
    """Return the phase. Raises UsageError for another word."""
    if phase not in PHASES:
        raise UsageError(f"no phase: {phase!r}; they are {', '.join(PHASES)}")
    return phase


def _text(entry: Entry, key: str) -> str:
    value = entry.details.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"the entry {entry.event} needs a text {key}")
    return value


def _magic(entry: Entry, key: str) -> int:
    value = entry.details.get(key)
    if type(value) is not int or value not in _MAGICS:
        raise UsageError(f"the entry {entry.event} needs {key}, 0 to 2")
    return value
