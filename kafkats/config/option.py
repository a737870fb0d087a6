"""How an operation declares its options: once, for the command line, the DAGs and the docs.

The options of an operation are a pydantic model in `kafkats/<room>/options.py`. Those that several
operations share are in `kafkats/config/options.py`. A field has a name, a type with its bounds and
a default; `Option` has its sentence and what it is called elsewhere:

    class Rebuild(Options):
        all: Annotated[bool, Option("Also rewrite sound indexes", "--all")] = False

`declared(Rebuild)` is what the generators read: `kafkats_airflow.params` makes the Params of the
DAGs, `docs/options_page.py` makes docs/options.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticUndefined, core_schema

from kafkats.config.values import parse_duration, parse_size, parse_time


class Options(BaseModel):
    """The options of one operation, or a group that several operations share."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Option:
    """What an option does, and what it is called outside of the library.

    `flags` are its words on the command line, "" for none. `unset` says what holds without it.

    The form of a DAG calls it `param`, if that is not the field's name. It offers `choices`, if not
    all that the type allows, begins with `initial`, if that is not the default, and says `empty` of
    an empty box, if that is not `unset`.
    """

    sentence: str
    flags: str = ""
    metavar: str = ""
    unset: str = ""
    param: str = ""
    choices: tuple[str, ...] = ()
    initial: str | int | None = None
    empty: str = ""


@dataclass(frozen=True)
class Choice:
    """The type of an option that is one of a few words or numbers."""

    values: tuple[str | int, ...]

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.literal_schema(list(self.values))


@dataclass(frozen=True)
class Parsed:
    """The type of a number that is written as text: a time, a size, a duration.

    `parse` raises ValueError, which says what is wanted. `format` is the text's JSON Schema format.
    """

    metavar: str
    parse: Callable[[str], int]
    format: str = ""

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, core_schema.int_schema())

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string"} | ({"format": self.format} if self.format else {})

    def _read(self, value: object) -> object:
        return self.parse(value) if isinstance(value, str) else value


Time = Annotated[int, Parsed("TIME", parse_time, "date-time")]
"""ms since the epoch, written as ISO 8601 with its offset from UTC."""
Size = Annotated[int, Parsed("SIZE", parse_size)]
"""Bytes, written such as 20GiB."""
Duration = Annotated[int, Parsed("DURATION", parse_duration)]
"""ms, written such as 10m."""

REQUIRED: Final = PydanticUndefined
"""The default of an option that must be given."""


class Declared(NamedTuple):
    """One option, as the generators read it."""

    name: str
    option: Option
    default: Any
    """REQUIRED if there is none."""
    schema: dict[str, Any]
    """The JSON Schema of its value. `type` is a list that begins with null if it may be empty."""

    @property
    def param(self) -> str:
        """The id in the form of a DAG."""
        return self.option.param or self.name


def declared(model: type[Options]) -> list[Declared]:
    """Return the options of a model, in its order. Raises TypeError for one without an Option."""
    schemas = model.model_json_schema()["properties"]
    return [_declared(name, field, schemas[name]) for name, field in model.model_fields.items()]


def _declared(name: str, field: FieldInfo, schema: dict[str, Any]) -> Declared:
    options = [one for one in field.metadata if isinstance(one, Option)]
    if len(options) != 1:
        raise TypeError(f"field {name} needs one Option, and has {len(options)}")
    default = field.get_default(call_default_factory=True)
    return Declared(name, options[0], default, _flat(schema))


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Return type and bounds, on one level. A list may be empty."""
    kinds = schema.get("anyOf", [schema])
    [kind] = [one for one in kinds if one.get("type") != "null"]
    keys = ("type", "format", "enum", "items", "minimum", "maximum")
    flat = {key: kind[key] for key in keys if key in kind and kind[key] != "path"}
    if len(kinds) > 1 or flat["type"] == "array":
        flat["type"] = ["null", flat["type"]]
    return flat
