"""The fields that a form shows in Airflow, made from the options (kafkats_airflow.forms)."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkats.config.option import REQUIRED, Declared
from kafkats_airflow.forms import DEPLOYMENT, Form, declared_in


class Box(NamedTuple):
    """The field of a form for one option."""

    default: Any
    """REQUIRED if there is none."""
    schema: dict[str, Any]
    description: str
    labels: dict[str, str | list[str]]
    """`title`, and `section` and `examples` if there are any, as Airflow's form reads them."""


def boxes(form: Form) -> dict[str, Box]:
    """Return what a form shows, by id, in its order: those with a section come last."""
    found = {name: _box(one) for name, one in declared_in(form).items()}
    return dict(sorted(found.items(), key=lambda one: "section" in one[1].labels))


def _box(one: Declared) -> Box:
    option, default = one.option, one.default
    if one.param in DEPLOYMENT:
        default = DEPLOYMENT[one.param]
    elif option.initial is not None:
        default = option.initial
    elif isinstance(default, tuple):
        default = list(default)
    schema = one.kind.schema
    if default not in (None, []) and "null" in schema["type"]:
        schema["type"] = schema["type"][-1]
    if option.choices:
        schema["enum"] = list(option.choices)
    return Box(default, schema, _description(one, required=default is REQUIRED), _labels(one))


def _labels(one: Declared) -> dict[str, str | list[str]]:
    labels: dict[str, str | list[str]] = {"title": one.title}
    if one.option.section:
        labels["section"] = one.option.section
    if one.option.examples:
        labels["examples"] = list(one.option.examples)
    return labels


def _description(one: Declared, *, required: bool) -> str:
    option, said = one.option, one.option.sentence
    if one.kind.many:
        said += ". One per line"
    if empty := option.empty or option.unset:
        said += f". Empty: {empty}"
    if one.param in DEPLOYMENT:
        said += f". Default: KAFKATS_{one.param.upper()}"
    return f"{said} To be given" if required else said
