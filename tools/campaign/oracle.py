"""What a consumer can read of a root, by the readable reference: to see whether a change has lost anything.

A partition's content is a set of (offset, timestamp, key, value and headers as a hash, visible to read_committed). A
record counts as readable when every frame of its segment before it can be read: a consumer stops at the first bad one.
"""

from __future__ import annotations

import hashlib
import re
import struct
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import KafkatsError
from kafkats.formats.control import decode_control_type
from kafkats.formats.dispatch import batches, records
from kafkats.formats.model import Batch
from tools.campaign.corpus import Root

Record = tuple[int, int, bytes]
_SERVED: Final = re.compile(r".+-\d+")
_TXN_ENTRY: Final = struct.Struct(">hqqqq")
"""version, producer id, first offset, last offset, last stable offset."""


class Row(NamedTuple):
    """A record with what decides whether read_committed shows it."""

    record: Record
    producer_id: int
    transactional: bool
    control: bool


class Content(NamedTuple):
    """What is readable of a partition: all records, and those that read_committed gives out."""

    everything: frozenset[Record]
    committed: frozenset[Record]


NOTHING: Final = Content(frozenset(), frozenset())


def loses(before: Content, now: Content) -> bool:
    """Whether a record is gone or changed, or read_committed hides one that it showed, or shows one that it hid.

    Records that come back, because the log start moved back, are no loss.
    """
    shown_now = (now.committed - before.committed) & before.everything
    return bool(before.everything - now.everything or before.committed - now.committed or shown_now)


def content(root: Path, root_of: Root | None = None) -> dict[str, Content]:
    """Partition directory -> what is readable of it."""
    names = root_of.partitions if root_of else sorted(p.name for p in root.iterdir() if p.is_dir())
    names = [name for name in names if _SERVED.fullmatch(name)]
    start = _log_starts(root)
    return {name: _partition(root / name, start.get(name, 0)) for name in names}


def _partition(directory: Path, log_start: int) -> Content:
    if not directory.is_dir():
        return NOTHING
    rows: list[Row] = []
    aborted: list[tuple[int, int, int]] = []
    for log in sorted(directory.glob("*.log")):
        rows += [row for row in _rows_of(log) if row.record[0] >= log_start]
        aborted += _aborted(log.with_suffix(".txnindex"))
    shown = [row for row in rows if not row.control]
    visible = [row for row in shown if not _is_aborted(row, aborted)]
    return Content(frozenset(row.record for row in shown), frozenset(row.record for row in visible))


def _is_aborted(row: Row, aborted: list[tuple[int, int, int]]) -> bool:
    offset = row.record[0]
    return row.transactional and any(
        p == row.producer_id and a <= offset <= b for p, a, b in aborted
    )


def _aborted(path: Path) -> list[tuple[int, int, int]]:
    data = _bytes(path)
    whole = len(data) - len(data) % _TXN_ENTRY.size
    return [entry[1:4] for entry in _TXN_ENTRY.iter_unpack(data[:whole])]


def _rows_of(log: Path) -> tuple[Row, ...]:
    data = _bytes(log)
    return _decoded(hashlib.sha256(data).digest(), data) if data else ()


class _Keyed(bytes):
    """Bytes that are not compared: their hash is beside them in the key."""

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True


def _decoded(digest: bytes, data: bytes) -> tuple[Row, ...]:
    return _cached(digest, _Keyed(data))


@lru_cache(maxsize=4096)
def _cached(digest: bytes, data: _Keyed) -> tuple[Row, ...]:
    rows: list[Row] = []
    try:
        for batch in batches(bytes(data)):
            rows += _rows(bytes(data), batch)
    except KafkatsError:
        pass  # a consumer comes as far as this
    return tuple(rows)


def _rows(data: bytes, batch: Batch) -> list[Row]:
    found = []
    for record in records(data, batch):
        what = repr((record.key, record.value, getattr(record, "headers", ()))).encode()
        if batch.control:
            decode_control_type(record.key)
        identity = record.offset, record.timestamp, hashlib.sha256(what).digest()[:12]
        found.append(Row(identity, batch.producer_id, batch.transactional, batch.control))
    return found


def _log_starts(root: Path) -> dict[str, int]:
    """What the log start checkpoint says; nothing where it cannot be read."""
    starts = {}
    for line in (
        _bytes(root / "log-start-offset-checkpoint").decode("utf-8", "replace").splitlines()[2:]
    ):
        words = line.split()
        if len(words) == 3 and words[2].isdigit():
            starts[f"{words[0]}-{words[1]}"] = int(words[2])
    return starts


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
