"""The messages between a worker and a host: one line of JSON each way.

A message to a host is an `Ask`. A host refuses a field that it does not know. The message back is
an `Answer`, whose reader ignores such fields. A parcel of files may follow either.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, ValidationError

from kafkats.config.faults import faults
from kafkats.errors import UsageError
from kafkats.logdir import strict_json
from kafkats.result import Failure

M = TypeVar("M", bound=BaseModel)

PROTOCOL: Final = 1
MOST_BYTES: Final = 64 * 1024**2
"""Bytes of a message: the policy of a request may name many topics."""

Files: TypeAlias = dict[str, str]
"""Files by their path in the folder of all runs, each with the digest of its content."""
State: TypeAlias = Literal["none", "pending", "running", "ended", "lost"]
"""`pending`: its pod does not run yet. `ended`: there is a result. `lost`: the process is gone
without one.
"""


class Ask(BaseModel):
    """A message to a host.

    `id` is that of the request, the same in each try. `folder` is the folder of all runs, and
    `mark` the token in it (the name of a file), by which a host sees that both share it. `paths`
    are the files and folders in it that the request reads and writes, `files` their content on the
    worker. `ledgers` are those of `paths` to which other requests may append meanwhile. Without a
    sign of life for `silence_seconds` the work stops at its next safe point; 0: never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    protocol: Literal[1] = 1
    do: Literal["begin", "start", "look", "collect", "forget", "cancel"]
    id: str = Field(min_length=1)
    request: dict[str, Any] = Field(default_factory=dict)
    folder: Path
    mark: str = ""
    paths: tuple[Path, ...] = ()
    files: Files = Field(default_factory=dict)
    ledgers: tuple[Path, ...] = ()
    silence_seconds: NonNegativeFloat = 0


class Answer(BaseModel):
    """A message from a host.

    `wants` are the files to send for a start. `files` are those in the parcel that follows, `gone`
    those of the worker that the work removed. `told` is the end of what the process printed.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    protocol: Literal[1] = 1
    kafkats: str = Field(min_length=1)
    host: str = ""
    state: State = "none"
    wants: tuple[str, ...] = ()
    files: Files = Field(default_factory=dict)
    gone: tuple[str, ...] = ()
    progress: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    told: str = ""
    error: Failure | None = None


def write_message(stream: IO[bytes], message: BaseModel) -> None:
    """Write a message as one line. Bytes of a path that are not UTF-8 become half surrogates."""
    import json

    content = message.model_dump(mode="json", exclude_defaults=True)
    stream.write(json.dumps({"protocol": PROTOCOL} | content).encode("ascii") + b"\n")


def read_message(stream: IO[bytes], kind: type[M]) -> M:
    """Read a message. Raises UsageError for what is none, or none of this version."""
    line = stream.readline(MOST_BYTES + 1)
    if len(line) > MOST_BYTES:
        raise UsageError(f"a message of more than {MOST_BYTES} bytes")
    try:
        return kind.model_validate(strict_json.loads(line))
    except ValidationError as e:
        raise UsageError(f"not understood: {faults(e)[0]}") from e
    except ValueError as e:
        raise UsageError(f"is no message: {e}") from e
