"""Sentences of the library for somebody who sees Airflow, and no command line.

An option is a param of the DAG's form there, or nothing; a command is a DAG (kafkats.text).
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache
from typing import Final

from kafkats.text import Command, Part, Text
from kafkats_airflow.forms.catalogue import FORMS, declared_in, flag_of
from kafkats_airflow.forms.tags import tag_of

_PLAN: Final = "plan "
_SPLIT: Final = ("--where", "split")
"""An option that a form declares again, without its word on the command line."""


def in_form(sentence: str, params: Container[str] | None = None) -> str:
    """Return a sentence with params in place of options, and DAGs in place of commands.

    `params` are those that the run has; None: those of any form. Where the policy can say the same
    as an option that no form has, only the policy is named.
    """
    parts = sentence.parts if isinstance(sentence, Text) else (sentence,)
    return "".join(_said(one, params) for one in parts)


def _said(part: Part, params: Container[str] | None) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Command):
        planned = part.command.removeprefix(_PLAN)
        ours = part.command.startswith(_PLAN) and planned in FORMS
        return f"the DAG with the tag {tag_of(planned)}" if ours else str(part)
    policy = f"{part.policy} in the policy" if part.policy else ""
    names = [one for one in _params().get(part.flag, ()) if params is None or one in params]
    if names:
        return ", or ".join(filter(None, [f"param {' or '.join(names)}", policy]))
    return policy or f"{part.flag} of the command line"


@cache
def _params() -> dict[str, list[str]]:
    """Return the params of all forms, by the word of their option."""
    found = {_SPLIT[0]: [_SPLIT[1]]}
    for form in FORMS.values():
        for name, one in declared_in(form).items():
            flag = flag_of(one) if one.option.flags else f"--{name.replace('_', '-')}"
            names = found.setdefault(flag, [])
            names += [one.param] if one.param not in names else []
    return found
