"""The log end that a broker finds from the last index entry on."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkats.index.log_end import find_log_end
from kafkats.segment.reader import open_source
from tests.builders.partitions import batch

BASE = 100
BATCHES = [batch(BASE + 10 * n, *[1000 + n] * 10) for n in range(4)]
"""Four batches of ten records each, at offsets 100 to 139."""
SIZE = len(BATCHES[0])
END = BASE + 40

INDEXES = {
    "no entries": ([], END),
    "the last batch": ([(10, SIZE), (30, 3 * SIZE)], END),
    "an earlier batch": ([(10, SIZE)], END),
    "the last offset of the log": ([(39, 3 * SIZE)], END),
    "an offset that no batch reaches": ([(10, SIZE), (40, 3 * SIZE)], BASE),
    "the end of the file": ([(39, 4 * SIZE)], BASE),
    "behind the end": ([(39, 9 * SIZE)], BASE),
    "no batch begins there": ([(39, 3 * SIZE + 5)], BASE),
    "zeros of a file that was not trimmed": ([(10, SIZE), (0, 0)], END),
    "a negative position": ([(10, -1)], END),
    "the same offset twice, and the first leads on": ([(39, SIZE), (39, 9 * SIZE)], END),
}


@pytest.mark.parametrize(("entries", "end"), INDEXES.values(), ids=INDEXES)
def test_the_last_entry_decides(tmp_path: Path, entries: list[tuple[int, int]], end: int) -> None:
    assert found(tmp_path, b"".join(BATCHES), entries) == end


@pytest.mark.parametrize("torn", [1, 20, SIZE - 1])
def test_a_torn_batch_is_not_read(tmp_path: Path, torn: int) -> None:
    assert found(tmp_path, b"".join(BATCHES)[:-torn], [(10, SIZE)]) == END - 10


def test_an_empty_log_ends_at_its_base_offset(tmp_path: Path) -> None:
    assert found(tmp_path, b"", []) == BASE


def test_an_unknown_magic_is_read_as_a_broker_does(tmp_path: Path) -> None:
    newer = bytearray(BATCHES[3])
    newer[16] = 3
    assert found(tmp_path, b"".join([*BATCHES[:3], newer]), [(10, SIZE)]) == END


def found(folder: Path, log: bytes, entries: list[tuple[int, int]]) -> int:
    path = folder / f"{BASE:020d}.log"
    path.write_bytes(log)
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    with open_source(path) as source:
        end = find_log_end(source, data, len(entries), BASE, warm=True)
    assert end.misled == (end.offset == BASE)
    return end.offset
