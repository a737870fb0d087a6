"""Volumes as reports and policies identify them: one path may be that of many brokers."""

from __future__ import annotations

from typing import NamedTuple

from kafkats.logdir.volume import Volume as Identity


class Place(NamedTuple):
    """A volume, as far as a report or the policy identifies it.

    Its identity is the name that the policy gives, else cluster, node and directory id of
    meta.properties; without a directory id the path counts, too, and the broker's name.
    """

    path: str
    broker: str = ""
    name: str = ""
    identity: Identity | None = None

    @property
    def directory_id(self) -> str:
        """The directory id, "" if it is not known."""
        return (self.identity.directory_id if self.identity else None) or ""

    def is_same(self, other: Place) -> bool:
        """Return whether both may be one volume, as far as is known."""
        if self.name and other.name:
            return self.name == other.name
        if self.identity and other.identity:
            if self.identity.is_other(other.identity):
                return False
            if self.directory_id and other.directory_id:
                return True
        return self._is_at(other)

    def has_replaced(self, older: Place) -> bool:
        """Return whether this is another disk at the same path of the same broker."""
        return (
            self._is_at(older)
            and self.identity is not None
            and older.identity is not None
            and self.identity[:2] == older.identity[:2]
        )

    def with_more(self, older: Place) -> Place:
        """Return this with what only an older report tells."""
        return Place(
            self.path,
            self.broker or older.broker,
            self.name or older.name,
            self.identity or older.identity,
        )

    def _is_at(self, other: Place) -> bool:
        brokers = {self.broker, other.broker} - {""}
        return self.path == other.path and len(brokers) < 2
