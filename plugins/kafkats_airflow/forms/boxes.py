"""The fields that a form shows in Airflow, made from the options (forms.catalogue)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafkats.config.option import FILES, RARE, REQUIRED, Declared, Parsed, Worded
from kafkats_airflow.forms.catalogue import DEPLOYMENT, LOSES, Form, declared_in
from kafkats_airflow.forms.writing import DRY_RUN, NEED_APPROVAL, by_default

_SECTIONS: Final = ("", LOSES, RARE, FILES)
_EXAMPLES: Final = {"TIME": "2026-01-31T10:00:00Z", "SIZE": "1GiB", "DURATION": "10m"}
"""How a value of a type is written, by the type's word."""


class Box(NamedTuple):
    """The field of a form for one option."""

    default: Any
    """REQUIRED if there is none."""
    schema: dict[str, Any]
    description: str
    labels: dict[str, Any]
    """Keys of the schema that Airflow's form reads: title, section, examples."""


def boxes(form: Form) -> dict[str, Box]:
    """Return what a form shows, by id, in its order: those with a section come last."""
    found = {name: _box(one) for name, one in declared_in(form).items()}
    first = next((name for name in (DRY_RUN, NEED_APPROVAL) if name in found), None)
    if first:
        box, dry, asks = found[first], found.get(DRY_RUN), found.get(NEED_APPROVAL)
        said = by_default(dry=bool(dry and dry.default), asks=bool(asks and asks.default))
        found[first] = box._replace(description=f"{box.description}. {said}")
    return dict(
        sorted(found.items(), key=lambda one: _SECTIONS.index(one[1].labels.get("section", "")))
    )


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
    said = _description(one, required=default is REQUIRED)
    return Box(default, schema, said, _labels(one))


def _labels(one: Declared) -> dict[str, Any]:
    labels: dict[str, Any] = {"title": one.title}
    if section := LOSES if one.option.loses else one.option.section:
        labels["section"] = section
    if one.option.examples:
        labels["examples"] = list(one.option.examples)
    return labels


def _description(one: Declared, *, required: bool) -> str:
    """Return the sentences below a box."""
    option, text = one.option, one.option.sentence
    word = one.kind.text.metavar if isinstance(one.kind.text, Parsed | Worded) else ""
    if word in _EXAMPLES and not option.examples and option.initial is None:
        text += f"{'' if text.endswith('?') else '.'} Written such as {_EXAMPLES[word]}"
    if option.loses:
        text += f". {option.loses}"
    if one.kind.many:
        text += ". One per line"
    if empty := option.empty or option.unset:
        text += f". Empty: {empty}"
    if one.param in DEPLOYMENT:
        text += f". Default: KAFKATS_{one.param.upper()}"
    return f"{text}. To be given" if required else text


def default_in_words(box: Box) -> str:
    """Return the default of a box for its description, "" where the description has it."""
    if box.default is REQUIRED or box.default in (None, []) or "efault" in box.description:
        return ""
    said = {True: "on", False: "off"}.get(box.default) if isinstance(box.default, bool) else None
    return f". Default: {said or box.default}"
