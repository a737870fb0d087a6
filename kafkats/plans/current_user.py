"""The user name for a ledger."""

from __future__ import annotations

import os
from getpass import getuser


def this_user() -> str:
    """Return the current user, or the user's number if there is no name, as in many containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"user {os.geteuid()}"
