"""The request: what a front end asks kafkats to do, as one document.

A command line makes it from words, a Spark job reads it from a file. `kafkats.flow.run` does what
it says. A document has a version, `format`. Within one version a request gains only optional
fields, and a field that is not known is refused before anything is read: no part of an instruction
is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from kafkats.config.given import Given
from kafkats.config.option import Options
from kafkats.config.options import (
    BatchLimit,
    Dialect,
    IndexSettings,
    Report,
    Topics,
    Vouched,
    WorkArea,
)
from kafkats.errors import UsageError, storage
from kafkats.inspect.options import Census, Deep, Inventory, ProofOptions, VerifyDepth
from kafkats.logdir import strict_json
from kafkats.lookup.options import Export, Logs, Lookup, Search, Table, Times
from kafkats.migration.options import Certify, Step, UndoCertify
from kafkats.operations import OPERATIONS
from kafkats.plans.files import write_private
from kafkats.plans.options import Apply, PlanFolder, Purge
from kafkats.recovery.options import Preflight

if TYPE_CHECKING:
    from kafkats.config import Policy

M = TypeVar("M", bound=Options)

Verb: TypeAlias = Literal[
    "apply",
    "census",
    "certify",
    "export",
    "inventory",
    "lookup",
    "plan",
    "preflight",
    "purge",
    "release",
    "undo",
    "verify",
]

MODELS: Final[Mapping[str, tuple[type[Options], ...]]] = {
    "apply": (Apply, Vouched, WorkArea, BatchLimit),
    "census": (Census, Report, Topics, BatchLimit),
    "certify": (Certify, ProofOptions, IndexSettings, Step, Topics, BatchLimit),
    "export": (Export, Logs, Search, Topics, BatchLimit),
    "inventory": (Inventory, Report, Topics, BatchLimit),
    "lookup": (Times, Table, Lookup, Dialect, Logs, Search, Topics, BatchLimit),
    "plan": (PlanFolder, Topics, WorkArea, BatchLimit),
    "preflight": (Preflight, Report),
    "purge": (Purge,),
    "release": (WorkArea,),
    "undo": (UndoCertify,),
    "verify": (
        Deep,
        VerifyDepth,
        IndexSettings,
        Topics,
        Report,
        ProofOptions,
        Step,
        BatchLimit,
    ),
}
"""The options that each verb has; a plan also has those of its operation. Those of Apply.digest,
Approval, Holder, Release, Reserve, Settings and User are fields of the request itself.
"""


def models_of(verb: str, operation: str = "") -> tuple[type[Options], ...]:
    """Return the models whose options a request may have; () for an unknown verb or operation."""
    if verb != "plan":
        return MODELS.get(verb, ())
    return (*OPERATIONS[operation].models, *MODELS[verb]) if operation in OPERATIONS else ()


class Part(BaseModel):
    """A part of a request. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Identity(Part):
    """A log directory as its meta.properties names it (kafkats.logdir.volume.Volume)."""

    cluster: str | None = None
    node: int | None = None
    directory: str | None = None


class LogDirectory(Part):
    """A log directory. With an `identity` it must be that one: else the work is refused."""

    path: Path
    broker: str = ""
    identity: Identity | None = None


class PlanName(Part):
    """A plan's folder and its digest. "any" as a digest skips the check."""

    folder: Path
    digest: str | None = None


class RunName(Part):
    """The folder that an apply wrote. With a `digest` it must be a run of that plan."""

    folder: Path
    digest: str | None = None


class ReservationAsked(Part):
    """The reservation of `holder`: to make for a plan, else to use or to release.

    A plan reserves until `until_ms` (epoch milliseconds), None for a day from then. `skip`: leave
    out what others have reserved. `take_over`: holders that are known to have ended.
    """

    holder: str
    until_ms: int | None = None
    skip: bool = False
    take_over: tuple[str, ...] = ()


class PolicyContent(Part):
    """What a policy says about topics, by content. `topics` are pairs of a glob and its settings:
    the first that matches counts, and JSON objects have no order. `volumes` are those that the
    policy gives a name: that is their identity.
    """

    volumes: tuple[dict[str, Any], ...] = ()
    topics: tuple[tuple[str, dict[str, Any]], ...] = ()
    defaults: dict[str, Any] = Field(default_factory=dict)
    guard: dict[str, Any] = Field(default_factory=dict)
    exported: dict[str, Any] = Field(default_factory=dict)
    overrides: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, policy: Policy) -> PolicyContent:
        """Return the content of a policy that was read, with its exports and overrides."""
        content = policy.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude={"volumes", "exports"}
        )
        named = [
            one.model_dump(mode="json", include={"path", "name"})
            for one in policy.volumes
            if one.name is not None
        ]
        topics = list(content.pop("topics", {}).items())
        return cls.model_validate(content | {"volumes": named, "topics": topics})

    def policy(self) -> Policy:
        """Return the policy. Raises UsageError for settings that this version does not know."""
        from kafkats.config import Policy

        content = self.model_dump(exclude_defaults=True) | {"topics": dict(self.topics)}
        try:
            return Policy.model_validate(content)
        except ValidationError as e:
            raise UsageError(f"policy: {_first(e)}") from e


class ApprovalAsked(Part):
    """The approval that the work needs: `record` is the file with the approver's answer."""

    record: Path


class Request(Part):
    """A request.

    `operation` is the one to plan, a name in kafkats.operations.

    `id` names the work, the same in each try, "" in a shell. `made_ms` is the moment for which the
    work decides, epoch milliseconds. `options` has the values that were given, by the name of the
    model that declares them (kafkats/<room>/options.py) and the name of the field; other options
    have the defaults of their models. `by` is the person whom the ledger of a migration names.
    `no_topic_is_fine`: log directories without any of the topics are no error. `suspects`:
    retention also counts segments that a wrong timestamp may keep.

    Who must approve is not part of a request: the process that carries it out knows that.
    """

    format: Literal[1] = 1
    id: str = ""
    made_ms: int
    verb: Verb
    operation: str = ""
    log_dirs: tuple[LogDirectory, ...] = ()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    policy: PolicyContent | None = None
    plan: PlanName | None = None
    runs: tuple[RunName, ...] = ()
    reservation: ReservationAsked | None = None
    approval: ApprovalAsked | None = None
    by: str = ""
    no_topic_is_fine: bool = False
    suspects: bool = False

    @field_validator("operation")
    @classmethod
    def _operation_to_plan(cls, operation: str, info: ValidationInfo) -> str:
        if (info.data.get("verb") == "plan") != (operation in OPERATIONS):
            raise ValueError(f"a plan is one of {', '.join(OPERATIONS)}, not {operation!r}")
        return operation

    @field_validator("options")
    @classmethod
    def _options_of_the_verb(
        cls, options: dict[str, dict[str, Any]], info: ValidationInfo
    ) -> dict[str, dict[str, Any]]:
        """Return the values as JSON has them. Raises ValueError for what the verb has not."""
        verb, operation = (info.data.get(name, "") for name in ("verb", "operation"))
        known = {model.__name__: model for model in models_of(verb, operation)}
        if unknown := options.keys() - known.keys():
            raise ValueError(f"{', '.join(sorted(unknown))}: {verb} has no such options")
        return {
            name: known[name].model_validate(values).model_dump(mode="json", include=set(values))
            for name, values in options.items()
        }

    def of(self, model: type[M]) -> M:
        """Return the values of a model's options, its defaults for those that are not given.

        Raises UsageError if one is missing that must be given.
        """
        try:
            return model.model_validate(self.options.get(model.__name__, {}))
        except ValidationError as e:
            raise UsageError(f"{model.__name__}: {_first(e)}") from e

    def given(self) -> Given:
        """Return the options as operations take them. Raises as `of`."""
        values: dict[str, object] = {}
        named: set[str] = set()
        for model in models_of(self.verb, self.operation):
            values |= dict(self.of(model))
            named |= self.options.get(model.__name__, {}).keys()
        reported = self.suspects or values.get("report") is not None
        return Given(values, self.made_ms, frozenset(named), reported=reported)

    def settings(self) -> Policy:
        """Return the policy, an empty one if none is given. Raises as `PolicyContent.policy`."""
        return (self.policy or PolicyContent()).policy()

    @property
    def holder(self) -> str | None:
        """The holder of the reservation to use, None if none is named."""
        return self.reservation.holder if self.reservation else None

    @property
    def record(self) -> Path | None:
        """The file with the approver's answer, None if none is named."""
        return self.approval.record if self.approval else None


def made_of(content: object) -> Request:
    """Return the request with this content. Raises UsageError for what this version cannot do."""
    try:
        return Request.model_validate(content)
    except ValidationError as e:
        raise UsageError(_first(e)) from e


def write_request(path: Path, request: Request) -> None:
    """Write a request in one step, readable by this user alone. Raises StorageFailed.

    Parts that are not given are left out: older versions read what they know.
    """
    content = request.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps({"format": request.format} | content, separators=(",", ":"))
    with storage(path, "writing the request"):
        write_private(path, text + "\n")


def read_request(path: Path) -> Request:
    """Read a request. Raises UsageError for what this version cannot do, StorageFailed."""
    with storage(path, "reading the request"):
        text = path.read_bytes()
    try:
        content = strict_json.loads(text)
        for number in strict_json.numbers_in(content):
            strict_json.int64(number)  # a request has no inode numbers
        return Request.model_validate(content)
    except ValidationError as e:
        raise UsageError(_first(e), path=path) from e
    except ValueError as e:
        raise UsageError(f"is no request: {e}", path=path) from e


def _first(error: ValidationError) -> str:
    """Return the first of the problems, and where it is."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
