"""A start is predicted the same whether segments are read one after the other or side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.damaged_partitions import damaged
from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.execution import local
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.partition import log_bases, scan_partition
from kafkats.paths import PartitionName
from kafkats.recovery import ahead, load
from kafkats.recovery.ahead import recover_ahead, recovered_logs, segments_of
from kafkats.recovery.facts import BrokerStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.reading import Recovery, recover
from kafkats.recovery.rules import start_rule
from kafkats.recovery.start import predict_start
from tests.golden import Unpacked

NUMBERS = range(300, 340)


def _root(to: Path, version: str, unpacked: Unpacked, *, clean: bool) -> Path:
    """A log directory with randomly damaged partitions."""
    points, starts = {}, {}
    for number in NUMBERS:
        one = damaged(version, number, unpacked, to / f"p-{number}")
        name = PartitionName("p", number, "")
        points[name] = one.recovery_point
        starts |= {name: one.log_start} if one.log_start else {}
    (to / paths.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (to / paths.RECOVERY_POINT).write_bytes(encode_offsets(points))
    (to / paths.LOG_START).write_bytes(encode_offsets(starts))
    if clean:
        (to / paths.CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":7}')
    return to


def _start(root: Path, version: str, jobs: int) -> BrokerStart:
    with LocalExecutor(jobs) as executor:
        return predict_start(executor, [root], version)


@pytest.mark.slow(2)
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("version", ["4.3.1", "2.8.2"])
def test_the_start_does_not_depend_on_jobs(
    version: str, clean: bool, golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _root(tmp_path, version, golden, clean=clean)
    whole = _start(root, version, 1)
    outcomes = {one.outcome for one in whole.partitions}
    assert {"loads", "stops"} <= outcomes or {"loads", "offline"} <= outcomes
    monkeypatch.setattr(ahead, "LARGE_BYTES", 0)
    assert _start(root, version, 1) == whole
    # Small logs are read in threads of this process, as large ones are.
    monkeypatch.setattr(local, "SMALL_BYTES", 0)
    monkeypatch.setattr(local, "THREAD_BYTES", 0)
    assert _start(root, version, 3) == whole


def test_what_is_read_ahead_is_read_by_the_formats_of_the_release(
    golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden("crash-4.3.1", "before")
    whole = _start(root, "0.10.2", 1)
    assert any(one.cut_to == 0 for p in whole.partitions for one in p.recovered)
    monkeypatch.setattr(ahead, "LARGE_BYTES", 0)
    assert _start(root, "0.10.2", 1) == whole


def test_each_segment_of_a_large_partition_is_one_unit_and_is_read_once(
    golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = golden("crash-4.3.1", "before")
    rule = start_rule("4.3")
    logs = recovered_logs(root / "untouched-0", 0, rule, clean=False)
    assert sorted(logs) == log_bases(root / "untouched-0")
    assert segments_of(str(root), "untouched-0", logs, 4096) == []
    monkeypatch.setattr(ahead, "LARGE_BYTES", sum(logs.values()))
    units = segments_of(str(root), "untouched-0", logs, 4096)
    assert [unit.base_offset for unit in units] == sorted(logs)
    assert len(units) > 1

    read: list[str] = []

    def once_more(log: Path, base: int, interval: int, *, newest_magic: int) -> Recovery:
        read.append(log.parent.name)
        return recover(log, base, interval, newest_magic=newest_magic)

    monkeypatch.setattr(load, "recover", once_more)
    monkeypatch.setattr(ahead, "LARGE_BYTES", 0)
    start = _start(root, "4.3", 1)
    several = {
        p.partition_dir
        for p in start.partitions
        if len({r.base_offset for r in p.recovered}) > 1 and not p.renamed
    }
    assert several
    assert not several & set(read)


def test_a_log_that_has_changed_since_is_read_again(golden: Unpacked, tmp_path: Path) -> None:
    one = damaged("4.3.1", 1, golden, tmp_path / "p-0")
    base = log_bases(one.directory)[-1]
    logs = recovered_logs(one.directory, 0, start_rule("4.3"), clean=False)
    unit = ahead.SegmentUnit(str(tmp_path), "p-0", base, one.interval, logs[base])
    with LocalExecutor(1) as executor:
        before = recover_ahead(executor, [unit])[str(tmp_path), "p-0"]
    log = one.directory / paths.segment_file(base, paths.LOG)
    log.write_bytes(log.read_bytes() + bytes(7))
    claims = Claims(recovery_point=0, log_start=0, rooted=True)
    start = predict(
        scan_partition(one.directory),
        claims,
        start_rule("4.3"),
        log_dir=str(tmp_path),
        interval=one.interval,
        ahead=before,
    )
    last = next(r for r in start.recovered if r.base_offset == base)
    assert last.log_bytes == before[base].log_bytes + 7 == log.stat().st_size


@pytest.mark.parametrize(("clean", "expected"), [(False, [0, 40, 80]), (True, [40])])
def test_logs_without_an_index_are_recovered_after_a_clean_stop_too(
    clean: bool, expected: list[int], tmp_path: Path
) -> None:
    for base in (0, 40, 80):
        (tmp_path / paths.segment_file(base, paths.LOG)).write_bytes(b"x" * base)
    for base in (0, 80):
        (tmp_path / paths.segment_file(base, paths.OFFSET_INDEX)).touch()
    assert list(recovered_logs(tmp_path, 0, start_rule("4.3"), clean=clean)) == expected
    above = recovered_logs(tmp_path, 79, start_rule("4.3"), clean=clean)
    assert above == ({40: 40, 80: 80} if not clean else {40: 40})
    assert recovered_logs(tmp_path / "none", 0, start_rule("4.3"), clean=clean) == {}
