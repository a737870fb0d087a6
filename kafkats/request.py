"""The request: what a front end asks kafkats to do, as one document.

A command line makes it from words, a Spark job reads it from a file. `kafkats.flow.run` does what
it says. A document has a version, `format`. Within one version a request gains only optional
fields, and a field that is not known is refused before anything is read: no part of an instruction
is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from kafkats.config.option import Options
from kafkats.config.options import BatchLimit, Vouched, WorkArea
from kafkats.errors import UsageError, storage
from kafkats.logdir import strict_json
from kafkats.migration.options import UndoCertify
from kafkats.plans.options import Apply, Purge

M = TypeVar("M", bound=Options)

Verb: TypeAlias = Literal["apply", "purge", "release", "undo"]

MODELS: Final[Mapping[str, tuple[type[Options], ...]]] = {
    "apply": (Apply, Vouched, WorkArea, BatchLimit),
    "purge": (Purge,),
    "release": (WorkArea,),
    "undo": (UndoCertify,),
}
"""The options that each verb has. Those of Apply.digest, Approval, Holder, Release and User are
fields of the request itself.
"""


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
    """The reservation to use, or to release: that of `holder`."""

    holder: str


class ApprovalAsked(Part):
    """The approval that the work needs: `record` is the file with the approver's answer."""

    record: Path


class Request(Part):
    """A request.

    `id` names the work, the same in each try, "" in a shell. `made_ms` is the moment for which the
    work decides, epoch milliseconds. `options` has the values that were given, by the name of the
    model that declares them (kafkats/<room>/options.py) and the name of the field; other options
    have the defaults of their models. `by` is the person whom the ledger of a migration names.

    Who must approve is not part of a request: the process that carries it out knows that.
    """

    format: Literal[1] = 1
    id: str = ""
    made_ms: int
    verb: Verb
    log_dirs: tuple[LogDirectory, ...] = ()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    plan: PlanName | None = None
    runs: tuple[RunName, ...] = ()
    reservation: ReservationAsked | None = None
    approval: ApprovalAsked | None = None
    by: str = ""

    @field_validator("options")
    @classmethod
    def _options_of_the_verb(
        cls, options: dict[str, dict[str, Any]], info: ValidationInfo
    ) -> dict[str, dict[str, Any]]:
        """Return the values as JSON has them. Raises ValueError for what the verb has not."""
        verb = info.data.get("verb", "")
        known = {model.__name__: model for model in MODELS.get(verb, ())}
        if unknown := options.keys() - known.keys():
            raise ValueError(f"{', '.join(sorted(unknown))}: {verb} has no such options")
        return {
            name: known[name].model_validate(values).model_dump(mode="json", include=set(values))
            for name, values in options.items()
        }

    def of(self, model: type[M]) -> M:
        """Return the values of a model's options, its defaults for those that are not given."""
        return model.model_validate(self.options.get(model.__name__, {}))

    @property
    def holder(self) -> str | None:
        """The holder of the reservation to use, None if none is named."""
        return self.reservation.holder if self.reservation else None

    @property
    def record(self) -> Path | None:
        """The file with the approver's answer, None if none is named."""
        return self.approval.record if self.approval else None


def read_request(path: Path) -> Request:
    """Read a request. Raises UsageError for what this version cannot do, StorageFailed."""
    with storage(path, "reading the request"):
        text = path.read_bytes()
    try:
        return Request.model_validate(strict_json.loads(text))
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{where}: {first['msg']}" if where else first["msg"], path=path) from e
    except ValueError as e:
        raise UsageError(f"is no request: {e}", path=path) from e
