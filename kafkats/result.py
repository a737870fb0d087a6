"""The result: what came of a request, as one document of fields.

It has paths, digests and numbers, never rows, and no sentences but those of errors and remarks. An
`error` stands beside what was done before it. Readers ignore fields that they do not know.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt

from kafkats import __version__, clock, errors
from kafkats.counts import counted
from kafkats.errors import Holder, KafkatsError
from kafkats.plans.approval import Approval
from kafkats.plans.files import write_document
from kafkats.request import LogDirectory, Request
from kafkats.reserving.releasing import Released
from kafkats.text import Part, Text, named_parts, of_row

Ended: TypeAlias = Literal["fine", "findings", "failed", "refused"]
"""How the work ended: the one source of exit codes."""

Starts: TypeAlias = Literal["yes", "no", "unknown"]
"""Whether a broker will start; that it loses something is a finding, apart from this."""
EXIT_CODES: Final[Mapping[Ended, int]] = {"fine": 0, "findings": 1, "failed": 2, "refused": 3}
_ENDS: Final[Mapping[int, Ended]] = {code: ended for ended, code in EXIT_CODES.items()}
_FAMILIES: Final = (
    errors.UsageError,
    errors.BadInput,
    errors.Refused,
    errors.WorkerLost,
    errors.StorageFailed,
)


_KIND: Final = ("kind", "family", "retryable", "reason", "parts")
"""Fields of a Failure that are the error's class, or its reason."""


class Fields(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class Failure(Fields):
    """The error that ended the work.

    `kind` is its class in kafkats.errors; a reader that does not know it reads `family`. `parts`
    are those of the reason, if it names options or commands.
    """

    kind: str
    family: str = ""
    reason: str
    path: str | None = None
    position: int | None = None
    base_offset: int | None = None
    retryable: bool = False
    holders: list[Holder] = []
    numbers: dict[str, int] = {}
    parts: list[Part] = []

    @classmethod
    def of(cls, error: KafkatsError) -> Failure:
        """Return the fields of an error."""
        family = next((one.__name__ for one in _FAMILIES if isinstance(error, one)), "")
        return cls(
            kind=type(error).__name__,
            family=family,
            reason=error.reason,
            retryable=error.retryable,
            **error.where_and_what(),
            parts=named_parts(error.reason),
        )

    def as_error(self) -> KafkatsError:
        """Return the error; of a class that this version does not know, one of its family."""
        kinds = (getattr(errors, name, None) for name in (self.kind, self.family))
        known = (one for one in kinds if isinstance(one, type) and issubclass(one, KafkatsError))
        fields = {name: value for name, value in self if name not in _KIND}
        return next(known, KafkatsError)(*(self.parts or [self.reason]), **fields)


class Unreachable(Fields):
    """A log directory that was left out, since it cannot be read or reserved."""

    log_dir: str
    error: str


class Proved(Fields):
    """The proof of written files. `not_equal` are the first that are not as planned."""

    files: int
    equal: int
    not_equal: list[str] = []


class Ran(Fields):
    """A run that was written, undone or purged. `errors` are the first, in words; `error_kinds` the
    classes of all (kafkats.errors).

    `left`: blocked rows of a plan that has to be done as a whole. `already`: the plan had been
    applied before, and nothing was changed. `not_due`: it ended too recently for this purge.
    """

    folder: str
    digest: str = ""
    outcomes: dict[str, int] = {}
    files: int = 0
    partitions: int = 0
    left_partitions: int = 0
    left: int = 0
    written_bytes: int = 0
    freed_bytes: int = 0
    already: bool = False
    not_due: bool = False
    proof: Proved | None = None
    errors: list[str] = []
    error_kinds: list[str] = []


class Certified(Fields):
    """A certificate. `folder` is "" if none was written."""

    folder: str
    certified: bool
    statement: str
    digest: str
    exceptions: int
    refusals: int
    min_magic: int | None = None
    max_magic: int | None = None

    def summary(self) -> dict[str, Any]:
        """Return the stable JSON fields."""
        fields = self.model_dump()
        return {"certificate": fields.pop("folder"), "certificate_digest": fields.pop("digest")} | (
            fields
        )


class PlanMade(Fields):
    """A plan: its folder, its digest and its totals, as plan.json has them."""

    folder: str
    digest: str
    totals: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """Return the stable JSON fields."""
        return {"plan": self.folder, "digest": self.digest, "totals": self.totals}


class ReservationMade(Fields):
    """The reservations of a plan: `mine`, and `skipped` ones of others, which were left out."""

    holder: str
    mine: list[Holder] = []
    skipped: list[Holder] = []

    def summary(self) -> dict[str, Any]:
        """Return the stable JSON fields."""
        return {
            "holder": self.holder,
            "reserved_until_ms": max((one.until_ms for one in self.mine), default=None),
            "reserves": [one.log_dir for one in self.mine],
            "reserved": [asdict(one) for one in self.skipped],
        }


class Rate(Fields):
    """The progress of a stage: units and bytes that are done."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    stage: str = ""
    units: NonNegativeInt | None = None
    of_units: NonNegativeInt | None = None
    bytes: NonNegativeInt | None = None
    of_bytes: NonNegativeInt | None = None
    seconds: NonNegativeFloat | None = None
    bytes_per_second: NonNegativeInt | None = None
    seconds_left: NonNegativeInt | None = None
    failed_tasks: NonNegativeInt = 0


class Result(Fields):
    """A result. Times are epoch milliseconds; `host` is where the work was driven.

    `beyond` is the same plan without the policy's guards. `undo` are runs to be undone in place of
    a plan. `start`: whether a broker will start. `proof` is that of a verify; `runs` are then those
    that it proved. `found` counts segments and findings (facts.Summary), or whatever else a verb
    counts. `more` has what an operation says of its plan, or the log directories as they were
    named. `rates` are the last progress of each stage on Spark. `approval` copies the answer that
    let an apply or an undo begin. `parts` are those of sentences that name options or commands.
    """

    format: Literal[1] = 1
    kafkats: str = __version__
    request: str = ""
    verb: str
    host: str = ""
    began_ms: int = 0
    ended_ms: int = 0
    ended: Ended = "fine"
    start: Starts | None = None
    operation: str = ""
    log_dirs: list[LogDirectory] = []
    plan: PlanMade | None = None
    beyond: PlanMade | None = None
    undo: list[str] = []
    found: dict[str, Any] | None = None
    more: dict[str, Any] = {}
    reservation: ReservationMade | None = None
    reservation_remarks: list[str] = []
    runs: list[Ran] = []
    proof: Proved | None = None
    certificate: Certified | None = None
    census: dict[str, Any] | None = None
    reports: dict[str, str] = {}
    released: list[Released] = []
    unreachable: list[Unreachable] = []
    remarks: list[str] = []
    rates: dict[str, Rate] = {}
    approval: Approval | None = None
    parts: dict[str, list[Part]] = {}
    error: Failure | None = None

    @classmethod
    def begun(cls, request: Request) -> Result:
        """Return the result of a request that begins now on this host."""
        return cls(
            request=request.id,
            verb=request.verb,
            operation=request.operation,
            host=socket.gethostname(),
            began_ms=clock.now_ms(),
        )

    @property
    def exit_code(self) -> int:
        """0 fine, 1 findings, 2 failed, 3 refused."""
        return EXIT_CODES[self.ended]

    def end_with(self, exit_code: int) -> None:
        """Note how a part of the work ended; the largest exit code counts."""
        self.ended = _ENDS[max(exit_code, self.exit_code)]

    def leave_out(self, log_dir: str, error: KafkatsError) -> None:
        """Note a log directory that is left out."""
        self.unreachable.append(Unreachable(log_dir=log_dir, error=str(error)))

    def fail(self, error: KafkatsError) -> None:
        """Note the error that ended the work."""
        self.error = Failure.of(error)
        self.ended = _ENDS[error.exit_code]

    def finish(self) -> Result:
        """Note that the work has ended now, and return the result."""
        self.ended_ms = clock.now_ms()
        said = (*self.remarks, *self.reservation_remarks)
        self.parts = {str(one): parts for one in said if (parts := named_parts(one))}
        return self

    def text(self, sentence: str) -> Text:
        """Return one of the result's sentences, with its names. Errors of runs are of rows."""
        return Text(*self.parts[sentence]) if sentence in self.parts else of_row(sentence)

    @property
    def did_something(self) -> bool:
        """Return whether there is more to tell than an error."""
        certified = self.verb == "certify" and self.certificate is not None
        return self.error is None or bool(self.runs) or certified

    def summary(self) -> dict[str, Any]:
        """Return the stable JSON fields of what was done: the summary that --json prints."""
        return _SUMMARIES.get(self.verb, _counted)(self)

    def told(self) -> dict[str, Any]:
        """Return the summary for whoever submitted the work, with the rates."""
        rates = {stage: one.model_dump() for stage, one in self.rates.items()}
        left_out = [one.model_dump() for one in self.unreachable]
        more = {"unreachable": left_out} if left_out else {}
        return told(self.summary()) | {"rates": rates} | more


def write_result(path: Path, result: Result) -> None:
    """Write a result in one step, readable by this user alone. Raises StorageFailed."""
    write_document(path, result.model_dump(mode="json", exclude_none=True), "writing the result")


def _planned(result: Result) -> dict[str, Any]:
    plan = result.plan.summary() if result.plan else {}
    totals = plan.get("totals", {})
    return {
        **plan,
        **({"undo": result.undo} if result.undo else totals),
        "log_dirs": [str(one.path) for one in result.log_dirs],
        **({"seen": result.found} if result.found is not None else {}),
        **({"census": result.census} if result.census is not None else {}),
        **(result.certificate.summary() if result.certificate else {}),
        **result.more,
        **({"beyond": result.beyond.summary()} if result.beyond else {}),
        "reservation_remarks": result.reservation_remarks,
        **(result.reservation.summary() if result.reservation else {}),
        "remarks": result.remarks,
    }


def _applied(result: Result) -> dict[str, Any]:
    [run] = result.runs
    return {
        "files": run.files,
        "outcomes": run.outcomes,
        "written_bytes": run.written_bytes,
        "errors": run.errors,
        "error_kinds": run.error_kinds,
        "exit_code": result.exit_code,
        **({"note": ALREADY} if run.already else {}),
        "remarks": result.remarks,
        **({"proof": run.proof.model_dump()} if run.proof else {}),
        "partitions": run.partitions,
        "left_partitions": run.left_partitions,
        "run": run.folder,
    }


ALREADY: Final = "this plan had been applied before: nothing was changed"


def _undone(result: Result) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if result.certificate is not None:
        more = result.certificate.summary()
        more |= {"census": result.census} if result.census is not None else {}
        more |= result.reports
        more |= {"log_dirs": [str(one.path) for one in result.log_dirs]}
    return {
        "runs": [run.folder for run in result.runs],
        "files": sum(run.files for run in result.runs),
        "errors": _errors(result.runs),
        "remarks": result.remarks,
        **more,
    }


def _purged(result: Result) -> dict[str, Any]:
    due = [run for run in result.runs if not run.not_due]
    return {
        "runs": [run.folder for run in due],
        "files": sum(run.files for run in due),
        "freed_bytes": sum(run.freed_bytes for run in due),
        "errors": _errors(due),
        "not_due": [run.folder for run in result.runs if run.not_due],
        "exit_code": result.exit_code,
        **({"note": result.remarks[0]} if result.remarks else {}),
    }


def _released(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = {"released": [], "kept": [], "free": [], "failed": []}
    for one in result.released:
        reserved = one.outcome in ("released", "kept")
        held = asdict(Holder(one.log_dir, one.holder, one.until_ms))
        found[one.outcome].append(held if reserved else one.log_dir)
    return found | {"exit_code": result.exit_code}


def _verified(result: Result) -> dict[str, Any]:
    return {**(result.found or {}), **_proved(result)}


def _proved(result: Result) -> dict[str, Any]:
    proof = result.proof.model_dump() if result.proof else {}
    runs = {"runs": [run.folder for run in result.runs]} if result.runs else {}
    return {**proof, **runs}


def _certified(result: Result) -> dict[str, Any]:
    made = result.certificate
    if made is None:
        return result.found or {}
    return {
        **result.more,
        **_proved(result),
        **({"seen": result.found} if result.proof else {}),
        **made.summary(),
        "digest": made.digest,
        **({"census": result.census} if result.census is not None else {}),
        **result.reports,
    }


def _counted(result: Result) -> dict[str, Any]:
    return result.found or {}


def _censused(result: Result) -> dict[str, Any]:
    return {**(result.found or {}), **result.more, "census": result.census, **result.reports}


def _errors(runs: Sequence[Ran]) -> list[str]:
    return [error for run in runs for error in run.errors]


_SUMMARIES: Final[Mapping[str, Callable[[Result], dict[str, Any]]]] = {
    "apply": _applied,
    "plan": _planned,
    "census": _censused,
    "certify": _certified,
    "purge": _purged,
    "release": _released,
    "undo": _undone,
    "verify": _verified,
}


def told(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary without the exit code, and of many remarks the first."""
    found = {name: value for name, value in summary.items() if name != "exit_code"}
    return found | ({"remarks": first_remarks(found["remarks"])} if "remarks" in found else {})


_MOST_REMARKS: Final = 20


def first_remarks(remarks: Sequence[str]) -> list[str]:
    """Return the remarks, of many only the first."""
    more = len(remarks) - _MOST_REMARKS
    return [
        *remarks[:_MOST_REMARKS],
        *([f"and {counted(more, 'more remark')}"] if more > 0 else []),
    ]
