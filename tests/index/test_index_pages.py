"""The pages of the three indexes say what the code reads, and their readers and lookups do what the pages say."""

from __future__ import annotations

import bisect
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.errors import CorruptIndex, Vanished
from kafkats.generations import SEGMENT_INDEX_BYTES
from kafkats.index import offset_index, time_index, txn_index
from tests.golden import Unpacked
from tests.index.pages import PAGES, ROW


@pytest.mark.parametrize(
    ("page", "module"),
    [("offset-index", offset_index), ("time-index", time_index), ("txn-index", txn_index)],
)
def test_layouts(page: str, module: object) -> None:
    text = (PAGES / f"{page}.md").read_text()
    entry: np.dtype[np.void] = module.ENTRY  # type: ignore[attr-defined]
    rows = [(int(at), name, int(size), int(bits)) for at, name, size, bits in ROW.findall(text)]
    fields = [
        (entry.fields[n][1], n, entry.fields[n][0].itemsize, entry.fields[n][0].itemsize * 8)
        for n in entry.names
    ]
    assert rows == fields
    assert all(entry.fields[name][0].str.startswith(">") for name in entry.names)
    assert f"{entry.itemsize} bytes per entry" in text


@pytest.mark.parametrize(("page", "size"), [("offset-index", 8), ("time-index", 12)])
def test_preallocated_sizes(page: str, size: int) -> None:
    text = (PAGES / f"{page}.md").read_text()
    entries = SEGMENT_INDEX_BYTES // size
    assert f"{entries * size} bytes, {entries} entries by default" in text


@pytest.mark.parametrize("warm", [False, True])
@given(st.sets(st.integers(0, 60), max_size=10), st.integers(-2, 70))
def test_offset_lookup_is_bisect(warm: bool, offsets: set[int], target: int) -> None:
    known = sorted(offsets)
    entries = np.array([(o, 10 * i) for i, o in enumerate(known)], offset_index.ENTRY)
    at = bisect.bisect_right(known, target) - 1
    found = offset_index.lookup(entries.tobytes(), len(entries), target, warm=warm)
    assert found[:3] == ((at, known[at], 10 * at) if at >= 0 else (-1, 0, 0))
    assert found.in_order


@pytest.mark.parametrize("warm", [False, True])
@given(st.sets(st.integers(0, 60), max_size=10), st.integers(-2, 70))
def test_time_lookup_is_bisect(warm: bool, times: set[int], target: int) -> None:
    known = sorted(times)
    entries = np.array([(t, i) for i, t in enumerate(known)], time_index.ENTRY)
    at = bisect.bisect_right(known, target) - 1
    found = time_index.lookup(entries.tobytes(), len(entries), target, warm=warm)
    assert found[:3] == ((at, known[at], at) if at >= 0 else (-1, 0, 0))
    assert found.in_order


def test_transaction_indexes_of_real_brokers(golden: Unpacked) -> None:
    found = [
        txn_index.read(p) for p in sorted(golden("transactions-4.3.1", "data").rglob("*.txnindex"))
    ]
    entries = [e for one in found for e in one]
    assert len(entries) > 2
    assert all(
        e["version"] == 0 and e["first_offset"] <= e["last_offset"] and e["producer_id"] >= 0
        for e in entries
    )


@pytest.mark.parametrize(
    ("module", "name"),
    [(offset_index, "0.index"), (time_index, "0.timeindex"), (txn_index, "0.txnindex")],
)
def test_lengths(tmp_path: Path, module: object, name: str) -> None:
    read, entry = module.read, module.ENTRY  # type: ignore[attr-defined]
    path = tmp_path / name
    with pytest.raises(Vanished):
        read(path)
    path.write_bytes(b"")
    assert len(read(path)) == 0
    path.write_bytes(b"\0\0" + b"\1" * (entry.itemsize - 2) + b"\1")
    with pytest.raises(CorruptIndex):
        read(path)
    path.write_bytes(b"\1" * entry.itemsize)
    if module is txn_index:
        with pytest.raises(CorruptIndex, match="version"):
            read(path)
    else:
        assert len(read(path)) == 1


def test_preallocated_file_costs_nothing_and_gives_its_entries(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    entries = np.array([(i, i) for i in range(1, 3000)], offset_index.ENTRY)
    with path.open("wb") as file:
        file.write(entries.tobytes())
        file.truncate(SEGMENT_INDEX_BYTES)
    assert (offset_index.read(path) == entries).all()
