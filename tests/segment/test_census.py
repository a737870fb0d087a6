"""The census of one .log against the plain decoders: cells, fingerprint, records in wrappers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch
from kafkats.formats.model import Batch
from kafkats.segment import reader
from kafkats.segment.census import take_census
from kafkats.segment.deep import look_at_records
from kafkats.segment.facts import Cell
from kafkats.segment.walk import Walked, walk
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked
from tests.index.generated import BASE, damaged_logs, frame_starts, logs, reseal
from tests.index.reference import read_batches

ODD = 0x9E3779B97F4A7C15
ALL = 2**64 - 1


def walked(log: bytes, end: int | None = None) -> Walked:
    return walk(array_source(np.frombuffer(log, np.uint8)), BASE, end=end)


def believed_cells(log: bytes) -> list[Cell]:
    cells: dict[tuple[int, int, int], Cell] = {}
    for b in read_batches(log)[0]:
        key = (b.magic, int(b.codec), b.timestamp_type)
        was = cells.get(key, Cell(b.magic, int(b.codec), b.timestamp_type, 0, 0, 0, 0, 0, 0, 0))
        cells[key] = was._replace(
            bytes=was.bytes + b.size,
            batches=was.batches + 1,
            records=-1 if is_wrapper(b) else was.records + b.count,
            control_batches=was.control_batches + b.control,
            transactional_batches=was.transactional_batches + b.transactional,
            producer_batches=was.producer_batches + (b.producer_id >= 0),
            delete_horizon_batches=was.delete_horizon_batches + (b.delete_horizon_ms is not None),
        )
    return [cells[key] for key in sorted(cells)]


def is_wrapper(b: Batch) -> bool:
    return b.magic < 2 and b.codec != Codec.NONE


def believed_fingerprint(log: bytes) -> int:
    state = 0
    for b in read_batches(log)[0]:
        for at in (0, 8, 13):
            word = int.from_bytes(log[b.position + at : b.position + at + 8], "big")
            state = (state ^ word) * ODD & ALL
            state ^= state >> 32
    return state


@pytest.mark.slow(3)
@settings(max_examples=200, deadline=None)
@given(damaged_logs())
def test_cells_and_fingerprint(log: bytes) -> None:
    ours = walked(log)
    assert list(ours.cells) == believed_cells(log)
    assert ours.fingerprint == believed_fingerprint(log)
    assert sum(cell.bytes for cell in ours.cells) == ours.facts.valid_bytes


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(damaged_logs())
def test_records_in_wrappers(log: bytes) -> None:
    counted: dict[tuple[int, int, int], int] = {}
    for b in filter(is_wrapper, read_batches(log)[0]):
        try:
            found = len(dispatch.records(log, b))
        except CorruptBatch:
            continue
        key = (b.magic, int(b.codec), b.timestamp_type)
        counted[key] = counted.get(key, 0) + found
    source = array_source(np.frombuffer(log, np.uint8))
    assert look_at_records(source, walk(source, BASE).facts).wrapped == counted


@pytest.mark.slow(3)
@settings(max_examples=200, deadline=None)
@given(logs(), st.data())
def test_any_change_behind_a_good_checksum_shows(log: bytes, data: st.DataObject) -> None:
    starts = frame_starts(log)
    if not starts:
        return
    turned = bytearray(log)
    at = data.draw(st.sampled_from(starts))
    end = at + 12 + int.from_bytes(log[at + 8 : at + 12], "big")
    place = data.draw(
        st.sampled_from([*range(8), *range(17 if log[at + 16] < 2 else 21, end - at)])
    )
    turned[at + place] ^= data.draw(st.integers(1, 255))
    reseal(turned, at, end)
    assert walked(bytes(turned)).fingerprint != walked(log).fingerprint


@settings(max_examples=50, deadline=None)
@given(logs())
def test_a_prefix_is_fingerprinted_as_if_it_were_all(log: bytes) -> None:
    for at in [*frame_starts(log), len(log)]:
        assert walked(log, end=at).fingerprint == walked(log[:at]).fingerprint


@pytest.fixture(scope="module")
def wrapped(golden: Unpacked) -> Path:
    """The largest segment of gzip wrappers and v2 batches."""
    return max(
        golden("upgrade-0.9-to-2.8", "data").rglob("gzip-one-*/0*.log"),
        key=lambda p: p.stat().st_size,
    )


def test_windows_of_any_size(wrapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = take_census(wrapped, int(wrapped.stem), deep=True, upto=1000)
    assert {cell.magic for cell in whole.cells} == {0, 1, 2}
    assert all(cell.records > cell.batches for cell in whole.cells)
    for size in (1, 64, 4096):
        monkeypatch.setattr(reader, "BUFFER", size)
        monkeypatch.setattr(reader, "WINDOW", size)
        for live in (True, False):
            assert take_census(wrapped, int(wrapped.stem), deep=True, upto=1000, live=live) == whole


def tails(whole: bytes) -> Iterator[tuple[bytes, dict[str, bool], list[str]]]:
    """What lies behind the last batch, in which directory, and what it is called there."""
    torn, zeros, sealed_wrong = whole[:100], bytes(500), whole[:-1] + bytes([whole[-1] ^ 1])
    yield torn, {"active": True, "live": True, "clean": False}, ["moving-tail"]
    yield torn, {"active": True, "clean": False}, ["torn-tail"]
    yield torn, {"active": True, "clean": True}, ["torn-tail"]
    yield torn, {"active": False, "live": True, "clean": False}, ["torn-tail"]
    yield zeros, {"active": True, "live": True, "clean": False}, ["preallocated"]
    yield zeros, {"active": True, "clean": False}, ["preallocated"]
    yield zeros, {"active": True, "clean": True}, ["zero-tail"]
    yield sealed_wrong, {"active": True, "live": True, "clean": False}, ["moving-tail"]
    yield sealed_wrong, {"active": True, "clean": False}, ["bad-crc"]
    yield b"", {"active": True, "clean": False}, []


def test_what_a_tail_is_called(wrapped: Path, tmp_path: Path) -> None:
    data = wrapped.read_bytes()
    last = data[frame_starts(data)[-1] :]
    for tail, where, kinds in tails(last):
        log = tmp_path / wrapped.name
        log.write_bytes(data + tail)
        census = take_census(log, int(wrapped.stem), **where)
        assert [f.kind for f in census.findings] == kinds, where
        assert census.facts.valid_bytes == len(data)


def test_records_that_do_not_decode_are_found_and_not_counted(
    wrapped: Path, tmp_path: Path
) -> None:
    log = tmp_path / wrapped.name
    shutil.copyfile(wrapped, log)
    data = bytearray(log.read_bytes())
    end = 12 + int.from_bytes(data[8:12], "big")
    data[40:60] = bytes(20)
    reseal(data, 0, end)
    log.write_bytes(data)
    shallow, deep = (take_census(log, int(wrapped.stem), deep=deep) for deep in (False, True))
    assert not shallow.findings
    assert [f.kind for f in deep.findings] == ["undecodable"]
    assert all(cell.records == -1 for cell in deep.cells if cell.magic < 2)


def test_a_log_that_is_cut_while_it_is_read_was_not_read(
    wrapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / wrapped.name
    log.write_bytes(wrapped.read_bytes())
    cut = frame_starts(log.read_bytes())[-1]
    monkeypatch.setattr(reader, "BUFFER", 64)
    preadv = reader.os.preadv

    def cutting(fd: int, buffers: list[memoryview], offset: int) -> int:
        if offset:
            reader.os.truncate(log, cut)
        return preadv(fd, buffers, offset)

    monkeypatch.setattr(reader.os, "preadv", cutting)
    census = take_census(log, int(wrapped.stem), live=True, active=True)
    assert "unreadable" in [f.kind for f in census.findings]
