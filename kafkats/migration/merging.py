"""Bring the entries of one copy of a ledger into another.

Hosts that do not share a folder have copies of the ledger of their migration. Each appends to its
own, so the same entry has another number and other digests in another copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from kafkats.errors import Refused
from kafkats.migration.ledger import Entry, append, read


class _Known(Exception):
    """The ledger has the entry."""


def merge(came: Path, ledger: Path) -> None:
    """Append the entries of `came` that the ledger lacks. Several may do so at once, and again.

    Raises Refused for the ledger of another migration, and as `ledger.read` and `ledger.append`.
    """
    theirs = read(came).entries
    ours = read(ledger).entries if ledger.exists() else ()
    if ours and theirs and _content(ours[0]) != _content(theirs[0]):
        raise Refused("is the ledger of another migration than the one that came", path=ledger)
    known = set(map(_content, ours))
    for one in theirs:
        if _content(one) in known:
            continue
        try:
            append(
                ledger,
                one.event,
                by=one.by,
                now_ms=round(datetime.fromisoformat(one.at).timestamp() * 1000),
                broker=one.broker,
                phase=one.phase,
                details=one.details,
                check=_check_new,
            )
        except _Known:
            continue  # another one has appended it meanwhile


def _check_new(entries: Sequence[Entry], entry: Entry) -> None:
    """Raise _Known if an entry says the same, whatever its place."""
    content = _content(entry)
    if any(_content(one) == content for one in entries):
        raise _Known


def _content(entry: Entry) -> str:
    return repr((entry.at, entry.event, entry.broker, entry.phase, entry.by, entry.details))
