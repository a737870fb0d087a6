"""Facts from the ends of the files against a full pass, and what the ends give away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats.errors import UsageError, Vanished
from kafkats.index.check import check_segment
from kafkats.index.tail import read_tail
from tests.golden import Unpacked

SAME = (
    "log_bytes",
    "valid_bytes",
    "last_offset",
    "next_offset",
    "first_timestamp",
    "max_timestamp",
    "stop",
)


@pytest.mark.parametrize("kind", ["matrix", "timestamps", "compaction", "follower"])
def test_same_as_a_full_pass_after_a_clean_stop(golden: Unpacked, kind: str) -> None:
    seen = 0
    for segment in golden.segments(kind):
        tail, full = (
            read_tail(segment.log),
            check_segment(segment.log, index_interval_bytes=segment.interval).facts,
        )
        assert tail.findings == (), segment
        stripped = full.magics[0] == full.valid_bytes and tail.facts.max_timestamp > -1
        for name in SAME:
            if not (stripped and name == "max_timestamp"):
                assert getattr(tail.facts, name) == getattr(full, name), (segment, name)
        assert tail.facts.first_offset in {-1, full.first_offset}
        assert tail.facts.batches in {-1, full.batches}
        assert tail.facts.depth == "tail"
        seen += tail.facts.batches == -1
    assert seen > 10


@pytest.fixture
def log(golden: Unpacked, tmp_path: Path) -> Path:
    """A copy of a segment with many entries."""
    root = golden("matrix-4.3.1-v2", "data")
    source = max(
        sorted(root.glob("gzip-ct-0/*.log")),
        key=lambda p: p.with_suffix(".timeindex").stat().st_size,
    )
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), tmp_path)
    return tmp_path / source.name


def kinds(log: Path, **how: bool) -> list[str]:
    return [f.kind for f in read_tail(log, **how).findings]


def test_what_the_ends_give_away(log: Path) -> None:
    offsets, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    good_offsets, good_times, good_log = offsets.read_bytes(), times.read_bytes(), log.read_bytes()
    assert kinds(log) == []
    offsets.write_bytes(good_offsets[:-1])
    assert kinds(log) == ["partial-entry"]
    offsets.write_bytes(good_offsets + bytes(800))
    assert kinds(log) == ["zero-entries"]
    assert kinds(log, active=True, live=True) == ["preallocated"]
    assert read_tail(log, active=True, live=True).facts == check_tail_facts(log)
    offsets.write_bytes(good_offsets[:-1] + bytes([good_offsets[-1] + 3]))
    assert "not-in-log" in kinds(log) or "beyond-end" in kinds(log)
    offsets.write_bytes(good_offsets[:-8] + b"\x7f" * 8)
    assert kinds(log) == ["beyond-end"]
    offsets.unlink()
    assert kinds(log) == ["missing-index"]
    offsets.write_bytes(good_offsets)
    times.write_bytes(b"")
    assert kinds(log) == ["empty-index"]
    times.write_bytes(good_times[:-12])
    assert kinds(log) == ["below-maximum"]
    times.unlink()
    assert kinds(log) == ["missing-index"]
    times.write_bytes(good_times)
    log.write_bytes(good_log + bytes(100))
    assert kinds(log) == ["zero-tail"]
    log.write_bytes(good_log[:-1])
    assert kinds(log)[0] == "torn-tail"


def check_tail_facts(log: Path) -> object:
    offsets = log.with_suffix(".index")
    data = offsets.read_bytes()
    offsets.write_bytes(data.rstrip(b"\0")[: len(data) // 8 * 8])
    try:
        return read_tail(log).facts
    finally:
        offsets.write_bytes(data)


def test_what_is_no_segment(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_tail(tmp_path / "backup.log")
    with pytest.raises(Vanished):
        read_tail(tmp_path / f"{0:020d}.log")
