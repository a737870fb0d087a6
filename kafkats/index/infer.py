"""Infer broker settings from index files: no file of a log directory states them.

The distances between indexed positions bound `index.interval.bytes`: it is below the smallest
distance. Every value from the real one up to that bound gives the same file.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkats.findings import Finding
from kafkats.generations import INDEX_INTERVAL_BYTES, SEGMENT_INDEX_BYTES
from kafkats.index import offset_index, time_index
from kafkats.index.entries import whole_entries
from kafkats.index.structure import Structure
from kafkats.segment.reader import Source
from kafkats.segment.walk import walk_points

GIVEN: Final = "given"
INFERRED: Final = "inferred"
DEFAULT: Final = "default"

_TRIED_ENTRIES: Final = 64
_TRIED_BYTES: Final = 4 * 1024 * 1024
_USUAL: Final = tuple(
    sorted(
        {
            1,
            *(m * 10**e for e in range(1, 8) for m in (1, 2, 5)),
            1500,
            *(2**e for e in range(4, 25)),
            0,
        },
        reverse=True,
    )
)


def infer_interval(
    given: int | None, offsets: Structure | None, source: Source, base_offset: int
) -> tuple[int, str]:
    """Return index.interval.bytes and its source: given, inferred or default.

    Inferred is the first of these that reproduces the positions of the index: 4096, the largest
    usual value, the largest possible value. The default is 4096.
    """
    if given is not None:
        return given, GIVEN
    positions = _positions(offsets)
    if not positions.size:
        return INDEX_INTERVAL_BYTES, DEFAULT
    largest = _largest(positions)
    usual = next(v for v in _USUAL if v <= largest)
    tried = _tried(positions)
    for interval in dict.fromkeys((INDEX_INTERVAL_BYTES, usual, largest)):
        if interval <= largest and _gives(interval, tried, source, base_offset):
            return interval, INFERRED
    return INDEX_INTERVAL_BYTES, DEFAULT


def contradicted(
    given: int, offsets: Structure | None, source: Source, base_offset: int
) -> int | None:
    """Return the index's interval if its entries lie too close together for `given`, else None.

    Entries always lie more than the interval apart. If no interval explains all of them, most must
    lie too close, because a single one may be damaged. A greater distance shows nothing: followers
    and restarts cause it.
    """
    positions = _positions(offsets)
    if not positions.size or given <= _largest(positions):
        return None  # no entries lie too close: the log need not be read
    interval, origin = infer_interval(None, offsets, source, base_offset)
    largest = (
        _largest(positions)
        if origin == INFERRED
        else int(np.median(np.diff(positions, prepend=0))) - 1
    )
    if given <= largest:
        return None
    return interval if origin == INFERRED else largest


def other_interval(file: str, given: int, beside: int) -> Finding:
    """Return the finding about an index whose interval is `beside`: a rebuild would be sparser."""
    reason = (
        "true, and denser than the index.interval.bytes that is given: its entries are"
        f" those of {beside}, not {given}"
    )
    return Finding("other-interval", file, reason, expected=str(given), found=str(beside))


def infer_index_bytes(
    given: int | None, offsets: Structure | None, times: Structure | None, *, preallocated: bool
) -> int:
    """Return segment.index.bytes: the given one, or what the files show, or Kafka's default.

    They show the larger size of the two files, if one of them is preallocated or above the
    default: a broker rounds it down to whole entries, and a full file has no zeros. `preallocated`:
    the broker wrote the zeros at the end of the files.
    """
    if given is not None:
        return given
    files = [s for s in (offsets, times) if s]
    telling = [
        s.size for s in files if (preallocated and s.zeros > 1) or s.size > SEGMENT_INDEX_BYTES
    ]
    if not telling or max(telling) < time_index.ENTRY_SIZE * 2:
        return SEGMENT_INDEX_BYTES
    return max(s.size for s in files)


def _positions(offsets: Structure | None) -> np.ndarray:
    """Return the positions of the index's entries; none if they tell nothing."""
    entries = whole_entries(
        offsets.entries if offsets else b"", offset_index.ENTRY_SIZE, offset_index.ENTRY
    )
    positions: np.ndarray = entries["position"].astype(np.int64)
    return positions if positions.size and positions[0] > 0 else positions[:0]


def _largest(positions: np.ndarray) -> int:
    """The largest interval that allows such distances; below 0 where entries do not ascend."""
    return int(np.diff(positions, prepend=0).min()) - 1


def _tried(positions: np.ndarray) -> np.ndarray:
    return positions[: max(1, min(_TRIED_ENTRIES, int((positions < _TRIED_BYTES).sum())))]


def _gives(interval: int, positions: np.ndarray, source: Source, base_offset: int) -> bool:
    last = int(positions[-1])
    if last + 12 > source.size:
        return False
    end = last + 12 + int.from_bytes(source.read(last + 8, 4), "big")
    points, _ = walk_points(source, base_offset, interval=interval, end=end, checksums=False)
    return np.array_equal(points[:, 0], positions)
