"""Examine an index file without its .log: length, zeros at the end, order of the entries."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kafkats.errors import Vanished
from kafkats.findings import Finding, partial_entry
from kafkats.index import offset_index, time_index
from kafkats.index.entries import Entries, read_index_bytes, whole_entries


class Structure(NamedTuple):
    """One index file and its parts.

    `data` is the file without the zeros at its end. `entries` is its searchable part: the whole
    entries up to the first that does not increase. `used` and `zeros` are numbers of entries.
    """

    name: str
    size: int
    data: bytes
    entries: bytes
    used: int
    zeros: int
    findings: tuple[Finding, ...]

    def equals(self, built: bytes) -> bool:
        """Return whether the file holds exactly these bytes."""
        used = len(self.data)
        return (
            self.size == len(built)
            and built.startswith(self.data)
            and built.count(0, used) == len(built) - used
        )


def examine_offset_index(path: str | os.PathLike[str]) -> Structure | None:
    """Examine an .index; None if there is none. Raises StorageFailed, BadInput."""
    return _examine(path, offset_index.ENTRY, _offsets_increase)


def examine_time_index(path: str | os.PathLike[str]) -> Structure | None:
    """Examine a .timeindex; None if there is none. Raises StorageFailed, BadInput."""
    return _examine(path, time_index.ENTRY, _times_increase)


def _examine(
    path: str | os.PathLike[str],
    entry: np.dtype[np.void],
    increase: Callable[[Entries], np.ndarray],
) -> Structure | None:
    """`increase` returns for each entry but the first whether it may follow the one before."""
    try:
        data, size = read_index_bytes(path, entry.itemsize)
    except Vanished:
        return None
    if entry is time_index.ENTRY and size == entry.itemsize and not data:
        data = bytes(size)  # timestamp 0 at the base offset is a valid entry
    entries = whole_entries(data, entry.itemsize, entry)
    return _structure(os.fspath(path).rpartition("/")[2], size, data, entries, increase(entries))


def _offsets_increase(entries: Entries) -> np.ndarray:
    increase: np.ndarray = _increases(entries["relative_offset"]) & _increases(entries["position"])
    return increase


def _times_increase(entries: Entries) -> np.ndarray:
    increase: np.ndarray = _increases(entries["timestamp"])
    increase &= _increases(entries["relative_offset"], or_stays=True)
    return increase


def _increases(values: np.ndarray, *, or_stays: bool = False) -> np.ndarray:
    """Return for each entry but the first whether it is greater than the one before."""
    native = values.astype(np.int64)
    return native[1:] >= native[:-1] if or_stays else native[1:] > native[:-1]


def _structure(
    name: str, size: int, data: bytes, entries: Entries, increases: np.ndarray
) -> Structure:
    entry_size = entries.itemsize
    findings = []
    if size % entry_size:
        findings.append(partial_entry(name, size, entry_size))
    falls = (~increases).nonzero()[0]
    searchable = int(falls[0]) + 1 if falls.size else len(entries)
    if falls.size:
        reason = (
            f"entry {searchable} {_text(entries, searchable)} does not lie above the one before"
        )
        before = _text(entries, searchable - 1)
        findings.append(
            Finding(
                "not-monotonic",
                name,
                reason,
                searchable * entry_size,
                searchable,
                f"above {before}",
                _text(entries, searchable),
            )
        )
    below = (entries["relative_offset"] < 0).nonzero()[0]
    if below.size:
        first = int(below[0])
        reason = (
            f"entry {first} lies {-int(entries['relative_offset'][first])} below the"
            " segment's base offset"
        )
        findings.append(Finding("below-base", name, reason, first * entry_size, first))
    zeros = size // entry_size - len(entries)
    return Structure(
        name, size, data, data[: searchable * entry_size], len(entries), zeros, tuple(findings)
    )


def _text(entries: Entries, i: int) -> str:
    return f"({', '.join(str(v) for v in entries[i].item())})"
