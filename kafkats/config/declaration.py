"""The declaration of one option: its sentence, its names, the type of its value.

`kafkats.config.option` reads declarations from models. This module imports no pydantic: the options
of the program itself are declared without, so that its help answers at once.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar, cast, get_args

from kafkats.releases import Subject, pattern_of, rule_of

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import core_schema

T = TypeVar("T")


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

    No DAG gives an option `by_hand`, and a deployment with approvers refuses it; nor a hidden one.

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
    by_hand: bool = False

    def default(self, value: T) -> T:
        """Return a pydantic field with this option and a default."""
        from pydantic import Field

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
        from pydantic_core import core_schema

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
        from pydantic_core import core_schema

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
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.parse, core_schema.str_schema())

    def parse(self, word: str) -> str:
        """Return the rule's name. Raises ValueError with the known releases."""
        return rule_of(self.subject, word, (*self.others, *self.misleading))


@dataclass(frozen=True)
class Worded:
    """The type of a text that the operation reads, such as a time or the word latest."""

    metavar: str
    format: str = ""


class _Missing(Enum):
    REQUIRED = "required"


REQUIRED: Final = _Missing.REQUIRED
"""The default of an option that must be given."""


class Kind(NamedTuple):
    """The type of an option."""

    base: type
    """bool, int, str or Path."""
    text: Choice | ByRelease | Parsed | Worded | None = None
    many: bool = False
    commas: bool = False
    optional: bool = False
    least: int | None = None
    most: int | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema. `type` is a list that begins with null if the value may be missing."""
        schema: dict[str, Any] = {"type": JSON_TYPES[self.base]}
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


JSON_TYPES: Final = {bool: "boolean", int: "integer", str: "string", Path: "string"}


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
