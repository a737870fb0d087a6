"""The states of golden directories whose partitions hold records, except what a later state of the same root has."""

from __future__ import annotations

from tests.golden import Case, states

WITH_DATA = [
    (one, state)
    for one, state in states()
    if not (one.kind == "root" and state in ("running", "data", "after-stray"))
]


def of_kind(kind: str) -> list[tuple[Case, str]]:
    return [(one, state) for one, state in WITH_DATA if one.kind == kind]
