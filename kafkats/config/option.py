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
from typing import Annotated, Any, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from kafkats.config.declaration import (
    FILES,
    JSON_TYPES,
    RARE,
    REQUIRED,
    ByRelease,
    Choice,
    Declared,
    Kind,
    Option,
    Parsed,
    Worded,
)
from kafkats.config.values import parse_duration, parse_size, parse_time

__all__ = [
    "FILES",
    "RARE",
    "REQUIRED",
    "ByRelease",
    "Choice",
    "Declared",
    "Duration",
    "Instant",
    "Kind",
    "Option",
    "Options",
    "Parsed",
    "Size",
    "Time",
    "Worded",
    "Words",
    "declared",
]


class Options(BaseModel):
    """The options of one operation, or a group that several operations share."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


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


def declared(model: type[Options]) -> list[Declared]:
    """Return the options of a model, in its order. Raises TypeError for one without an Option."""
    return [_declared(name, field) for name, field in model.model_fields.items()]


def _declared(name: str, field: FieldInfo) -> Declared:
    options = [one for one in field.metadata if isinstance(one, Option)]
    if len(options) != 1:
        raise TypeError(f"field {name} needs one Option, and has {len(options)}")
    default = REQUIRED if field.default is PydanticUndefined else field.default
    return Declared(name, options[0], default, _kind(field.annotation, field.metadata))


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
    if annotation not in JSON_TYPES:
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
