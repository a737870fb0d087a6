"""Replacements of segments that a broker had begun, above and below the recovery point."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.formats import dispatch
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.logdir.snapshot import read_snapshot
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, undone
from tests.golden import Case, Unpacked, case
from tests.recovery.crashed import plan_of, some_of

COMPLETE, LOG_ONLY = "swap-complete-0", "swap-log-only-0"
CASES = ("crash-4.3.1", "crash-2.8.2", "crash-0.11.0.3")


def at_point(golden: Unpacked, of: Case, name: str, point: int, to: Path) -> Path:
    """A partition of a case with another recovery point."""
    root = some_of(golden, of.name, (name,), to)
    file = root / paths.RECOVERY_POINT
    points = {**read_offsets(file), PartitionName(name[:-2], 0, ""): point}
    file.write_bytes(encode_offsets(points))
    return root


def without_segments(directory: Path) -> None:
    """Remove all files of segments, as if a power failure had lost their names."""
    for file in directory.glob("0*"):
        file.unlink()


def recovered(planned: Planned) -> set[str]:
    return set(applied_rows(planned.plan)["outcome"].to_pylist())


def logs_of(directory: Path) -> dict[int, bytes]:
    """The logs that are not empty, by base offset."""
    logs = {b: directory / paths.segment_file(b, paths.LOG) for b in log_bases(directory)}
    return {base: data for base, log in logs.items() if (data := log.read_bytes())}


@pytest.mark.parametrize("name", [COMPLETE, LOG_ONLY])
@pytest.mark.parametrize("of", CASES)
@pytest.mark.parametrize("point", [0, -1])
def test_a_replacement_above_the_recovery_point_is_finished(
    golden: Unpacked, tmp_path: Path, of: str, name: str, point: int
) -> None:
    """The result is that of the broker, whose recovery point lay above: the logs are whole."""
    crash = case(of)
    root = at_point(golden, crash, name, point, tmp_path / "data")
    if point < 0:  # before the first checkpoint
        (root / paths.RECOVERY_POINT).unlink()
    before = contents(root)
    planned = plan_of(root, crash)
    (row,) = planned.beside["recovery"].to_pylist()
    assert not row["blocked"]
    assert recovered(planned) == {"done"}
    theirs = golden(of, "after") / name
    assert logs_of(root / name) == logs_of(theirs)
    end = log_bases(root / name)[-1]
    snapshot = paths.segment_file(end, paths.SNAPSHOT)
    if (theirs / snapshot).exists() and not of.startswith("crash-0.11"):  # a marker is a batch
        assert read_snapshot(root / name / snapshot) == read_snapshot(theirs / snapshot)
    assert not [p.name for p in (root / name).iterdir() if p.suffix in (".swap", ".deleted")]
    again = plan_of(root, crash)
    assert again.plan.items.num_rows == 0
    assert all(not row["error"] for row in undone(planned.plan))
    assert contents(root) == before


def whole_batches(log: Path) -> list[bytes]:
    data = log.read_bytes()
    return [data[b.position : b.end] for b in dispatch.batches(data)]


@pytest.mark.parametrize("of", ["crash-4.3.1", "crash-2.8.2-v1"])
@pytest.mark.parametrize("kinds", [(".log",), (".log", ".index", ".timeindex")])
def test_a_cleaned_replacement_of_two_segments_is_as_if_the_broker_had_finished_it(
    golden: Unpacked, tmp_path: Path, of: str, kinds: tuple[str, ...]
) -> None:
    crash = case(of)
    ours = at_point(golden, crash, "untouched-0", 0, tmp_path / "ours" / "data")
    theirs = at_point(golden, crash, "untouched-0", 0, tmp_path / "theirs" / "data")
    first, second, *_ = log_bases(ours / "untouched-0")
    logs = [paths.segment_file(base, paths.LOG) for base in (first, second)]
    batches = [one for log in logs for one in whole_batches(ours / "untouched-0" / log)]
    cleaned = b"".join(batch for n, batch in enumerate(batches) if n % 3 != 1)
    for kind in kinds:
        name = f"{first:020d}{kind}.swap"
        (ours / "untouched-0" / name).write_bytes(cleaned if kind == ".log" else b"")
    for base in (first, second):  # the work of the broker
        for file in (theirs / "untouched-0").glob(f"{base:020d}.*"):
            file.unlink()
    (theirs / "untouched-0" / logs[0]).write_bytes(cleaned)
    for root in (ours, theirs):
        planned = plan_of(root, crash, cleanup="compact")
        assert recovered(planned) == {"done"}
    assert logs_of(ours / "untouched-0") == logs_of(theirs / "untouched-0")
    assert logs_of(ours / "untouched-0")[first] == cleaned
    found, wanted = (
        {
            file.name: file.read_bytes()
            for file in (root / "untouched-0").iterdir()
            if file.suffix in (".index", ".timeindex", ".txnindex")
            or file.name
            in (f"{log_bases(root / 'untouched-0')[-1]:020d}.snapshot", paths.LEADER_EPOCH)
        }
        for root in (ours, theirs)
    )
    assert found == wanted


KINDS = (".log", ".index", ".timeindex")


def states_of_a_replacement() -> list[tuple[str, int]]:
    """Every state of `replaceSegments`: which renames of the old files, then of the new, are done."""
    old = [("old", done) for done in range(len(KINDS) + 1)]
    return [*old, *(("new", done) for done in range(1, len(KINDS) + 1))]


@pytest.mark.parametrize("zeroed", [False, True])
@pytest.mark.parametrize("point", [0, 60])
@pytest.mark.parametrize("state", states_of_a_replacement())
@pytest.mark.parametrize("of", ["crash-4.3.1", "crash-2.8.2"])
def test_a_kill_between_the_renames(
    golden: Unpacked, tmp_path: Path, of: str, state: tuple[str, int], point: int, zeroed: bool
) -> None:
    """The result is that of a finished replacement, indexes included. `zeroed`: a power loss left
    zeros in the new indexes, which a broker of 3.0 and later would trust."""
    crash = case(of)
    root = at_point(golden, crash, "untouched-0", point, tmp_path / "data")
    directory = root / "untouched-0"
    first = log_bases(directory)[0]
    wanted = {kind: (directory / f"{first:020d}{kind}").read_bytes() for kind in KINDS}
    phase, done = state
    for kind in KINDS:  # the new files have the same records
        content = bytes(100) if zeroed and kind != ".log" else wanted[kind]
        (directory / f"{first:020d}{kind}.swap").write_bytes(content)
    for kind in KINDS[: done if phase == "old" else None]:
        name = directory / f"{first:020d}{kind}"
        name.rename(f"{name}.deleted")
    for kind in KINDS[: done if phase == "new" else 0]:
        name = directory / f"{first:020d}{kind}.swap"
        name.rename(name.with_suffix(""))
    before = contents(root)
    planned = plan_of(root, crash)
    (row,) = planned.beside["recovery"].to_pylist()
    assert not row["blocked"] and recovered(planned) == {"done"}
    found = {kind: (directory / f"{first:020d}{kind}").read_bytes() for kind in KINDS}
    assert found == wanted
    assert not [p.name for p in directory.iterdir() if p.suffix in (".swap", ".deleted")]
    assert plan_of(root, crash).plan.items.num_rows == 0
    undone(planned.plan)
    assert contents(root) == before


@pytest.mark.parametrize("point", [0, 1_000_000])
@pytest.mark.parametrize("of", ["crash-4.3.1", "crash-2.8.2"])
def test_a_partition_whose_only_log_is_a_replacement(
    golden: Unpacked, tmp_path: Path, of: str, point: int
) -> None:
    """Directory entries were lost in a power failure."""
    crash = case(of)
    root = at_point(golden, crash, "untouched-0", point, tmp_path / "data")
    directory = root / "untouched-0"
    (directory / paths.LEADER_EPOCH).unlink()  # no file but the replacement has an owner to take
    first = paths.segment_file(log_bases(directory)[0], paths.LOG)
    log = (directory / first).read_bytes()
    without_segments(directory)
    (directory / f"{first}.swap").write_bytes(log)
    snapshot = directory / paths.segment_file(0, paths.SNAPSHOT)
    snapshot.write_bytes(b"of noise")  # a broker deletes it, and writes one at the log end
    planned = plan_of(root, crash, accept=True)
    (row,) = planned.beside["recovery"].to_pylist()
    assert not row["blocked"] and recovered(planned) == {"done"}
    assert logs_of(directory) == {0: log}
    again = plan_of(root, crash, accept=True).plan.items.to_pylist()
    assert " ".join(row["file"] + row["reason"] for row in again) == ""


def test_a_name_that_stops_the_broker_beside_no_log_is_a_blocked_row(
    golden: Unpacked, tmp_path: Path
) -> None:
    crash = case("crash-2.8.2")
    root = at_point(golden, crash, "untouched-0", 0, tmp_path / "data")
    without_segments(root / "untouched-0")
    (root / "untouched-0" / "xx.log.cleaned").write_bytes(b"1234")
    [row] = plan_of(root, crash, accept=True).plan.items.to_pylist()
    assert row["action"] == "blocked" and row["file"] == "xx.log.cleaned"


def test_epochs_that_stop_the_broker_beside_no_log_are_a_blocked_row(
    golden: Unpacked, tmp_path: Path
) -> None:
    crash = case("crash-4.3.1")
    root = at_point(golden, crash, "untouched-0", 0, tmp_path / "data")
    without_segments(root / "untouched-0")
    (root / "untouched-0" / paths.LEADER_EPOCH).write_text("7\n0\n")
    [row] = plan_of(root, crash, accept=True).plan.items.to_pylist()
    assert row["action"] == "blocked" and row["file"] == paths.LEADER_EPOCH


def test_what_lies_between_two_replacements_is_kept(golden: Unpacked, tmp_path: Path) -> None:
    """Brokers of 3.0 and later delete all segments between them, with their records."""
    crash = case("crash-4.3.1")
    root = at_point(golden, crash, "untouched-0", 0, tmp_path / "data")
    directory = root / "untouched-0"
    before = logs_of(directory)
    for base in (min(before), max(before)):
        log = directory / paths.segment_file(base, paths.LOG)
        shutil.copy2(log, f"{log}.swap")
    assert recovered(plan_of(root, crash)) == {"done"}
    assert logs_of(directory) == before


def test_zeros_as_the_only_log_are_a_blocked_row(golden: Unpacked, tmp_path: Path) -> None:
    crash = case("crash-4.3.1")
    root = at_point(golden, crash, "untouched-0", 0, tmp_path / "data")
    directory = root / "untouched-0"
    without_segments(directory)
    (directory / f"{0:020d}.log.swap").write_bytes(bytes(1000))
    planned = plan_of(root, crash, accept=True)
    (row,) = planned.beside["recovery"].to_pylist()
    assert "is to replace a log, but is none" in row["blocked"]


@pytest.mark.parametrize("like_kafka", [False, True])
def test_a_replacement_behind_a_corrupt_log_is_left_to_a_broker(
    golden: Unpacked, tmp_path: Path, like_kafka: bool
) -> None:
    crash = case("crash-4.3.1")
    root = at_point(golden, crash, "untouched-0", 0, tmp_path / "data")
    directory = root / "untouched-0"
    first, second, *_ = log_bases(directory)
    log = directory / paths.segment_file(first, paths.LOG)
    behind = directory / paths.segment_file(second, paths.LOG)
    shutil.copy2(behind, f"{behind}.swap")
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    before = contents(root)
    planned = plan_of(root, crash, like_kafka=like_kafka)
    (row,) = planned.beside["recovery"].to_pylist()
    wanted = "where the log ends" if like_kafka else "a later segment"
    assert wanted in row["blocked"] or "later segments" in row["blocked"]
    recovered(planned)
    assert contents(root) == before


def test_a_torn_replacement_is_left_to_a_broker(golden: Unpacked, tmp_path: Path) -> None:
    crash = case("crash-4.3.1")
    root = at_point(golden, crash, LOG_ONLY, 0, tmp_path / "data")
    swap = next((root / LOG_ONLY).glob("*.log.swap"))
    swap.write_bytes(swap.read_bytes()[:-3])
    before = contents(root)
    planned = plan_of(root, crash)
    (row,) = planned.beside["recovery"].to_pylist()
    assert "is to replace a log, but is none" in row["blocked"]
    recovered(planned)
    assert contents(root) == before
