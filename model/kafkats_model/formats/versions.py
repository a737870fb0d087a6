"""The formats that brokers accept in a produce of each version.

kafkats.formats.versions has those that each version carries.

Brokers judge the format of a produce from version 3 on. Before, they take each one that they know.

Source: ReplicaManager, KafkaApis, ProduceRequest of Kafka 0.8 to 4.3; KIP-98, KIP-110.
"""

from __future__ import annotations

from typing import Final

from kafkats.formats.model import Codec
from kafkats.formats.versions import BATCHES_SINCE

ZSTD_SINCE: Final = 7
"""The first produce version that carries zstd."""


def carries(version: int, magic: int) -> bool:
    """Return whether brokers take the format from a produce of this version."""
    return magic == 2 or version < BATCHES_SINCE


def last_codec(version: int) -> Codec:
    """Return the last codec, by its number, that brokers take from a produce of this version."""
    return Codec.LZ4 if BATCHES_SINCE <= version < ZSTD_SINCE else Codec.ZSTD
