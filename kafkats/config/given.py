"""The options that a command was given, as the models that declare them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from kafkats.config.option import Options, declared

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M", bound=Options)
S = TypeVar("S", bound="DataclassInstance")


@dataclass(frozen=True)
class Given:
    """The values of options by the names of their fields, and the moment of the command in epoch
    milliseconds.

    `named` are the options that the command line names. `reported`: a report is written about what
    is seen.
    """

    values: Mapping[str, object]
    now_ms: int
    named: frozenset[str] = frozenset()
    reported: bool = False

    def of(self, model: type[M]) -> M:
        """Return the values of a model's options. Raises KeyError for a model that is not asked."""
        return model.model_validate({name: self.values[name] for name in model.model_fields})

    def at(self, moment_ms: int | None) -> int:
        """Return a moment, that of the command if it is None."""
        return self.now_ms if moment_ms is None else moment_ms


def stored(options: type[S], *models: Options, **instead: object) -> S:
    """Return the options that a plan stores, a dataclass, from the models that declare them.

    A field has the value of the option of its name, or of the option that is stored under its name
    (Option.stored). `instead` has values that are no option's.
    """
    values: dict[str, object] = {}
    for model in models:
        for one in declared(type(model)):
            values[one.option.stored or one.name] = getattr(model, one.name)
    values |= instead
    names = {field.name for field in fields(options)}
    build: Callable[..., S] = options
    return build(**{name: value for name, value in values.items() if name in names})
