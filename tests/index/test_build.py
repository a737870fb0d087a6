"""The kernel against its plain twin, on generated and damaged segments, and on real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkats.generations import RULES
from kafkats.index import offset_index, time_index
from kafkats.index.build import Built
from kafkats.index.structure import examine_offset_index, examine_time_index
from kafkats.segment import walk as walk_module
from tests.builders.logs import build
from tests.golden import Unpacked
from tests.index.generated import BASE, damaged_logs, logs
from tests.index.reference import build_reference

RULE_NAMES = sorted(RULES)


def kernel(log: bytes, base: int, rule: str, interval: int, index_bytes: int) -> Built:
    return build(
        np.frombuffer(log, np.uint8),
        base,
        rule=RULES[rule],
        index_interval_bytes=interval,
        segment_index_bytes=index_bytes,
        mtime_ms=77,
        next_base_offset=base + 10_000,
    )


def twin(log: bytes, base: int, rule: str, interval: int, index_bytes: int) -> Built:
    return build_reference(
        log,
        base,
        rule=RULES[rule],
        index_interval_bytes=interval,
        segment_index_bytes=index_bytes,
        mtime_ms=77,
        next_base_offset=base + 10_000,
    )


def assert_same(ours: Built, believed: Built) -> None:
    assert ours.facts == believed.facts
    if ours.blocked != "undecodable":
        assert ours.blocked == believed.blocked
    if not ours.blocked:
        assert (ours.offset_index, ours.time_index) == (believed.offset_index, believed.time_index)


@pytest.mark.slow(3)
@settings(max_examples=250, deadline=None)
@given(
    damaged_logs(),
    st.sampled_from([0, 60, 100, 300, 4096]),
    st.sampled_from(["last-offset", "kip33"]),
)
@example(
    bytes.fromhex("80000000000003e80000000e795748e00000ffffffff00000000"), 0, "last-offset"
)  # far below the base
def test_damaged_segments(log: bytes, interval: int, rule: str) -> None:
    assert_same(
        kernel(log, BASE, rule, interval, 1 << 20), twin(log, BASE, rule, interval, 1 << 20)
    )


@pytest.mark.slow(2)
@settings(max_examples=150, deadline=None)
@given(
    logs(),
    st.sampled_from(RULE_NAMES),
    st.sampled_from([0, 100]),
    st.sampled_from([8, 24, 48, 72, 1 << 20]),
)
def test_healthy_segments_and_full_indexes(
    log: bytes, rule: str, interval: int, index_bytes: int
) -> None:
    ours = kernel(log, BASE, rule, interval, index_bytes)
    assert_same(ours, twin(log, BASE, rule, interval, index_bytes))
    assert ours.facts.stop is None
    assert ours.facts.valid_bytes == len(log)


@settings(max_examples=60, deadline=None)
@given(logs(), st.integers(1, 5))
def test_output_in_chunks(log: bytes, at_once: int) -> None:
    whole = kernel(log, BASE, "last-offset", 0, 1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk_module, "POINTS_AT_ONCE", at_once)
        assert kernel(log, BASE, "last-offset", 0, 1 << 20) == whole


def test_rules_differ_where_they_should(golden: Unpacked) -> None:
    log = next(
        p for p in sorted(golden("matrix-2.8.2-v1", "data").rglob("0000*.log")) if "gzip" in str(p)
    ).read_bytes()
    built = {rule: kernel(log, 0, rule, 100, 1 << 20) for rule in RULE_NAMES}
    last, first, kip33 = built["last-offset"], built["first-offset"], built["kip33"]
    assert last.offset_index != first.offset_index
    assert last.time_index == first.time_index
    ours, theirs = (np.frombuffer(b.time_index, time_index.ENTRY) for b in (last, kip33))
    assert ours.size > 1
    assert (theirs["relative_offset"] > ours["relative_offset"]).all(), (
        "the log's end lies behind the maximum"
    )
    closing = np.frombuffer(kernel(log, 0, "kip33", 1 << 20, 1 << 20).time_index, time_index.ENTRY)
    assert closing["relative_offset"].tolist() == [10_000], (
        "the closing entry has the next segment's base"
    )
    assert (theirs["timestamp"] == ours["timestamp"]).all()


def test_kip33_without_timestamps_takes_the_mtime(golden: Unpacked) -> None:
    log = next(
        p
        for p in sorted(golden("matrix-0.8.2.2-v0", "data").rglob("0000*0.log"))
        if p.stat().st_size
    )
    built = build(
        np.fromfile(log, np.uint8), 0, rule=RULES["kip33"], mtime_ms=123, next_base_offset=9000
    )
    assert np.frombuffer(built.time_index, time_index.ENTRY).tolist() == [(123, 9000)]
    assert not build(np.fromfile(log, np.uint8), 0, rule=RULES["kip33"], mtime_ms=123).time_index, (
        "the active segment's"
    )
    assert not build(np.fromfile(log, np.uint8), 0).time_index


def recovered(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*.log") if p.stem.isdecimal() and p.stat().st_size)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        ("upgrade-0.9-to-2.8", "first-offset"),
        ("compaction-0.11.0.3", "last-offset"),
        ("transactions-4.3.1", "kip33"),
    ],
)
def test_real_segments_as_the_twin(golden: Unpacked, case: str, rule: str) -> None:
    state = {"compaction-0.11.0.3": "after", "upgrade-0.9-to-2.8": "data"}.get(case, "data")
    for log in recovered(golden(case, state)):
        if log.stat().st_size < 64 * 1024:
            data, base = log.read_bytes(), int(log.stem)
            assert_same(
                kernel(data, base, rule, 150, 1 << 20), twin(data, base, rule, 150, 1 << 20)
            )


def test_empty_log() -> None:
    built = build(np.empty(0, np.uint8), 42)
    assert (built.offset_index, built.time_index, built.blocked) == (b"", b"", "")
    assert (built.facts.batches, built.facts.next_offset, built.facts.last_offset) == (0, 42, -1)


def test_examined_files_give_their_entries_back(tmp_path: Path) -> None:
    entries = np.array([(3, 100), (256, 2**31 - 1)], offset_index.ENTRY)
    (tmp_path / "0.index").write_bytes(entries.tobytes() + bytes(80))
    found = examine_offset_index(tmp_path / "0.index")
    assert found is not None
    assert (found.used, found.zeros, found.findings) == (2, 10, ())
    assert offset_index.read(tmp_path / "0.index").tolist() == entries.tolist()
    (tmp_path / "0.timeindex").write_bytes(bytes(12))
    times = examine_time_index(tmp_path / "0.timeindex")
    assert times is not None
    assert (times.used, times.zeros) == (1, 0)
    assert time_index.read(tmp_path / "0.timeindex").tolist() == [(0, 0)]


def test_blocked_where_recovery_fails() -> None:
    log = kernel_log_with_repeated_offset()
    built = build(np.frombuffer(log, np.uint8), BASE, index_interval_bytes=0)
    assert built.blocked == "offsets-not-increasing"
    assert built.facts == built.facts._replace(not_increasing_position=len(log) // 2)


def kernel_log_with_repeated_offset() -> bytes:
    from kafkats.formats import v2
    from kafkats.formats.model import Record, TimestampType

    batch = v2.encode_batch([Record(BASE, 5, TimestampType.CREATE_TIME, None, b"x")])
    return batch + batch
