"""Verdicts on real and on damaged indexes, and the truth of single entries against the plain twin."""

from __future__ import annotations

import os
import shutil
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import BadInput, UsageError, Vanished
from kafkats.generations import DEFAULT_RULE, RULES, SEGMENT_INDEX_BYTES
from kafkats.index.build import offset_bytes, time_bytes
from kafkats.index.check import IndexState, SegmentCheck, check_segment
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source
from tests.golden import Segment, Unpacked, case, segments, tree
from tests.index.generated import BASE, logs
from tests.index.reference import read_batches, untrue_entries

CLEAN = (
    "matrix",
    "content",
    "timestamps",
    "transactions",
    "rolling",
    "compaction",
    "retention",
    "follower",
    "upgrade",
)
INTERVAL = 256
FINE = {IndexState.EQUAL, IndexState.SOUND}


def fine(check: SegmentCheck) -> bool:
    """Nothing but remarks; what does not exist would be empty."""
    if any(f.severity not in {"remark", "state"} for f in check.findings):
        return False
    return {check.offset_index, check.time_index} <= {*FINE, IndexState.MISSING}


def clean_segments(golden: Unpacked) -> list[Segment]:
    return [
        s for s in golden.segments(*CLEAN) if not s.partition.name.endswith(("-delete", "-stray"))
    ]


@pytest.mark.slow(1)
@pytest.mark.parametrize("told", [True, False])
def test_what_a_broker_left_after_a_clean_stop_never_alarms(golden: Unpacked, told: bool) -> None:
    """Whether the topic's settings and its generation are told or not."""
    found: Counter[str] = Counter()
    for segment in clean_segments(golden):
        rule = RULES["first-offset"] if told and segment.case.first_offset_rule() else DEFAULT_RULE
        interval, index_bytes = (segment.interval, segment.index_bytes) if told else (None, None)
        check = check_segment(
            segment.log, rule=rule, index_interval_bytes=interval, segment_index_bytes=index_bytes
        )
        assert fine(check), (segment, check.findings)
        found.update(f.kind for f in check.findings)
        found[check.offset_index] += 1
    assert found.pop("timestamps-not-in-log") == 5, (
        "0.10.2.2 with magic 0 indexes timestamps that it then strips"
    )
    assert set(found) <= {"sound", "other-rule", "equal", "missing", "no-entries"}
    assert found["equal"] > 1500


def test_what_recovery_rebuilt_is_equal(golden: Unpacked) -> None:
    """The active segments after kill -9: every generation rebuilt both their indexes."""
    equal = 0
    for name in (
        "crash-0.8.2.2",
        "crash-0.10.2.2",
        "crash-0.11.0.3",
        "crash-2.4.1",
        "crash-2.8.2-v1",
        "crash-3.9.1",
        "crash-4.3.1",
    ):
        one = case(name)
        rule = RULES["first-offset"] if one.first_offset_rule() else DEFAULT_RULE
        by_partition = {
            s.partition: s for s in segments(one, "after", golden(one, "after"))
        }  # the last one stays
        for segment in by_partition.values():
            if segment.partition.name.startswith("__") or not segment.log.stat().st_size:
                continue
            check = check_segment(segment.log, rule=rule, index_interval_bytes=segment.interval)
            assert check.offset_index == IndexState.EQUAL, (segment, check.findings)
            assert check.time_index == IndexState.EQUAL or name == "crash-0.8.2.2", (
                segment,
                check.findings,
            )
            equal += 1
    assert equal > 250


def test_reading_changes_nothing(golden: Unpacked) -> None:
    root = golden("crash-4.1.0", "before")
    before = tree(root)
    for segment in segments(case("crash-4.1.0"), "before", root):
        check_segment(segment.log, active=True, live=True)
    assert tree(root) == before


@pytest.mark.slow(4)
@settings(max_examples=200, deadline=None)
@given(logs(), st.data())
def test_truth_of_entries(log: bytes, data: st.DataObject) -> None:
    batches = read_batches(log)[0]
    positions = [b.position for b in batches] + [b.position + 1 for b in batches[:2]]
    offsets = [b.last_offset - BASE + d for b in batches for d in (0, 1, -1)]
    chosen_positions = sorted(data.draw(st.sets(st.sampled_from(positions or [0]), max_size=8)))
    chosen_offsets = sorted(data.draw(st.sets(st.sampled_from(offsets or [0]), max_size=8)))
    index = list(zip(chosen_offsets, chosen_positions, strict=False))
    near = [
        b.max_timestamp + d for b in batches for d in (0, 1, -1) if abs(b.max_timestamp) < 2**62
    ]
    timestamps = sorted(
        data.draw(st.sets(st.sampled_from(near or [0]) | st.integers(-2, 70), max_size=8))
    )
    times = list(
        zip(
            timestamps,
            sorted(data.draw(st.lists(st.sampled_from(offsets or [0]), max_size=8))),
            strict=False,
        )
    )
    walked = walk(
        array_source(np.frombuffer(log, np.uint8)),
        BASE,
        offset_entries=offset_bytes([o for o, _ in index], [p for _, p in index]),
        time_entries=time_bytes([t for t, _ in times], [o for _, o in times]),
    )
    untrue = untrue_entries(log, BASE, index, times)
    # The kernel leaves entries behind the last batch's beginning to its caller.
    last = batches[-1].position if batches else -1
    wrong = [i for i in untrue.offset_entries if index[i][1] <= last]
    assert walked.offset_entries.wrong == len(wrong)
    assert walked.offset_entries.first_wrong == (wrong[0] if wrong else -1)
    assert walked.time_entries.wrong == len(untrue.time_entries)
    assert walked.time_entries.first_wrong == (
        untrue.time_entries[0] if untrue.time_entries else -1
    )


@pytest.fixture
def segment(golden: Unpacked, tmp_path: Path) -> Path:
    """A copy of a segment with both indexes equal to their rebuild, interval INTERVAL, that has most entries."""
    root = golden("matrix-4.3.1-v2", "data")
    source = max(
        sorted(root.glob("gzip-ct-0/*.log")),
        key=lambda log: log.with_suffix(".timeindex").stat().st_size,
    )
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(source.with_suffix(suffix), tmp_path)
    log = tmp_path / source.name
    assert fine(check_segment(log))
    assert check_segment(log).offset_index == check_segment(log).time_index == IndexState.EQUAL
    return log


def kinds(log: Path, suffix: str, **how: bool) -> list[str]:
    """Kinds of findings in one file, and never one in the others."""
    check = check_segment(log, index_interval_bytes=INTERVAL, **how)
    name = log.with_suffix(suffix).name
    assert [f for f in check.findings if f.file != name] == []
    state = check.offset_index if suffix == ".index" else check.time_index
    damaged = any(f.severity == "damage" for f in check.findings)
    assert (state in {IndexState.DEFECTIVE, IndexState.MISSING}) == damaged
    return [f.kind for f in check.findings]


def edit(path: Path, entry: np.dtype[np.void], **changes: tuple[int, int]) -> None:
    """Set fields: field=(number of the entry, value)."""
    entries = np.fromfile(path, entry)
    for field, (i, value) in changes.items():
        entries[field][i] = value
    entries.tofile(path)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damage_of_both_kinds(segment: Path, suffix: str) -> None:
    path = segment.with_suffix(suffix)
    whole = path.read_bytes()
    size = 8 if suffix == ".index" else 12
    path.write_bytes(whole[:-3])
    assert "partial-entry" in kinds(segment, suffix)
    path.write_bytes(whole + bytes(size * 300))
    assert kinds(segment, suffix) == ["zero-entries"]
    assert kinds(segment, suffix, active=True, live=True) == ["preallocated"]
    path.write_bytes(bytes(10 * size))
    assert kinds(segment, suffix) == ["zero-entries"]
    path.write_bytes(whole[: 2 * size] + whole[:size] + whole[3 * size :])
    assert kinds(segment, suffix) == ["not-monotonic"]
    path.write_bytes(whole[size:])
    assert kinds(segment, suffix) == ["sound"]
    path.unlink()
    assert kinds(segment, suffix) == ["missing-index"]


def test_damage_of_the_offset_index(segment: Path) -> None:
    from kafkats.index.offset_index import ENTRY

    path = segment.with_suffix(".index")
    whole = path.read_bytes()

    def damaged(**changes: tuple[int, int]) -> list[str]:
        path.write_bytes(whole)
        edit(path, ENTRY, **changes)
        return kinds(segment, ".index")

    entries = np.frombuffer(whole, ENTRY)
    assert damaged(position=(1, int(entries["position"][1]) + 1)) == ["not-in-log"]
    assert damaged(relative_offset=(1, int(entries["relative_offset"][0]) + 1)) == ["sound"]
    path.write_bytes(offset_bytes(entries["relative_offset"][:1], entries["position"][1:2]))
    assert kinds(segment, ".index") == ["not-in-log"]
    assert damaged(relative_offset=(-1, 2**31 - 1)) == ["beyond-end"]
    assert damaged(position=(-1, 2**31 - 1)) == ["beyond-end"]
    assert damaged(position=(-1, segment.stat().st_size - 1)) == ["not-in-log"]
    assert damaged(relative_offset=(0, -5)) == ["below-base", "not-in-log"]
    path.write_bytes(b"")
    assert kinds(segment, ".index") == ["no-entries"]
    path.write_bytes(os.urandom(len(whole)))
    assert {"not-monotonic", "beyond-end", "not-in-log", "below-base"} & set(
        kinds(segment, ".index")
    )


def test_damage_of_the_time_index(segment: Path) -> None:
    from kafkats.index.time_index import ENTRY

    path = segment.with_suffix(".timeindex")
    whole = path.read_bytes()
    entries = np.frombuffer(whole, ENTRY)

    def damaged(**changes: tuple[int, int]) -> list[str]:
        path.write_bytes(whole)
        edit(path, ENTRY, **changes)
        return kinds(segment, ".timeindex")

    assert damaged(timestamp=(-1, int(entries["timestamp"][-1]) + 1)) == ["above-maximum"]
    assert damaged(relative_offset=(0, int(entries["relative_offset"][1]))) == ["not-in-log"]
    assert damaged(relative_offset=(-1, 2**31 - 1)) == ["beyond-end"]
    path.write_bytes(whole[:-12])
    assert kinds(segment, ".timeindex") == ["below-maximum"]
    path.write_bytes(b"")
    assert kinds(segment, ".timeindex") == ["empty-index"]
    assert kinds(segment, ".timeindex", active=True, live=True) == ["empty-index"]
    path.write_bytes(bytes(1200))
    assert kinds(segment, ".timeindex", active=True, live=True) == ["preallocated"]
    path.write_bytes(bytes(12))
    assert kinds(segment, ".timeindex") == ["zero-entries"]


def test_damage_of_the_log(segment: Path) -> None:
    whole = segment.read_bytes()

    def found(data: bytes, **how: bool) -> tuple[str, int]:
        segment.write_bytes(data)
        finding = next(f for f in check_segment(segment, **how).findings if f.file == segment.name)
        return finding.kind, finding.position

    starts = [b.position for b in read_batches(whole)[0]]
    assert found(whole[:-1]) == ("torn-tail", starts[-1])
    assert found(whole[:-1], active=True, live=True) == ("moving-tail", starts[-1])
    assert found(whole + bytes(5000)) == ("zero-tail", len(whole))
    assert found(whole + bytes(5000), active=True, live=True) == ("preallocated", len(whole))
    assert found(whole + bytes(5000) + b"x") == ("bad-length", len(whole))
    turned = bytearray(whole)
    turned[starts[3] + 70] ^= 1
    assert found(bytes(turned)) == ("bad-crc", starts[3])
    assert found(bytes(turned), active=True, live=True) == ("bad-crc", starts[3])
    turned[starts[2] + 16] = 3
    assert found(bytes(turned)) == ("unknown-magic", starts[2])
    turned[starts[2] + 70] ^= 1
    assert found(bytes(turned)) == ("bad-magic", starts[2])
    assert found(whole + whole) == ("offsets-not-increasing", len(whole))
    below = bytearray(whole)
    below[:8] = struct.pack(">q", int(segment.stem) - 1)
    assert found(bytes(below)) == ("offset-out-of-range", 0)


def test_settings_are_inferred_or_said_to_be_the_default(segment: Path) -> None:
    check = check_segment(segment)
    assert check.offset_index == IndexState.EQUAL
    assert check.index_interval_bytes == INTERVAL
    assert (check.interval_from, check.segment_index_bytes) == ("inferred", SEGMENT_INDEX_BYTES)
    segment.with_suffix(".index").write_bytes(
        segment.with_suffix(".index").read_bytes() + bytes(8 * 100)
    )
    assert check_segment(segment).segment_index_bytes == SEGMENT_INDEX_BYTES, (
        "zeros of an inactive segment say nothing"
    )
    check = check_segment(segment, active=True, live=True)
    assert check.segment_index_bytes == segment.with_suffix(".index").stat().st_size
    segment.with_suffix(".index").unlink()
    check = check_segment(segment)
    assert (check.index_interval_bytes, check.interval_from) == (4096, "default")
    assert check_segment(segment, index_interval_bytes=7).interval_from == "given"


def test_index_that_would_be_full(segment: Path) -> None:
    check = check_segment(segment, index_interval_bytes=100, segment_index_bytes=40)
    assert "index-full" in [f.kind for f in check.findings]
    # What the builder had when it gave up is no rebuild to be equal to.
    segment.with_suffix(".index").write_bytes(check.built.offset_index)
    segment.with_suffix(".timeindex").write_bytes(check.built.time_index)
    again = check_segment(segment, index_interval_bytes=100, segment_index_bytes=40)
    assert IndexState.EQUAL not in {again.offset_index, again.time_index}


def test_other_generations_rule_is_a_remark(golden: Unpacked) -> None:
    found = Counter()
    for log in golden("crash-0.11.0.3", "after").rglob("0*.log"):
        found.update(
            f.kind
            for f in check_segment(log, index_interval_bytes=100).findings
            if f.file.endswith(".index")
        )
    assert found["other-rule"] > 30


def test_a_kip33_index_misleads_a_broker(segment: Path) -> None:
    built = check_segment(segment, rule=RULES["kip33"]).built
    segment.with_suffix(".timeindex").write_bytes(built.time_index)
    assert check_segment(segment).time_index == IndexState.DEFECTIVE
    assert check_segment(segment, rule=RULES["kip33"]).time_index == IndexState.EQUAL


def test_what_is_no_segment(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check_segment(tmp_path / "backup.log")
    with pytest.raises(UsageError):
        check_segment(tmp_path / f"{0:020d}.index")
    with pytest.raises(Vanished):
        check_segment(tmp_path / f"{0:020d}.log")
    (tmp_path / f"{1:020d}.log").mkdir()
    with pytest.raises(BadInput):
        check_segment(tmp_path / f"{1:020d}.log")


def test_zero_bytes_are_nothing_to_complain_about(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{0:020d}{suffix}").touch()
    check = check_segment(tmp_path / f"{0:020d}.log")
    assert (check.offset_index, check.time_index, check.findings) == (
        IndexState.EQUAL,
        IndexState.EQUAL,
        (),
    )
