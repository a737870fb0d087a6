"""The environment variable KAFKATS_APPROVERS names the users who may approve what is written.

KAFKATS_APPROVERS="alice,bob"       the users by that name and id
KAFKATS_APPROVERS="1:alice,2:bob"   where ids are not names
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkats.errors import UsageError

NAME: Final = "KAFKATS_APPROVERS"
NOBODY: Final = frozenset({"anonymous", "nobody"})
"""What whoever has not logged in is called: in an Airflow where everybody is an admin, and in the record of no answer."""
_USER: Final = re.compile(r"[^\s,:]{1,200}")


class Approver(NamedTuple):
    """A user of Airflow, as its auth manager knows them."""

    id: str
    name: str


def read_approvers(text: str | None) -> tuple[Approver, ...]:
    """Return the users that the variable names; none when it is not set. Raises UsageError, also for words that name nobody."""
    if text is None:
        return ()
    found = []
    for word in text.replace(",", " ").split():
        user, colon, name = word.partition(":")
        one = Approver(user, name if colon else user)
        if not all(map(_USER.fullmatch, one)) or NOBODY & {part.lower() for part in one}:
            raise UsageError(f"{NAME}: {word[:60]!r} is not NAME or ID:NAME of a user who logs in")
        found.append(one)
    if not found:
        raise UsageError(f"{NAME} names nobody: name users of Airflow, or do not set it")
    return tuple(found)
