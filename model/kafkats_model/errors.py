"""The errors of the model beside those of kafkats (kafkats.errors)."""

from __future__ import annotations

from kafkats.errors import BadInput


class Rejected(BadInput):
    """A request that a broker answers with an error.

    The reason begins with Kafka's name of the error and a colon.
    """

    @property
    def error(self) -> str:
        """Kafka's name of the error, such as INVALID_TIMESTAMP."""
        return self.reason.partition(":")[0]
