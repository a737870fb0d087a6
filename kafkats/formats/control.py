"""Control records, which brokers write for themselves (magic 2 only, one record per control batch).

    key      = version int16 = 0 | type int16
    value    = version int16 = 0 | coordinator epoch int32          of ABORT and COMMIT (KIP-98)

Types 2 to 6 occur only in KRaft's metadata log and have other values. Records of an unknown type
are kept, never dropped, as in Kafka's readers.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from kafkats.errors import CorruptBatch

_KEY: Final = struct.Struct(
    ">"
    "h"  # version
    "h"  # type
)
_END_MARKER: Final = struct.Struct(
    ">"
    "h"  # version
    "i"  # coordinator_epoch
)
assert (_KEY.size, _END_MARKER.size) == (4, 6)


class ControlType(IntEnum):
    """The second number of a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def decode_control_type(key: bytes | None) -> int:
    """Return the type of a control record: a ControlType, or the number of an unknown type.

    Raises CorruptBatch for a key without a valid version and type.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record whose key is shorter than version and type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record of version {version}")
    return ControlType(number) if number in frozenset(ControlType) else int(number)


def decode_coordinator_epoch(value: bytes | None) -> int:
    """Return the coordinator epoch of an ABORT or COMMIT record.

    Raises CorruptBatch for a value without a valid version and epoch.
    """
    if value is None or len(value) < _END_MARKER.size:
        raise CorruptBatch(
            "a transaction marker whose value is shorter than version and coordinator epoch"
        )
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"a transaction marker of version {version}")
    return int(epoch)


def encode_end_marker(kind: ControlType, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Encode the key and value of an ABORT or COMMIT record."""
    return _KEY.pack(0, kind), _END_MARKER.pack(0, coordinator_epoch)
