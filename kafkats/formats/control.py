"""Control records: what brokers write into a log for themselves (magic 2 only, one per control batch).

    key      = version int16 = 0 | type int16
    value    = version int16 = 0 | coordinator epoch int32          of ABORT and COMMIT (KIP-98)

Types 2 to 6 occur only in KRaft's own log and have values of their own. A type that is not known here is carried, never
dropped, as Kafka's readers do.
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
    """The type of a control record, a ControlType where it has a name. Raises CorruptBatch when there is none."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record whose key is shorter than version and type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record of version {version}")
    return ControlType(number) if number in frozenset(ControlType) else int(number)


def decode_coordinator_epoch(value: bytes | None) -> int:
    """The coordinator's epoch in an ABORT or COMMIT. Raises CorruptBatch when there is none."""
    if value is None or len(value) < _END_MARKER.size:
        raise CorruptBatch("a transaction marker whose value is shorter than version and coordinator epoch")
    version, epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"a transaction marker of version {version}")
    return int(epoch)


def encode_end_marker(kind: ControlType, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Key and value of an ABORT or COMMIT record."""
    return _KEY.pack(0, kind), _END_MARKER.pack(0, coordinator_epoch)
