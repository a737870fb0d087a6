"""The fields that a form shows in Airflow, made from the options (kafkats_airflow.forms)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Required, TypedDict

from kafkats.config.option import FILES, REQUIRED, Declared
from kafkats_airflow.forms import DEPLOYMENT, RARE, Form, declared_in

_SECTIONS: Final = ("", RARE, FILES)


class Labels(TypedDict, total=False):
    """Keys of a schema, as Airflow's form reads them."""

    title: Required[str]
    section: str
    examples: list[str]


class Box(NamedTuple):
    """The field of a form for one option."""

    default: Any
    """REQUIRED if there is none."""
    schema: dict[str, Any]
    description: str
    labels: Labels


def boxes(form: Form) -> dict[str, Box]:
    """Return what a form shows, by id, in its order: those with a section come last."""
    found = {name: _box(one, rare=name in form.rare) for name, one in declared_in(form).items()}
    return dict(
        sorted(found.items(), key=lambda one: _SECTIONS.index(one[1].labels.get("section", "")))
    )


def _box(one: Declared, *, rare: bool) -> Box:
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
    return Box(
        default, schema, _description(one, required=default is REQUIRED), _labels(one, rare=rare)
    )


def _labels(one: Declared, *, rare: bool) -> Labels:
    labels: Labels = {"title": one.title}
    if section := one.option.section or (RARE if rare else ""):
        labels["section"] = section
    if one.option.examples:
        labels["examples"] = list(one.option.examples)
    return labels


def _description(one: Declared, *, required: bool) -> str:
    option, text = one.option, one.option.sentence
    if one.kind.many:
        text += ". One per line"
    if empty := option.empty or option.unset:
        text += f". Empty: {empty}"
    if one.param in DEPLOYMENT:
        text += f". Default: KAFKATS_{one.param.upper()}"
    return f"{text} To be given" if required else text
