"""The ledger of a migration in a DAG run: which broker is next, and the entries of this run.

The jobs write what happens on disks: apply writes started and converted, undo writes undone. This
module writes what follows from their results (verified, certified) and what people decided (begin,
attest, approved).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import TypedDict  # pydantic reads these; on 3.11 it takes no others

from kafkats import clock
from kafkats.errors import Refused, UsageError
from kafkats_airflow.forms.values import RunParams
from kafkats_airflow.results import FormatResult
from kafkats_airflow.runs.volumes import listed

if TYPE_CHECKING:
    from kafkats.logdir.strict_json import Json
    from kafkats.migration.state import Migration

CENSUS: Final = "census"
"""The phase that only counts."""
UP: Final = ("canary", "phase-2")
BrokerRows: TypeAlias = list[dict[str, str | list[str]]]
"""The state of each broker, for people (kafkats.migration.phases.rows)."""
Results: TypeAlias = Sequence[FormatResult]
"""The results of the jobs of one task, in the order of its applications."""


class LostZeroCopy(TypedDict):
    """Clients that get batches of the new magic converted (kafkats.migration.phases.Fetcher)."""

    versions: str
    newest_magic: int
    clients: str
    followers: str


class Summary(TypedDict):
    """The result of the task `report` of a migration."""

    outcome: str
    phase: str
    volumes: list[str]
    runs: list[str]
    magic_bytes: dict[str, list[int]]
    loses_zero_copy: list[LostZeroCopy]
    certificates: list[str]
    report: str


def ledger_of(params: RunParams) -> Path:
    """Return the ledger's file: the param, else ledger.jsonl in the folder of all runs."""
    return Path(params["ledger"] or Path(params["folder"], "ledger.jsonl"))


def state_of(params: RunParams) -> Migration | None:
    """Return the migration, None before it began. Raises CorruptFile, Locked, StorageFailed."""
    from kafkats.migration import ledger, phases

    path = ledger_of(params)
    return phases.state(ledger.read(path).entries) if path.exists() else None


def begun(params: RunParams) -> Migration:
    """Return the migration. Raises as `state_of`, and Refused before it began."""
    if (migration := state_of(params)) is None:
        raise Refused("no migration has begun in this ledger", path=ledger_of(params))
    return migration


def rows(params: RunParams) -> BrokerRows:
    """Return the state of each broker, for people."""
    from kafkats.migration import phases

    migration = state_of(params)
    return phases.rows(migration) if migration else []


def let_in(params: RunParams, named: Sequence[str], known: Iterable[str], by: str) -> list[str]:
    """Return those of the brokers `named` that may do the phase in this run.

    In phase 1 it also begins the ledger and records attestations. `known` are all brokers of the
    policy. Raises Refused with all that is missing, UsageError.
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


def _begin(params: RunParams, brokers: Iterable[str], by: str) -> None:
    """Write begin, or add brokers that are new in the policy."""
    migration, magics = state_of(params), _asked_magics(params)
    before = list(migration.brokers) if migration and _magics(migration) == magics else []
    after = list(dict.fromkeys([*before, *brokers]))
    if after != before:
        tell(params, "begin", by=by, details={**magics, "brokers": [*after]})


def _attest(params: RunParams, named: Sequence[str]) -> None:
    """Write the attestation of brokers that have none."""
    migration, who = begun(params), params["attested_by"]
    for broker in named:
        if who and migration.brokers[broker].status == "listed":
            text = f"{who} vouches that broker {broker} understands magic {params['to_magic']}"
            tell(params, "attest", broker, "phase-1", by=who, details={"text": text})


def _next(params: RunParams) -> list[str]:
    """Return the broker that phase 2 is at, else the next unconverted broker, else nothing."""
    brokers = begun(params).brokers.values()
    at_it = [
        b.name for b in brokers if b.phase == "phase-2" and b.status in {"converting", "converted"}
    ]
    fresh = [
        b.name
        for b in brokers
        if b.status in {"listed", "attested", "certified"} and b.phase not in UP
    ]
    return (at_it + fresh)[:1]


def _gate(params: RunParams, broker: str) -> None:
    from kafkats.migration import ledger, phases

    migration = state_of(params)
    if migration and _magics(migration) != _asked_magics(params):
        raise Refused(
            f"the ledger's migration is from magic {migration.from_magic} to {migration.to_magic}"
        )
    phases.gate(
        ledger.read(ledger_of(params)).entries if migration else (), params["phase"], broker
    )


def standing_runs(params: RunParams, broker: str) -> list[str]:
    """Return the RUNs that a rollback undoes, the latest first; nothing if one is unknown."""
    from kafkats.migration import ledger, phases

    entries = ledger.read(ledger_of(params)).entries
    folders = {
        e.details.get("run_id"): str(e.details["folder"]) for e in entries if "folder" in e.details
    }
    runs = phases.work(begun(params), "rollback", broker).undo
    return [folders[run] for run in runs] if all(run in folders for run in runs) else []


def record(
    params: RunParams,
    broker: str,
    runs: Sequence[str],
    certificates: Sequence[FormatResult | None],
    by: str,
) -> None:
    """Write what is proved of a broker: the verified `runs`, and its certificates if it has all."""
    phase = params["phase"]
    if phase in UP and begun(params).brokers[broker].status == "converted":
        tell(params, "verified", broker, phase, by=by, details={"runs": list(runs)})
    given = [one for one in certificates if one]
    if given and len(given) == len(certificates):
        digests = [one["certificate_digest"] for one in given]
        joined = hashlib.sha256("".join(digests).encode()).hexdigest()
        bounds = {"min_magic": given[0]["min_magic"], "max_magic": given[0]["max_magic"]}
        details: dict[str, Json] = {
            **{key: magic for key, magic in bounds.items() if magic is not None},
            "digest": digests[0] if len(digests) == 1 else joined,
            "certificates": [one["certificate"] for one in given],
        }
        tell(params, "certified", broker, phase, by=by, details=details)


def canary_digest(params: RunParams) -> str:
    """Return the digest of the ledger's last entry about this run's canary; "" if there is none, or
    if it is approved.
    """
    from kafkats.migration import ledger

    if not (canary := _unapproved(params)):
        return ""
    entries = ledger.read(ledger_of(params)).entries
    return next((one.digest for one in reversed(entries) if one.broker == canary), "")


def _unapproved(params: RunParams) -> str:
    """Return the name of this run's canary if it is not approved yet, else ""."""
    migration = state_of(params) if params["phase"] == "canary" and not params["dry_run"] else None
    canary = migration.canary if migration else None
    return canary.name if canary and canary.status == "verified" else ""


def approve(params: RunParams, by: str) -> None:
    """Write that the canary is approved: the other brokers may follow."""
    if canary := _unapproved(params):  # else somebody was quicker, with `kafkats ledger approve`
        tell(params, "approved", canary, "canary", by=by, details={})


def tell(
    params: RunParams,
    event: str,
    broker: str = "",
    phase: str = "",
    *,
    by: str,
    details: Mapping[str, Json],
) -> None:
    """Add an entry. Raises Refused if the phases do not allow it, UsageError, StorageFailed."""
    from kafkats.migration.phases import append_step

    path, now_ms = ledger_of(params), clock.now_ms()
    append_step(
        path,
        event,
        by=by,
        now_ms=now_ms,
        broker=broker,
        phase=phase,
        details=details,
    )


def _asked_magics(params: RunParams) -> dict[str, int]:
    return {"from_magic": params["from_magic"], "to_magic": params["to_magic"]}


def _magics(migration: Migration) -> dict[str, int]:
    return {"from_magic": migration.from_magic, "to_magic": migration.to_magic}
