"""Losses that no file of a log directory can show: why, and for which changes.

At most eight classes. A class says what it covers by kind of file, mutation and place, and is refused where some file
of the changed directory contradicts it (`tests.campaign.contradiction`): then verify must find it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.campaign.corpus import Root
from tests.campaign.mutations import Change


class Class(NamedTuple):
    """`covers` says whether a change belongs to it; `why` is what the report prints."""

    name: str
    why: str
    covers: Callable[[Change, Root], bool]


CLASSES: Final[tuple[Class, ...]] = ()


def class_of(change: Change, root: Root) -> str | None:
    """The class that a change belongs to; None where a finding is owed."""
    return next((one.name for one in CLASSES if one.covers(change, root)), None)
