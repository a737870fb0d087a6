"""Declare the options of an operation once, for the command line, the DAGs and the docs.

The options of an operation are a pydantic model in `kafkats/<room>/options.py`. Those that several
operations share are in `kafkats/config/options.py`. A field has a name, a type with its bounds and
a default; `Option` has its sentence and what it is called elsewhere:

    class Rebuild(Options):
        all: bool = Option("Also rewrite sound indexes", "--all").default(False)

An option that must be given, or a type that has its option, is Annotated with the Option.

`declared(Rebuild)` is what the generators read: `kafkats.cli.generated` makes the options of the
commands, `kafkats_airflow.forms.params` the Params of the DAGs, `tools/options_page.py`
docs/options.md.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, core_schema

from kafkats.config.values import parse_duration, parse_size, parse_time
from kafkats.releases import Subject, pattern_of, rule_of

T = TypeVar("T")


class Options(BaseModel):
    """The options of one operation, or a group that several operations share."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


@dataclass(frozen=True)
class Option:
    """The sentence of an option, and its names on the command line and in forms.

    `flags` are its words on the command line, "" for none. `unset` says what holds without it.

    The form of a DAG calls it `param`, if that is not the field's name. Above the box is `title`,
    if that is not the param in words. The form offers `choices`, if not all that the type allows,
    begins with `initial`, if that is not the default, and says `empty` of an empty box, if that is
    not `unset`. It suggests `examples`, but takes any text. Boxes with a `section` come last, below
    that heading, which a person opens.

    `loses` says what a run with it deletes or loses that it would keep otherwise: the form folds
    such options away, with that sentence.

    A plan stores the value as `stored`, if that is not the field's name (kafkats.config.given).
    A `hidden` option is in no help and no form: operators do not need it.

    `writes` says that it names a file or folder which is written: it must be in no log directory.
    """

    sentence: str
    flags: str = ""
    metavar: str = ""
    unset: str = ""
    param: str = ""
    choices: tuple[str, ...] = ()
    initial: str | int | None = None
    empty: str = ""
    stored: str = ""
    title: str = ""
    section: str = ""
    examples: tuple[str, ...] = ()
    hidden: bool = False
    loses: str = ""
    writes: bool = False

    def default(self, value: T) -> T:
        """Return a pydantic field with this option and a default."""
        field: Any = Field(value)
        field.metadata.append(self)
        return cast(T, field)


FILES: Final = "Files and folders"
"""The section of options that a deployment sets, and a person rarely changes."""
RARE: Final = "Rarely needed"
"""The section of options that most runs leave as they are."""


@dataclass(frozen=True)
class Choice:
    """The type of an option that is one of a few words or numbers."""

    values: tuple[str | int, ...]

    def __get_pydantic_core_schema__(
        self, source: type, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        literal = core_schema.literal_schema(list(self.values))
        is_optional = types.NoneType in get_args(source)
        return core_schema.nullable_schema(literal) if is_optional else literal


@dataclass(frozen=True)
class Parsed:
    """The type of a number that is written as text: a time, a size, a duration.

    `parse` raises ValueError, which says what is wanted. `format` is the text's JSON Schema format.
    """

    metavar: str
    parse: Callable[[str], int]
    format: str = ""

    def __get_pydantic_core_schema__(
        self, _source: type, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, core_schema.int_schema())

    def _read(self, value: object) -> object:
        return self.parse(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class ByRelease:
    """The type of a rule that is named by a Kafka release, such as `4.3` (kafkats.releases).

    The value is the rule's name. Names are words, too, also those of rules of no release, `others`.
    Forms do not take the `misleading` ones, which no broker may read.
    """

    subject: Subject
    others: tuple[str, ...] = ()
    misleading: tuple[str, ...] = ()
    metavar: ClassVar[str] = "RELEASE"

    def __get_pydantic_core_schema__(
        self, _source: type, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.parse, core_schema.str_schema())

    def parse(self, word: str) -> str:
        """Return the rule's name. Raises ValueError with the known releases."""
        return rule_of(self.subject, word, (*self.others, *self.misleading))


@dataclass(frozen=True)
class Worded:
    """The type of a text that the operation reads, such as a time or the word latest."""

    metavar: str
    format: str = ""


Instant = Annotated[str, Worded("TIME", "date-time")]
"""A time as for Time, or latest, earliest or max-timestamp."""
Time = Annotated[int, Parsed("TIME", parse_time, "date-time")]
"""ms since the epoch, written as ISO 8601 with its offset from UTC."""
Size = Annotated[int, Parsed("SIZE", parse_size)]
"""Bytes, written such as 20GiB."""
Duration = Annotated[int, Parsed("DURATION", parse_duration)]
"""ms, written such as 10m."""

Words = Annotated[tuple[str, ...], "commas"]
"""Words that the command line takes with commas between them."""

REQUIRED: Final = PydanticUndefined
"""The default of an option that must be given."""


class Kind(NamedTuple):
    """The type of an option."""

    base: type
    """bool, int, str or Path."""
    text: Choice | ByRelease | Parsed | Worded | None
    many: bool
    commas: bool
    optional: bool
    least: int | None
    most: int | None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema. `type` is a list that begins with null if the value may be missing."""
        schema: dict[str, Any] = {"type": _JSON[self.base]}
        if isinstance(self.text, Choice):
            schema["enum"] = list(self.text.values)
        elif isinstance(self.text, ByRelease):
            schema["pattern"] = pattern_of(self.text.subject, self.text.others)
        elif isinstance(self.text, Parsed | Worded):
            schema = {"type": "string"} | ({"format": self.text.format} if self.text.format else {})
        if self.least is not None:
            schema["minimum"] = self.least
        if self.most is not None:
            schema["maximum"] = self.most
        if self.many:
            return {"type": ["null", "array"], "items": schema}
        return schema | ({"type": ["null", schema["type"]]} if self.optional else {})


_JSON: Final = {bool: "boolean", int: "integer", str: "string", Path: "string"}


class Declared(NamedTuple):
    """One option, as the generators read it."""

    name: str
    option: Option
    default: Any
    """REQUIRED if there is none."""
    kind: Kind

    @property
    def param(self) -> str:
        """The id in the form of a DAG."""
        return self.option.param or self.name

    @property
    def title(self) -> str:
        """The heading of its box in the form of a DAG."""
        return self.option.title or self.param.replace("_", " ").capitalize()


def declared(model: type[Options]) -> list[Declared]:
    """Return the options of a model, in its order. Raises TypeError for one without an Option."""
    return [_declared(name, field) for name, field in model.model_fields.items()]


def _declared(name: str, field: FieldInfo) -> Declared:
    options = [one for one in field.metadata if isinstance(one, Option)]
    if len(options) != 1:
        raise TypeError(f"field {name} needs one Option, and has {len(options)}")
    return Declared(name, options[0], field.default, _kind(field.annotation, field.metadata))


def _kind(annotation: Any, metadata: list[object]) -> Kind:
    """Return the type that an annotation stands for. Raises TypeError for any other."""
    annotations, optional, many = list(metadata), False, False
    while (origin := get_origin(annotation)) is not None:
        first, *others = get_args(annotation)
        if origin is Annotated:
            annotations += others
        elif origin in {Union, types.UnionType} and others == [types.NoneType]:
            optional = True
        elif origin is tuple and others == [...]:
            many = True
        else:
            break
        annotation = first
    if annotation not in _JSON:
        raise TypeError(f"{annotation} is no type that an option can have")
    texts = [one for one in annotations if isinstance(one, Choice | ByRelease | Parsed | Worded)]
    least = [one.ge for one in annotations if isinstance(one, Ge)]
    most = [one.le for one in annotations if isinstance(one, Le)]
    return Kind(
        annotation,
        texts[0] if texts else None,
        many,
        "commas" in annotations,
        optional,
        int(str(least[0])) if least else None,
        int(str(most[0])) if most else None,
    )
