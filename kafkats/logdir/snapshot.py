"""Producer snapshots: the state of idempotent and transactional producers at an offset.

    int16   version         1
    uint32  crc             CRC-32C of everything after this field
    int32   count
    count x 46 bytes        ENTRY, one producer each

A snapshot covers the offsets below the number in its name. Brokers from 0.11 on write one at each
roll and at a clean stop. They rebuild a missing or damaged snapshot from the log. Layout:
ProducerStateManager, unchanged since 0.11.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkats.compression.checksums import crc32c
from kafkats.counts import counted
from kafkats.errors import CorruptFile
from kafkats.logdir.text import read_small

VERSION: Final = 1
HEADER: Final = struct.Struct(
    ">"
    "h"  # version
    "I"  # crc
    "i"  # count
)
ENTRY: Final = struct.Struct(
    ">"
    "q"  # producer_id
    "h"  # producer_epoch
    "i"  # last_sequence
    "q"  # last_offset
    "i"  # offset_delta
    "q"  # timestamp
    "i"  # coordinator_epoch
    "q"  # txn_first_offset
)
NO_PRODUCERS: Final = bytes.fromhex("000148674bc700000000")
"""The bytes of a snapshot without producers. They are written here because a recovery needs mostly
these, and the library that computes a CRC-32C loads slowly.
"""
_CRC_AT: Final = 2
_AFTER_CRC: Final = 6


class ProducerEntry(NamedTuple):
    """One producer.

    `last_*` and `offset_delta` (last minus first offset) describe its last batch. `timestamp` is in
    ms. `txn_first_offset` is -1 outside a transaction.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


def read_snapshot(path: str | os.PathLike[str]) -> list[ProducerEntry]:
    """Decode the file at `path`.

    Raises as `decode_snapshot`, and Vanished or another StorageFailed.
    """
    return decode_snapshot(read_small(path), path)


def decode_snapshot(data: bytes, path: str | os.PathLike[str] | None = None) -> list[ProducerEntry]:
    """Return the producers in a snapshot. Raises CorruptFile with the position and with `path`."""
    if len(data) < HEADER.size:
        raise CorruptFile(
            f"{len(data)} bytes, the header alone has {HEADER.size}", path=path, position=len(data)
        )
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"version {version}, known is {VERSION}", path=path, position=0)
    actual = crc32c(data[_AFTER_CRC:])
    if crc != actual:
        raise CorruptFile(
            f"CRC {crc:08x}, its bytes give {actual:08x}", path=path, position=_CRC_AT
        )
    if len(data) != HEADER.size + count * ENTRY.size:
        reason = (
            f"{counted(count, 'producer')} announced, {len(data) - HEADER.size} bytes of"
            f" {ENTRY.size} each found"
        )
        raise CorruptFile(reason, path=path, position=_AFTER_CRC)
    return [ProducerEntry(*fields) for fields in ENTRY.iter_unpack(data[HEADER.size :])]


def encode_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of the file."""
    entries = [ENTRY.pack(*p) for p in producers]
    if not entries:
        return NO_PRODUCERS
    covered = struct.pack(">i", len(entries)) + b"".join(entries)
    return struct.pack(">hI", VERSION, crc32c(covered)) + covered
