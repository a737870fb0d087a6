"""Sentences of the library in the words of somebody who sees Airflow, and no command line.

The library names options of commands, because it does not know who calls it. In Airflow the same
option is a param of the DAG's form, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Final

from kafkats_airflow.forms.catalogue import FORMS, declared_in, flag_of
from kafkats_airflow.forms.tags import tag_of

_OPTION: Final = re.compile(
    r"kafkats release \S+(?: --work-area \S+)?"  # stays: somebody else runs it
    r"|(?<![\w-])(--[a-z]+(?:-[a-z]+)*)(, or (?=\w+ in the policy))?"
)
_COMMAND: Final = re.compile(r"\bkafkats plan ([a-z]+)\b")
_SPLIT: Final = ("--where", "split")
"""An option that a form declares anew, without its word on the command line."""


def in_airflow(text: str, params: Container[str] | None = None) -> str:
    """Return `text` with params in place of options, and DAGs in place of commands.

    `params` are those that the run has; None: those of any form. Where the policy can say the same
    as an option, only the policy is named.
    """

    def said(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        same = found[1].removeprefix("--").replace("-", "_")
        known = _params().get(found[1]) or ([same] if same in _ids() else [])
        names = [one for one in known if params is None or one in params]
        if names:
            return f"param {' or '.join(names)}{found[2] or ''}"
        return "" if found[2] else f"{found[1]} of the command line"

    named = _COMMAND.sub(
        lambda m: f"the DAG with the tag {tag_of(m[1])}" if m[1] in FORMS else m[0], text
    )
    return _OPTION.sub(said, named)


@cache
def _ids() -> frozenset[str]:
    return frozenset(one for form in FORMS.values() for one in form.ids)


@cache
def _params() -> dict[str, list[str]]:
    """Return the params of all forms, by the word of their option."""
    found = {_SPLIT[0]: [_SPLIT[1]]}
    for form in FORMS.values():
        for one in declared_in(form).values():
            if one.option.flags:
                names = found.setdefault(flag_of(one), [])
                names += [one.param] if one.param not in names else []
    return found
