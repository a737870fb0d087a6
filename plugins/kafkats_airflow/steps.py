"""The ledger of a migration in a DAG run: which broker is next, and the entries of this run.

The jobs write what happens on disks: apply writes started and converted, undo writes undone. This
module writes what follows from their results (verified, certified) and what people decided (begin,
attest, approved).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kafkats.errors import Refused, UsageError
from kafkats_airflow.applications import listed

UP: Final = ("canary", "phase-2")

Params = Mapping[str, Any]


def ledger_of(params: Params) -> Path:
    """Return the ledger's file: the param, else ledger.jsonl in the folder of all runs."""
    return Path(params["ledger"] or Path(params["folder"], "ledger.jsonl"))


def state_of(params: Params) -> Any:
    """Return kafkats.migration.state.Migration, None before it began. Raises CorruptFile, Locked,
    StorageFailed.
    """
    from kafkats.migration import ledger, phases

    path = ledger_of(params)
    return phases.state(ledger.read(path).entries) if path.exists() else None


def rows(params: Params) -> list[dict[str, Any]]:
    """Return the state of each broker, for people."""
    from kafkats.migration import phases

    migration = state_of(params)
    return phases.rows(migration) if migration else []


def let_in(params: Params, named: Sequence[str], known: Iterable[str], by: str) -> list[str]:
    """Which of the brokers `named` the phase is for now, in this run; begins, and takes
    attestations, in phase 1.

    `known` are all brokers of the policy. Raises Refused with all that is missing, UsageError.
    """
    phase = params["phase"]
    if phase == "phase-1":
        _begin(params, known, by)
        _attest(params, named)
    elif phase == "phase-2" and not listed(params["volumes"]):
        named = _next(params)
    elif len(named) != 1:
        raise UsageError(
            f"{phase} is for one broker at a time: name it in `volumes`, not {', '.join(named)}"
        )
    for broker in named:
        _gate(params, broker)
    return list(named)


def _begin(params: Params, brokers: Iterable[str], by: str) -> None:
    """Write begin, or add brokers that are new in the policy."""
    migration, magics = state_of(params), _asked_magics(params)
    before = list(migration.brokers) if migration and _magics(migration) == magics else []
    after = list(dict.fromkeys([*before, *brokers]))
    if after != before:
        tell(params, "begin", by=by, details={**magics, "brokers": after})


def _attest(params: Params, named: Sequence[str]) -> None:
    """Write the attestation of brokers that have none."""
    migration, who = state_of(params), params["attested_by"]
    for broker in named:
        if who and migration.brokers[broker].status == "listed":
            text = f"{who} vouches that broker {broker} understands magic {params['to_magic']}"
            tell(params, "attest", broker, "phase-1", by=who, details={"text": text})


def _next(params: Params) -> list[str]:
    """Return the broker that phase 2 is at, else the next unconverted broker, else nothing."""
    migration = state_of(params)
    brokers = migration.brokers.values() if migration else []
    at_it = [
        b.name for b in brokers if b.phase == "phase-2" and b.status in {"converting", "converted"}
    ]
    fresh = [
        b.name
        for b in brokers
        if b.status in {"listed", "attested", "certified"} and b.phase not in UP
    ]
    if not migration:
        raise Refused("no migration has begun in this ledger", path=ledger_of(params))
    return (at_it + fresh)[:1]


def _gate(params: Params, broker: str) -> None:
    from kafkats.migration import ledger, phases

    migration = state_of(params)
    if migration and _magics(migration) != _asked_magics(params):
        raise Refused(
            f"the ledger's migration is from magic {migration.from_magic} to {migration.to_magic}"
        )
    phases.gate(
        ledger.read(ledger_of(params)).entries if migration else (), params["phase"], broker
    )


def standing_runs(params: Params, broker: str) -> list[str]:
    """Return the RUNs that a rollback undoes, the latest first; nothing if one of them is unknown."""
    from kafkats.migration import ledger, phases

    entries = ledger.read(ledger_of(params)).entries
    folders = {
        e.details.get("run_id"): e.details["folder"] for e in entries if "folder" in e.details
    }
    runs = phases.work(state_of(params), "rollback", broker).undo
    return [folders[run] for run in runs] if all(run in folders for run in runs) else []


def record(
    params: Params, broker: str, runs: Sequence[str], certificates: Sequence[Any], by: str
) -> None:
    """Write what is proved of a broker: the verified `runs`, and its certificates if it has all."""
    phase = params["phase"]
    if phase in UP and state_of(params).brokers[broker].status == "converted":
        tell(params, "verified", broker, phase, by=by, details={"runs": list(runs)})
    if certificates and all(certificates):
        digests = [one["certificate_digest"] for one in certificates]
        bounds = {key: certificates[0][key] for key in ("min_magic", "max_magic")}
        tell(
            params, "certified", broker, phase, by=by,
            details={
                **{key: magic for key, magic in bounds.items() if magic is not None},
                "digest": digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
                "certificates": [one["certificate"] for one in certificates],
            },
        )  # fmt: skip


def waits_for_approval(params: Params) -> bool:
    """Whether this run made a canary that is not approved yet."""
    migration = state_of(params) if params["phase"] == "canary" and not params["dry_run"] else None
    return bool(migration and migration.canary and migration.canary.status == "verified")


def approve(params: Params, by: str) -> None:
    """Write that the canary is approved: the other brokers may follow."""
    if waits_for_approval(params):  # else somebody was quicker, with `kafkats ledger approve`
        tell(params, "approved", state_of(params).canary.name, "canary", by=by, details={})


def tell(
    params: Params,
    event: str,
    broker: str = "",
    phase: str = "",
    *,
    by: str,
    details: Mapping[str, Any],
) -> None:
    """Add an entry. Raises Refused if the phases do not allow it, UsageError, StorageFailed."""
    from kafkats.migration.phases import append_step

    path, now_ms = ledger_of(params), time.time_ns() // 1_000_000
    append_step(
        path,
        event,
        by=by,
        now_ms=now_ms,
        broker=broker,
        phase=phase,
        details=details,
    )


def _asked_magics(params: Params) -> dict[str, int]:
    return {"from_magic": params["from_magic"], "to_magic": params["to_magic"]}


def _magics(migration: Any) -> dict[str, int]:
    return {"from_magic": migration.from_magic, "to_magic": migration.to_magic}
