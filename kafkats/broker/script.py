"""Read the script of a replay: one JSON object per line, one step per object.

Empty lines and lines that begin with `#` are skipped. The user page is docs/replay.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from kafkats.config.settings import faults
from kafkats.config.values import parse_time
from kafkats.errors import BadInput, storage
from kafkats.logdir import strict_json
from kafkats.logdir.strict_json import Json

_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


def _time(value: object) -> object:
    return parse_time(value) if isinstance(value, str) else value


Offset = Annotated[int, Field(ge=0, le=_INT64 - 1, strict=True)]
Count = Annotated[int, Field(ge=0, le=_INT32, strict=True)]
Clock = Annotated[int, BeforeValidator(_time), Field(ge=0, le=2**53)]
"""ms since the epoch, or ISO 8601."""
Timestamp = Annotated[int, BeforeValidator(_time), Field(ge=-_INT64 - 1, le=_INT64)]
BrokerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,40}$")]
PartitionText = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,200}-[0-9]{1,9}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Step(_Part):
    at: Clock | None = None
    """The clock of all brokers from here on."""
    broker: BrokerName


class _PartitionStep(_Step):
    partition: PartitionText


class Start(_Step):
    """A new broker."""

    do: Literal["broker"]
    kafka: str


class Create(_PartitionStep):
    """A new partition on a broker."""

    do: Literal["create"]
    config: dict[str, str | int | float | bool] = {}


class SentRecord(_Part):
    """A record of a producer; key and value are text."""

    timestamp: Timestamp = -1
    key: str | None = None
    value: str | None = None


class Produce(_PartitionStep):
    """A produce request with one message set: `records`, or its bytes as hex in `set`."""

    do: Literal["produce"]
    version: Count
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    records: tuple[SentRecord, ...] = ()
    set: str | None = None
    epoch: Count = 0


class Replicate(_PartitionStep):
    """A fetch of a follower, `broker`, from the leader `leader`."""

    do: Literal["replicate"]
    leader: BrokerName
    bytes: Count = 1 << 20


class Fetch(_PartitionStep):
    """A fetch of a consumer."""

    do: Literal["fetch"]
    version: Count
    offset: Offset
    bytes: Count = 1 << 20


class ListOffsets(_PartitionStep):
    """The offset at a time: a number of ms, ISO 8601, or a negative number as in the protocol."""

    do: Literal["list-offsets"]
    version: Count
    time: Timestamp


class Roll(_PartitionStep):
    """A new segment at the log end."""

    do: Literal["roll"]


class Truncate(_PartitionStep):
    """A follower that cuts its log at an offset."""

    do: Literal["truncate"]
    offset: Offset


class Retain(_PartitionStep):
    """Retention, as the broker's timer runs it."""

    do: Literal["retain"]


class Restart(_Step):
    """A stop and a start of a broker, perhaps of another release.

    An unclean stop loses `lose` bytes at the end of each log.
    """

    do: Literal["restart"]
    clean: bool = True
    lose: Count = 0
    kafka: str | None = None
    config: dict[str, str | int | float | bool] = {}
    """Settings that change, of all its partitions."""


Step: TypeAlias = (
    Start | Create | Produce | Replicate | Fetch | ListOffsets | Roll | Truncate | Retain | Restart
)
_STEP: TypeAdapter[Step] = TypeAdapter(Annotated[Step, Field(discriminator="do")])


class Line(NamedTuple):
    """A step and its line in the script, from 1 on."""

    number: int
    step: Step


def read_script(path: Path) -> list[Line]:
    """Return the steps of a script.

    Raises BadInput with the line for anything that is no step; StorageFailed.
    """
    with storage(path, "reading"):
        data = path.read_bytes()
    lines = []
    for number, raw in enumerate(data.splitlines(), 1):
        text = raw.strip()
        if text and not text.startswith(b"#"):
            lines.append(Line(number, _step(path, number, text)))
    return lines


def _step(path: Path, number: int, text: bytes) -> Step:
    try:
        value: Json = strict_json.loads(text.decode())
        return _STEP.validate_python(value)
    except ValidationError as e:
        reason = faults(e, below=1)[0]
    except (UnicodeDecodeError, json.JSONDecodeError) as e:
        reason = f"no JSON: {e}"
    except ValueError as e:
        reason = str(e)
    raise BadInput(f"line {number}: {reason}", path=path)
