"""Read a file that says which clients a cluster has: versions of their requests, by share of bytes.

    kafka: 2.8.2
    brokers: 6
    message.format.version: 0.10.2
    topics:
      orders*:
        produce: {1: 0.2, 3: 0.8}
        fetch: {1: 0.1, 4: 0.9}
        compression: {gzip: 0.5}
        bytes.per.day: 50GiB
        reads: 3

The user page is docs/clients.md.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kafkats.config.globs import Globs
from kafkats.config.reading import read_model
from kafkats.config.values import Release, Share, Size, magic_of, wrong

Version = Annotated[int, Field(ge=0, le=99)]
Codec = Literal["gzip", "snappy", "lz4"]
_ENOUGH: Final = 0.001


class TopicClients(BaseModel):
    """The clients of some topics."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    produce: dict[Version, Share] = Field(description="Shares of the produced bytes by version.")
    fetch: dict[Version, Share] = Field(description="Shares of the read bytes by version.")
    compression: dict[Codec, Share] = Field(
        {}, description="Shares of the produced bytes by codec; the rest is uncompressed."
    )
    bytes_per_day: Size | None = Field(
        None, alias="bytes.per.day", description="Bytes that are produced per day."
    )
    reads: float = Field(1, ge=0, le=10_000, description="How often consumers read each byte.")

    @field_validator("produce", "fetch")
    @classmethod
    def _are_all(cls, shares: dict[int, float]) -> dict[int, float]:
        if not math.isclose(sum(shares.values()), 1, abs_tol=_ENOUGH):
            raise wrong(f"the shares should add up to 1, not {sum(shares.values()):g}")
        return shares

    @field_validator("compression")
    @classmethod
    def _are_a_part(cls, shares: dict[str, float]) -> dict[str, float]:
        if sum(shares.values()) > 1 + _ENOUGH:
            raise wrong(f"the shares should add up to 1 at most, not {sum(shares.values()):g}")
        return shares


class Clients(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    kafka: Release = Field("2.8.2", description="The release of the brokers in the migration.")
    brokers: int = Field(3, ge=1, le=100_000, description="How many there are; one is the canary.")
    message_format_version: Release | None = Field(
        None,
        alias="message.format.version",
        description="What the brokers write before phase 2; by default the format before the new.",
    )
    topics: dict[str, TopicClients] = Field(
        description="Clients by glob over topic names; the first match wins."
    )

    @field_validator("topics")
    @classmethod
    def _globs_differ(cls, topics: dict[str, TopicClients]) -> dict[str, TopicClients]:
        Globs(topics)
        return topics

    def of(self, topic: str) -> TopicClients | None:
        """Return the clients of a topic, None if no glob matches it."""
        glob = Globs(self.topics).first(topic)
        return None if glob is None else self.topics[glob]

    def from_magic(self, to_magic: int) -> int:
        """Return the format that the brokers write before phase 2."""
        if self.message_format_version is not None:
            return magic_of(self.message_format_version)
        return to_magic - 1 if to_magic else 1


def read_clients(path: Path) -> Clients:
    """Read the file. Raises UsageError with the line of what is wrong, StorageFailed."""
    return read_model(path, Clients, "file of clients")
