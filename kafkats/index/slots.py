"""Kafka's own binary search in an index file: in an unsorted file it finds what a broker finds.

Since 2.1 Kafka searches the last 8192 bytes first, because they are usually in memory (KAFKA-6432);
in a sorted file this does not change the result. Source: AbstractIndex.largestLowerBoundSlotFor.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final, NamedTuple, TypeAlias

Slots: TypeAlias = bytes | mmap.mmap

_WARM_BYTES: Final = 8192


class Slot(NamedTuple):
    """The result of a search.

    `number` is the number of the entry (-1: all entries are greater), `key` and `value` its two
    fields. `in_order` tells whether all entries read during the search were in order.
    """

    number: int
    key: int
    value: int
    in_order: bool


def lower_bound(data: Slots, count: int, entry: struct.Struct, target: int, *, warm: bool) -> Slot:
    """Return the greatest of the first `count` entries whose first field is at or below `target`.

    The entries must be in order for this to hold. `warm`: search the last 8192 bytes first.
    """
    if not count:
        return Slot(-1, 0, 0, True)
    unpack, size = entry.unpack_from, entry.size
    low, high, in_order = 0, count - 1, True
    key, value = unpack(data, 0)
    if warm:
        hot = max(0, count - 1 - _WARM_BYTES // size)
        hot_key, hot_value = unpack(data, hot * size) if hot else (key, value)
        if hot_key < target:
            low, key, value = hot, hot_key, hot_value
        elif key > target:
            return Slot(-1, 0, 0, True)
        else:
            high = hot
    elif key > target:
        return Slot(-1, 0, 0, True)
    # The entries at both borders are known. Every entry between them must lie between their values.
    below, above = (key, value), unpack(data, high * size)
    while low < high:
        middle = (low + high + 1) >> 1
        key, value = found = unpack(data, middle * size)
        in_order = in_order and below <= found <= above and below[1] <= value <= above[1]
        if key > target:
            high, above = middle - 1, found
        else:
            low, below = middle, found
            if key == target:
                return Slot(middle, key, value, in_order)
    return Slot(low, *below, in_order)
