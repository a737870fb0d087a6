"""The formats that each version of a produce and a fetch request carries.

    produce    0, 1: a producer sends magic 0      2: magic 1      3 and later: one batch of magic 2
    fetch      0, 1: at most magic 0      2, 3: at most magic 1      4 and later: as stored

Source: ReplicaManager, KafkaApis, ProduceRequest of Kafka 0.8 to 4.3; KIP-31, KIP-32, KIP-98.
"""

from __future__ import annotations

from typing import Final

MAGIC_1_SINCE: Final = 2
"""The first produce and fetch version that carries magic 1; a produce from it on answers with a
timestamp.
"""
BATCHES_SINCE: Final = 3
"""The first produce version that carries batches (magic 2)."""
AS_STORED_SINCE: Final = 4
"""The first fetch version whose records a broker sends as they are stored."""


def produced_magic(version: int) -> int:
    """Return the format that a producer sends with this version."""
    return 2 if version >= BATCHES_SINCE else int(version >= MAGIC_1_SINCE)


def fetched_magic(version: int) -> int:
    """Return the latest format that a fetch of this version carries."""
    return 2 if version >= AS_STORED_SINCE else int(version >= MAGIC_1_SINCE)
