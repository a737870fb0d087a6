"""The sentence about a wrong value in a file, in the words of this project, not in pydantic's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from kafkats.config.values import shown_value

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MAPPING: Final = "must be a mapping: keys with values"
_LIST: Final = "must be a list"
_NUMBER: Final = "must be a whole number"
_DECIMAL: Final = "must be a number"
_FLAG: Final = "must be true or false"
_WORDS: Final = {
    "bool_parsing": _FLAG,
    "bool_type": _FLAG,
    "dict_type": _MAPPING,
    "float_parsing": _DECIMAL,
    "float_type": _DECIMAL,
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": _NUMBER,
    "int_parsing": _NUMBER,
    "int_parsing_size": _NUMBER,
    "int_type": _NUMBER,
    "less_than_equal": "must be at most {le}",
    "list_type": _LIST,
    "literal_error": "must be {expected}",
    "model_attributes_type": _MAPPING,
    "model_type": _MAPPING,
    "path_type": "must be a path",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have a character",
    "string_type": "must be a text",
    "tuple_type": _LIST,
}
"""By pydantic's name of the type of an error. `{}`: a name in its context."""


def fault_text(fault: ErrorDetails) -> str:
    """Return the reason of one fault, without its place."""
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "unknown key"
    if kind == "value_error":
        return str(context["error"])
    if kind not in _WORDS:  # `kafkats` (config.values.wrong), or a type that no model here has
        return fault["msg"]
    return f"{_WORDS[kind].format(**context)}, not {shown_value(fault['input'])}"


def faults(error: ValidationError, below: int = 0) -> list[str]:
    """Return each fault of a model as `place: reason`, without `below` first parts of a place."""
    return [
        ": ".join(filter(None, (".".join(map(str, fault["loc"][below:])), fault_text(fault))))
        for fault in error.errors()
    ]
