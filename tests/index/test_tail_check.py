"""The check of a segment's ends against the check of the whole segment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkats.errors import UsageError, Vanished
from kafkats.index.check import check_segment
from kafkats.index.tail_check import check_tail
from kafkats.segment.reader import read_so_far
from tests.golden import Unpacked
from tests.index.damages import damages

SAME = ("log_bytes", "valid_bytes", "last_offset", "next_offset", "first_timestamp", "stop")
INSIDE = {"not-in-log"}
"""All that only a comparison entry by entry finds in an index that is in order."""


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", ["matrix", "timestamps", "compaction", "follower"])
def test_a_healthy_segment_is_not_in_doubt(golden: Unpacked, kind: str) -> None:
    seen = 0
    for segment in golden.segments(kind):
        has_times = segment.log.with_suffix(".timeindex").exists()
        tail = check_tail(segment.log, time_index_expected=has_times)
        full = check_segment(segment.log, index_interval_bytes=segment.interval)
        if any(f.kind == "timestamps-not-in-log" for f in full.findings):
            assert tail.doubt == "the .timeindex: above-maximum", segment
            continue
        assert (tail.doubt, tail.findings) == ("", ()), segment
        assert all(getattr(tail.facts, name) == getattr(full.facts, name) for name in SAME), segment
        assert tail.facts.max_timestamp == full.facts.max_timestamp, segment
        assert tail.facts.depth == "tail"
        seen += 1
    assert seen > 10


@pytest.fixture(scope="module")
def source(golden: Unpacked) -> Path:
    """The .log of a segment with many entries in both indexes."""
    root = golden("matrix-4.3.1-v2", "data")
    logs = sorted(root.glob("*/*.log"))
    return max(logs, key=lambda p: p.with_suffix(".index").stat().st_size)


def copied(source: Path, to: Path) -> Path:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), to)
    return to / source.name


@pytest.fixture
def log(source: Path, tmp_path: Path) -> Path:
    return copied(source, tmp_path)


@pytest.mark.examples(6)
@pytest.mark.parametrize(
    ("suffix", "damage", "doubt"),
    [
        (".index", lambda path: path.unlink(), "the .index is missing"),
        (".timeindex", lambda path: path.unlink(), "the .timeindex is missing"),
        (".timeindex", lambda path: path.write_bytes(b""), "the .timeindex: empty-index"),
        (".index", lambda path: path.write_bytes(path.read_bytes() + bytes(80)), "zero-entries"),
        (".timeindex", lambda path: path.write_bytes(path.read_bytes() + bytes(120)), "zero-entries"),
        (".index", lambda path: path.write_bytes(path.read_bytes()[:-3]), "partial-entry"),
        (".timeindex", lambda path: path.write_bytes(path.read_bytes()[:-12]), "the .timeindex: below-maximum"),
        (".timeindex", lambda path: path.write_bytes(path.read_bytes()[4:]), "partial-entry"),
        (".index", lambda path: path.write_bytes(path.read_bytes() + b"\x7f" * 8), "the .index: beyond-end"),
        (".log", lambda path: path.write_bytes(path.read_bytes()[:-5]), "the .log: torn-tail"),
        (".log", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"), "the .log: bad-crc"),
        (".log", lambda path: path.write_bytes(b""), "an index points behind the end of the log"),
    ],
)  # fmt: skip
def test_damage_of_the_ends_is_a_doubt(
    log: Path, suffix: str, damage: Callable[[Path], object], doubt: str
) -> None:
    assert check_tail(log).doubt == ""
    damage(log.with_suffix(suffix))
    assert doubt in check_tail(log).doubt


def test_an_entry_for_a_batch_that_begins_later_is_a_doubt(log: Path) -> None:
    index = log.with_suffix(".index")
    entries = index.read_bytes()
    last, before = entries[-8:], entries[-16:-8]
    index.write_bytes(entries[:-16] + before[:4] + last[4:])
    assert check_tail(log).doubt == "the .index: not-in-log"


def test_a_preallocated_active_segment_of_a_running_broker_is_not_in_doubt(log: Path) -> None:
    for suffix in (".index", ".timeindex"):
        path = log.with_suffix(suffix)
        path.write_bytes(path.read_bytes() + bytes(2400))
    assert "zero-entries" in check_tail(log).doubt
    assert check_tail(log, active=True, live=True).doubt == ""


def test_only_the_end_of_a_log_is_read(log: Path) -> None:
    check_tail(log)
    before = read_so_far()
    check_tail(log)
    indexes = sum(log.with_suffix(s).stat().st_size for s in (".index", ".timeindex"))
    assert read_so_far() - before - indexes < log.stat().st_size / 2


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check_tail(tmp_path / "backup.log")
    with pytest.raises(Vanished):
        check_tail(tmp_path / f"{0:020d}.log")


@pytest.mark.slow(2)
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(offsets=st.none() | damages(), times=st.none() | damages())
def test_what_is_no_doubt_is_damaged_inside_at_most(
    source: Path,
    tmp_path: Path,
    offsets: Callable[[bytes], bytes | None] | None,
    times: Callable[[bytes], bytes | None] | None,
) -> None:
    log = copied(source, tmp_path)
    for suffix, change in ((".index", offsets), (".timeindex", times)):
        path = log.with_suffix(suffix)
        data = change(path.read_bytes()) if change else path.read_bytes()
        path.unlink() if data is None else path.write_bytes(data)
    tail, full = check_tail(log), check_segment(log)
    wrong = {f.kind for f in full.findings if f.severity in ("damage", "danger")}
    assert tail.doubt or wrong <= INSIDE
