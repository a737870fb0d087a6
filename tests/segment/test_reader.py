"""Windows, files that are cut meanwhile, and files that are no files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kafkats.compression.checksums import crc32c
from kafkats.errors import BadInput, StorageFailed, Vanished
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from kafkats.segment import reader
from kafkats.segment.facts import StopReason
from kafkats.segment.reader import open_segment, open_source
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source
from tests.golden import Unpacked


def batch(offset: int, value: bytes, timestamp: int = 5) -> bytes:
    return v2.encode_batch([Record(offset, timestamp, TimestampType.CREATE_TIME, None, value)])


@pytest.mark.slow(1)
@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize("size", [1, 64, 4096])
def test_windows_of_any_size_say_the_same(
    golden: Unpacked, monkeypatch: pytest.MonkeyPatch, mapped: bool, size: int
) -> None:
    log = max(golden("compaction-4.3.1", "before").rglob("0*.log"), key=lambda p: p.stat().st_size)
    whole = walk(array_source(np.fromfile(log, np.uint8)), int(log.stem))
    assert whole.facts.batches > 10
    monkeypatch.setattr(reader, "BUFFER", size)
    monkeypatch.setattr(reader, "WINDOW", size)
    with open_source(log, mapped=mapped) as source:
        assert walk(source, int(log.stem)) == whole


def test_batch_larger_than_any_window(tmp_path: Path) -> None:
    log = tmp_path / "big.log"
    log.write_bytes(batch(0, b"a") + batch(1, bytes(3 * reader.BUFFER)) + batch(2, b"c"))
    with open_source(log) as source:
        facts = walk(source, 0).facts
    assert (facts.batches, facts.last_offset, facts.stop) == (3, 2, None)


def test_sparse_file_beyond_2_gib(tmp_path: Path) -> None:
    """Preallocated and never cut: the hole is not read."""
    log = tmp_path / "sparse.log"
    before = reader.read_so_far()
    log.write_bytes(batch(0, b"a"))
    os.truncate(log, 5 << 30)
    with open_source(log) as source:
        facts = walk(source, 0).facts
    assert (facts.batches, facts.stop, facts.stop_position) == (
        1,
        StopReason.ZERO_TAIL,
        len(batch(0, b"a")),
    )
    assert reader.read_so_far() - before < 4 * reader.BUFFER


@pytest.mark.slow(5)
def test_size_field_that_claims_a_sparse_file(tmp_path: Path) -> None:
    """2 GiB of hole as one batch: the checksum is computed, memory is not taken."""
    log = tmp_path / "sparse.log"
    one = batch(0, b"a")
    log.write_bytes(one + (1).to_bytes(8, "big") + (2**31 - 1).to_bytes(4, "big") + one[12:])
    os.truncate(log, 2**31 + 1000)
    script = f"""
from kafkats.segment.reader import open_source
from kafkats.segment.walk import walk
import resource
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
with open_source({str(log)!r}) as source:
    facts = walk(source, 0).facts
assert (facts.batches, facts.stop) == (1, "bad-crc"), facts
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("mapped", [True, False])
def test_nothing_there(tmp_path: Path, mapped: bool) -> None:
    (tmp_path / "0.log").touch()
    with open_source(tmp_path / "0.log", mapped=mapped) as source:
        assert walk(source, 7).facts.next_offset == 7
    with open_segment(tmp_path / "0.log") as view:
        assert view.size == 0
    with pytest.raises(Vanished), open_source(tmp_path / "1.log", mapped=mapped):
        pass
    with pytest.raises(BadInput), open_segment(tmp_path):
        pass


def test_view_is_read_only_and_may_outlive_the_with(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(b"abc" * 5000)
    with open_segment(tmp_path / "0.log") as view, pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    assert bytes(view[:3]) == b"abc"


def test_file_that_is_cut_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = batch(0, bytes(1000))
    log = tmp_path / "0.log"
    log.write_bytes(one + batch(1, bytes(1000)) + batch(2, bytes(1000)))
    monkeypatch.setattr(reader, "BUFFER", len(one))
    with open_source(log) as source:
        os.truncate(log, len(one) + 500)
        walked = walk(source, 0)
    assert (walked.facts.batches, walked.facts.stop) == (1, StopReason.TORN_TAIL)
    assert walked.cut_to == len(one) + 500


@pytest.mark.parametrize(("count", "size"), [(200, 100_000), (3, 10_000_000)])
def test_a_mapped_page_that_cannot_be_read_is_an_error_and_not_the_end_of_the_process(
    tmp_path: Path, count: int, size: int
) -> None:
    """Reading it would be SIGBUS. A shorter file is such a page, as a bad sector is."""
    log = tmp_path / "0.log"
    log.write_bytes(b"".join(batch(i, bytes(size)) for i in range(count)))
    with (
        open_source(log, mapped=True) as source,
        pytest.raises(StorageFailed, match="the file became shorter while it was read"),
    ):
        os.truncate(log, 6 * reader.BUFFER)
        walk(source, 0)


def test_memory_stays_small_on_a_large_segment(tmp_path: Path) -> None:
    """RssAnon over the baseline, in a process of its own."""
    log = tmp_path / f"{0:020d}.log"
    one = batch(0, bytes(60_000))
    with log.open("wb") as file:
        for i in range(3000):
            changed = i.to_bytes(8, "big") + one[8:]
            file.write(changed)
    assert crc32c(one[21:]) == int.from_bytes(one[17:21], "big")
    script = f"""
from kafkats.index.check import check_segment
import re
def anon(): return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1])
check_segment({str(log)!r}, live=True)
before = anon()
found = check_segment({str(log)!r}, live=True, index_interval_bytes=0)
assert found.facts.batches == 3000, found.facts
print(anon() - before)
"""
    grown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(grown.stdout) < 64 * 1024
