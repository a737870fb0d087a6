"""Read the script of a replay: one JSON object per line, one step per object.

Empty lines and lines that begin with `#` are skipped. The user page is model/docs/replay.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from kafkats.config.faults import faults
from kafkats.config.values import parse_time
from kafkats.errors import BadInput, UsageError
from kafkats.formats.v2 import HeaderFields
from kafkats.generations import DIALECTS, KIP228
from kafkats.logdir import strict_json
from kafkats.logdir.strict_json import Json
from kafkats.logdir.text import read_given
from kafkats.search.answers import taken_for_a_word

MOST_RECORDS: Final = 100_000
"""The limit of one message set: a script of few bytes can ask for any number."""
_MOST_BYTES: Final = 64 * 1024 * 1024
_INT16: Final = 2**15 - 1
_INT32: Final = 2**31 - 1
_INT64: Final = 2**63 - 1


def _is_instant(value: object) -> TypeGuard[str]:
    """Return whether a value of a script is a time in ISO 8601, not a number."""
    if not isinstance(value, str) or value.lstrip("-").isdecimal():
        return False
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


def _time(value: object) -> object:
    return parse_time(value) if isinstance(value, str) else value


Offset = Annotated[int, Field(ge=0, le=_INT64 - 1, strict=True)]
Count = Annotated[int, Field(ge=0, le=_INT32, strict=True)]
Clock = Annotated[int, BeforeValidator(_time), Field(ge=0, le=2**53, strict=True)]
"""ms since the epoch, or ISO 8601."""
Timestamp = Annotated[int, BeforeValidator(_time), Field(ge=-_INT64 - 1, le=_INT64, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Dialect: TypeAlias = Literal["kip228"] | None
"""The dialect that a client knows."""
BrokerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,40}$")]
PartitionText = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,200}-(0|[1-9][0-9]{0,8})$")
]


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
    config: dict[str, str | int | float | bool] = {}
    """Settings of the broker."""


class Create(_PartitionStep):
    """A new partition on a broker: empty, or a copy of the partition directory `copy_of`."""

    do: Literal["create"]
    config: dict[str, str | int | float | bool] = {}
    copy_of: str | None = Field(None, alias="from", min_length=1)


class SentRecord(_Part):
    """A record of a producer; key and value are text."""

    timestamp: Timestamp | None = None
    """None: no timestamp."""
    key: str | None = None
    value: str | None = None
    count: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1
    """The number of copies that are sent."""

    @property
    def content(self) -> tuple[bytes | None, bytes | None]:
        """Key and value as bytes."""
        key, value = (None if one is None else one.encode() for one in (self.key, self.value))
        return key, value

    def time_or(self, none: int) -> int:
        """Return the timestamp, `none` without one."""
        return none if self.timestamp is None else self.timestamp


def _repeated(records: tuple[SentRecord, ...]) -> tuple[SentRecord, ...]:
    count = sum(one.count for one in records)
    size = sum(one.count * sum(len(part or "") for part in (one.key, one.value)) for one in records)
    if count > MOST_RECORDS or size > _MOST_BYTES:
        raise ValueError(
            f"{count} records with {size} bytes in one set: at most {MOST_RECORDS} records and"
            f" {_MOST_BYTES} bytes are played"
        )
    return tuple(one for one in records for _ in range(one.count))


class SentBy(_Part):
    """The idempotent or transactional producer of a set."""

    id: Offset
    epoch: Annotated[int, Field(ge=0, le=_INT16, strict=True)] = 0
    sequence: Count
    """The sequence number of the set's first record."""
    transactional: Flag = False

    @property
    def fields(self) -> HeaderFields:
        """The same as the header of a batch has it."""
        return {
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequence,
            "transactional": self.transactional,
        }


class Produce(_PartitionStep):
    """A produce request with one message set: `records`, or its bytes as hex in `set`."""

    do: Literal["produce"]
    version: Count
    codec: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    records: Annotated[tuple[SentRecord, ...], AfterValidator(_repeated)] = ()
    set: str | None = None
    producer: SentBy | None = None
    epoch: Count = 0
    control: (
        Literal["leader-epoch", "start-transaction", "commit-transaction", "abort-transaction"]
        | None
    ) = None
    """The type of control messages. Only the dialect `enriched` has them in a set."""
    dialect: Dialect = None

    @model_validator(mode="before")
    @classmethod
    def _check_instants(cls, given: object) -> object:
        """Raise ValueError for the last millisecond of 1969 where its number says: none."""
        fields = given if isinstance(given, dict) else {}
        records = fields.get("records")
        if fields.get("dialect") == KIP228 or not isinstance(records, list):
            return given
        for record in records:
            text = record.get("timestamp") if isinstance(record, dict) else None
            if _is_instant(text) and parse_time(text) == -1:
                raise ValueError(
                    f"{text} is -1, and that is no timestamp: shift it by 1 ms, or send it by"
                    f" dialect {KIP228}"
                )
        return given

    def given_set(self) -> bytes | None:
        """Return the bytes of `set`, None for records.

        Raises UsageError unless there is one of them, and for what is no hex.
        """
        if (self.set is None) == (not self.records):
            raise UsageError("give records, or a set, and not both")
        try:
            return None if self.set is None else bytes.fromhex(self.set)
        except ValueError as e:
            raise UsageError("set: no hex: two of 0 to 9 and a to f for each byte") from e


class ProduceLog(_PartitionStep):
    """Produce requests with the batches of the .log file `log`, one message set each.

    Uncompressed messages of magic 0 and 1 form sets of up to `bytes`. A relative path begins at the
    script.
    """

    do: Literal["produce-log"]
    version: Count
    log: Path
    bytes: Count = 1 << 14
    epoch: Count = 0


class EndTransaction(_PartitionStep):
    """The marker of a transaction coordinator: a producer's transaction is committed or aborted."""

    do: Literal["end-transaction"]
    producer: Offset
    producer_epoch: Annotated[int, Field(ge=0, le=_INT16, strict=True)] = 0
    commit: Flag
    coordinator_epoch: Count = 0
    epoch: Count = 0


class Replicate(_PartitionStep):
    """A fetch of a follower, `broker`, from the leader `leader`."""

    do: Literal["replicate"]
    leader: BrokerName
    bytes: Count = 1 << 20


class Mirror(_PartitionStep):
    """A mirror that copies a set of another cluster: from a partition of the broker `source`.

    Partitions of one name are replicas of each other, so the other cluster's has another name. Only
    brokers of the dialect `enriched` have this step.
    """

    do: Literal["mirror"]
    source: BrokerName
    source_partition: PartitionText
    offset: Offset = 0
    bytes: Count = 1 << 20


class Fetch(_PartitionStep):
    """A fetch of a consumer."""

    do: Literal["fetch"]
    version: Count
    offset: Offset
    bytes: Count = 1 << 20
    decodes: Annotated[int, Field(ge=0, le=2, strict=True)] = 2
    """The latest format that the consumer can decode."""
    dialect: Dialect = None


class ListOffsets(_PartitionStep):
    """The offset at a time: a number of ms, ISO 8601, or a negative number as in the protocol."""

    do: Literal["list-offsets"]
    version: Count
    time: Timestamp
    count: Annotated[int, Field(ge=1, le=_INT32, strict=True)] = 1
    """The most offsets that version 0 asks for. Later versions have no such field."""

    @model_validator(mode="before")
    @classmethod
    def _check_instant(cls, given: object) -> object:
        """Raise ValueError for an instant whose number is a word in the protocol."""
        text = given.get("time") if isinstance(given, dict) else None
        if _is_instant(text) and taken_for_a_word(parse_time(text)):
            raise ValueError(
                f"{text} is {parse_time(text)}, a word in the protocol: no broker can be asked for"
                " this instant"
            )
        return given


class Roll(_PartitionStep):
    """A new segment at the log end."""

    do: Literal["roll"]


class Truncate(_PartitionStep):
    """A follower that cuts its log at an offset."""

    do: Literal["truncate"]
    offset: Offset


class DeleteRecords(_PartitionStep):
    """Move the log start up to an offset, at most to the high watermark."""

    do: Literal["delete-records"]
    offset: Offset


class Retain(_PartitionStep):
    """Retention, as the broker's timer runs it."""

    do: Literal["retain"]


class Compact(_PartitionStep):
    """One round of the log cleaner on the partition, if it is dirty enough."""

    do: Literal["compact"]


class Restart(_Step):
    """A stop and a start of a broker, perhaps of another release.

    An unclean stop loses `lose` bytes at the end of each log.
    """

    do: Literal["restart"]
    clean: Flag = True
    lose: Count = 0
    kafka: str | None = None
    config: dict[str, str | int | float | bool] = {}
    """Settings that change, of the broker or of all its partitions."""


Step: TypeAlias = (
    Start | Create | Produce | ProduceLog | EndTransaction | Replicate | Mirror | Fetch
    | ListOffsets | Roll | Truncate | DeleteRecords | Retain | Compact | Restart
)  # fmt: skip
_STEP: TypeAdapter[Step] = TypeAdapter(Annotated[Step, Field(discriminator="do")])


def dialect_of(step: Step) -> str | None:
    """Return the dialect that a step names: of its broker, or its client."""
    kafka: str | None = getattr(step, "kafka", None)
    named: str | None = getattr(step, "dialect", None)
    return named or (kafka if kafka in DIALECTS else None)


class Line(NamedTuple):
    """A step and its line in the script, from 1 on."""

    number: int
    step: Step


def read_script(path: Path) -> list[Line]:
    """Return the steps of a script.

    Raises BadInput with the line for anything that is no step, UsageError for a script that does
    not exist, StorageFailed.
    """
    lines = []
    for number, raw in enumerate(read_given(path, "script").splitlines(), 1):
        text = raw.strip()
        if text and not text.startswith(b"#"):
            lines.append(Line(number, _step(path, number, text)))
    return lines


def _fault(error: ValidationError) -> str:
    """Return the first fault of a step, with its field."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:]))
    context = first.get("ctx", {})
    if first["type"] == "extra_forbidden":
        return f"{place}: this step has no such field"
    if first["type"] == "union_tag_invalid":
        return f"do: {context['tag']} is no step; the steps are {context['expected_tags']}"
    if first["type"] == "union_tag_not_found":
        return "do: is missing; it names the step"
    if first["type"] == "model_attributes_type" and not place:
        return "a step is a JSON object"
    if first["type"] == "value_error":
        return ": ".join(filter(None, (place, str(context["error"]))))
    if place.startswith("config.") and isinstance(first["input"], list | dict | None):
        return f"config.{first['loc'][2]}: is no text, number, true or false"
    if first["type"] == "string_pattern_mismatch" and place.endswith("partition"):
        return f"{place}: {first['input']!r} is no TOPIC-NUMBER such as orders-0"
    return faults(error, below=1)[0]


def _step(path: Path, number: int, text: bytes) -> Step:
    try:
        value: Json = strict_json.loads(text.decode())
        return _STEP.validate_python(value)
    except ValidationError as e:
        reason = _fault(e)
    except UnicodeDecodeError:
        reason = "not UTF-8"
    except json.JSONDecodeError as e:
        reason = f"no JSON from character {e.colno} on"
    except ValueError as e:
        reason = str(e)
    raise BadInput(f"line {number}: {reason}", path=path)
