"""Whose name goes into a ledger."""

from __future__ import annotations

import os
from getpass import getuser


def this_user() -> str:
    """The user who runs this; its number where it has no name, as in many containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"user {os.geteuid()}"
