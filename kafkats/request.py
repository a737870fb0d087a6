"""The request: what a front end asks kafkats to do, as one document.

A command line makes it from words, a Spark job reads it from a file. `kafkats.flow.run` does what
it says. A document has a version, `format`. Within one version a request gains only optional
fields, and a field that is not known is refused before anything is read: no part of an instruction
is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from kafkats.config.faults import faults
from kafkats.config.given import Given
from kafkats.config.option import Choice, Declared, Options, declared
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
from kafkats.plans.files import write_document
from kafkats.plans.options import Apply, PlanFolder, Purge
from kafkats.recovery.options import BeforeStart, Preflight
from kafkats.reserving.plans import Wish

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.logdir.volume import Volume

M = TypeVar("M", bound=Options)


class VerbParts(NamedTuple):
    """The parts of a request of one verb. `models` declare its options, beside those of a plan's
    operation.

    `needs` is the part that says what to do, and `also` are further parts. Log directories are also
    named for their identities. `by_dags` are the options that DAGs give, by the names of their
    fields; None: no DAG does that.
    """

    models: tuple[type[Options], ...]
    needs: str = "log_dirs"
    also: tuple[str, ...] = ()
    by_dags: str | None = None


VERBS: Final[Mapping[str, VerbParts]] = {
    "apply": VerbParts(
        (Apply, Vouched, WorkArea, BatchLimit),
        "plan",
        ("approval",),
        "run_folder prove owner_stopped place",
    ),
    "census": VerbParts((Census, Report, Topics, BatchLimit), by_dags="by report"),
    "certify": VerbParts(  # it may also name a certificate
        (Certify, ProofOptions, IndexSettings, Step, Topics, BatchLimit),
        "",
        ("policy",),
        "min_magic max_magic output report rule of_run",
    ),
    "export": VerbParts((Export, Logs, Search, Topics, BatchLimit), also=("policy",)),
    "inventory": VerbParts((Inventory, Report, Topics, BatchLimit)),
    "lookup": VerbParts(
        (Times, Table, Lookup, Dialect, Logs, Search, Topics, BatchLimit),
        also=("policy",),
        by_dags="times every begins until output depth high_watermark topics report around go_on",
    ),
    "plan": VerbParts(
        (PlanFolder, Topics, WorkArea, BatchLimit),
        also=("policy",),
        by_dags="into report go_on topics place",
    ),
    "preflight": VerbParts((Preflight, Report), by_dags="kafka go_on report"),
    "purge": VerbParts((Purge,), "runs", by_dags="older_than"),
    "recover": VerbParts((BeforeStart, Vouched, WorkArea, BatchLimit), also=("policy",)),
    "release": VerbParts((WorkArea,), by_dags="place"),
    "undo": VerbParts((UndoCertify,), "runs", ("approval",), "certified max_magic output report"),
    "verify": VerbParts(
        (Deep, VerifyDepth, IndexSettings, Topics, Report, ProofOptions, Step, BatchLimit),
        also=("policy",),
        by_dags="rule topics report of_run",
    ),
}
"""The verbs: kafkats/flow/verbs/ has a module of each. Options of Apply.digest, Approval, Holder,
Release, Reserve, Settings and User are fields of the request itself.
"""
Verb: TypeAlias = Annotated[str, Choice(tuple(VERBS))]


def models_of(verb: str, operation: str = "") -> tuple[type[Options], ...]:
    """Return the models whose options a request may have; () for an unknown verb or operation."""
    if verb not in VERBS or (verb == "plan" and operation not in OPERATIONS):
        return ()
    return (*(OPERATIONS[operation].models if verb == "plan" else ()), *VERBS[verb].models)


class Part(BaseModel):
    """A part of a request. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Identity(Part):
    """A log directory as its meta.properties names it (kafkats.logdir.volume.Volume)."""

    cluster: str | None = None
    node: int | None = None
    directory: str | None = None

    @classmethod
    def of(cls, volume: Volume) -> Identity:
        """Return the identity of a volume."""
        return cls.model_validate(dict(zip(cls.model_fields, volume, strict=True)))


class LogDirectory(Part):
    """A log directory. If it has an `identity` and another volume is at `path`, work is refused."""

    path: Path
    broker: str = ""
    identity: Identity | None = None


class Folder(Part):
    """The folder of a plan, or of a run: an apply wrote it.

    It must be that plan, or a run of it, whose digest is `digest`. An apply needs one; "any" skips
    the check.
    """

    folder: Path
    digest: str | None = None


class PolicyContent(Part):
    """The content of a policy about topics.

    `topics` are pairs of a glob and its settings: the first that matches counts, and JSON objects
    have no order. `volumes` are those to which the policy gives a name: that is their identity.
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
        if not policy.model_fields_set:  # without building what writes and reads it
            return cls()
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
        from kafkats.config.policy import Policy

        if not self.model_fields_set:
            return Policy.model_construct()
        content = self.model_dump(exclude_defaults=True) | {"topics": dict(self.topics)}
        try:
            return Policy.model_validate(content)
        except ValidationError as e:
            raise UsageError(f"policy: {faults(e)[0]}") from e


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
    retention also counts segments that a wrong timestamp may keep. `unreachable_is_fine`: log
    directories that cannot be read are left out, and the result names them; with one of them all
    are left out of a step in a ledger, which records whole brokers.

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
    plan: Folder | None = None
    runs: tuple[Folder, ...] = ()
    reservation: Wish | None = None
    approval: ApprovalAsked | None = None
    by: str = ""
    no_topic_is_fine: bool = False
    suspects: bool = False
    unreachable_is_fine: bool = False

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
            raise UsageError(f"{model.__name__}: {faults(e)[0]}") from e

    def given(self) -> Given:
        """Return the options as operations take them. Raises as `of`."""
        values: dict[str, object] = {}
        named: set[str] = set()
        for model in models_of(self.verb, self.operation):
            values |= dict(self.of(model))
            named |= self.options.get(model.__name__, {}).keys()
        reported = self.suspects or values.get("report") is not None
        return Given(values, self.made_ms, frozenset(named), reported=reported)

    def option_paths(self) -> Iterator[tuple[Declared, Path]]:
        """Yield each path that the options name, with its declaration."""
        for model in models_of(self.verb, self.operation):
            given = self.options.get(model.__name__, {})
            for one in declared(model):
                value = given.get(one.name)
                if one.kind.base is Path and value is not None:
                    several = value if isinstance(value, list | tuple) else (value,)
                    yield from ((one, Path(path)) for path in several)

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
        raise UsageError(faults(e)[0]) from e


def write_request(path: Path, request: Request) -> None:
    """Write a request in one step, readable by this user alone. Raises StorageFailed.

    Parts that are not given are left out: older versions read what they know.
    """
    content = request.model_dump(mode="json", exclude_defaults=True)
    write_document(path, {"format": request.format} | content, "writing the request")


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
        raise UsageError(faults(e)[0], path=path) from e
    except ValueError as e:
        raise UsageError(f"is no request: {e}", path=path) from e
