"""The environment variable KAFKATS_APPROVERS: the users who may approve what is written.

KAFKATS_APPROVERS="alice,bob"       users whose name and id are the same
KAFKATS_APPROVERS="1:alice,2:bob"   where ids are not names
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kafkats.errors import UsageError

NAME: Final = "KAFKATS_APPROVERS"
NOBODY: Final = frozenset({"anonymous", "nobody"})
"""Names of users who have not logged in.

The first is that of an Airflow where everybody is an admin, the second that in a record without an
answer.
"""
_USER: Final = re.compile(r"[^\s,:]{1,200}")


class Approver(NamedTuple):
    """A user of Airflow, as its auth manager knows them."""

    id: str
    name: str


def read_approvers(text: str | None) -> tuple[Approver, ...]:
    """Return the users that the variable names, () when it is not set.

    Raises UsageError for invalid users, and for a variable that names nobody.
    """
    if text is None:
        return ()
    approvers = []
    for word in text.replace(",", " ").split():
        user, colon, name = word.partition(":")
        one = Approver(user, name if colon else user)
        if not all(map(_USER.fullmatch, one)) or NOBODY & {part.lower() for part in one}:
            raise UsageError(f"{NAME}: {word[:60]!r} is not NAME or ID:NAME of a user who logs in")
        approvers.append(one)
    if not approvers:
        raise UsageError(f"{NAME} names nobody: name users of Airflow, or do not set it")
    return tuple(approvers)
