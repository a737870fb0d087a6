"""A recovery before a start: what it does by itself, what it leaves, and what holds the start."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.cli import main
from kafkats.errors import StorageFailed
from kafkats.execution.local import LocalExecutor
from kafkats.flow import ending, recovering
from kafkats.logdir.acting import acting_as
from kafkats.logdir.checkpoints import read_offsets
from kafkats.logdir.lock import lock_state
from kafkats.logdir.workarea import work_area
from kafkats.paths import PartitionName
from kafkats.plans import disks
from kafkats.plans.disks import Room
from kafkats.recovery.kept_runs import KeptRun, kept_runs, new_run
from kafkats.recovery.outage import Choice
from kafkats.recovery.start import predict_start
from tests.flow.verbs.recovering import Events, recover
from tests.golden import Unpacked
from tests.privileges import refuse_without
from tests.recovery.crashed import some_of

SOUND = ("few-bytes-0", "untouched-0")
PARTITIONS = (
    *SOUND, "torn-0", "zeros-0", "preallocated-0", "no-index-active-0", "crc-old-rp0-0", "lost-first-segment-0",
)  # fmt: skip
USER = 65534
BLOCKED = {"crc-old-rp0-0", "lost-first-segment-0"}


@pytest.fixture
def killed(golden: Unpacked, tmp_path: Path) -> Path:
    """A log directory of a killed 4.3.1, whose partitions were damaged in different ways."""
    return some_of(golden, "crash-4.3.1", PARTITIONS, tmp_path / "disk" / "data")


def logs(root: Path) -> dict[str, bytes]:
    return {
        str(log.relative_to(root)): log.read_bytes()
        for log in root.glob("*/*.log")
        if log.stat().st_size
    }


def test_it_does_what_loses_nothing_beyond_the_broker_s_own_recovery(killed: Path) -> None:
    before = predict_start(LocalExecutor(1), [killed], "4.3")
    show = Events()
    result = recover(killed, show=show)
    assert result.found is not None
    after = {
        p.partition_dir: p for p in predict_start(LocalExecutor(1), [killed], "4.3").partitions
    }
    assert (result.exit_code, result.start) == (0, "yes")
    assert result.found["recovered"] == len(PARTITIONS) - len(BLOCKED)
    left = {row["partition_dir"] for row in result.found["left_partitions"]}
    for was in before.partitions:
        now = after[was.partition_dir]
        ends = (was.log_start_offset, was.log_end_offset, was.outcome)
        assert (now.log_start_offset, now.log_end_offset, now.outcome) == ends, was.partition_dir
        if was.partition_dir not in left:
            assert sum(one.log_bytes for one in now.recovered) == 0, was.partition_dir
    assert {"estimated", "copied", "predicted"} <= set(show.names())


def test_what_the_broker_would_delete_is_copied_once_and_kept(killed: Path) -> None:
    result = recover(killed)
    assert result.found is not None and result.found["copied_bytes"] > 0
    [kept] = kept_runs([str(killed)], None)
    assert "copies" in kept.keep
    copies = list(kept.readable.rglob("copy.json"))
    assert copies
    again = recover(killed)
    assert again.found is not None and again.found["copied_bytes"] == 0
    assert [one.folder for one in kept_runs([str(killed)], None)] == [kept.folder]


@pytest.mark.parametrize("noted", [True, False])
def test_the_copies_of_a_killed_recovery_are_kept(
    killed: Path, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    """It is killed when it has copied. Earlier releases noted only afterwards what they keep."""
    real = recovering.look_and_plan

    def looking(stages: Any, units: Any, policy: Any, options: Any) -> Any:
        planned = real(stages, units, policy, options)
        if options.copy_readable:
            raise KeyboardInterrupt
        return planned

    with monkeypatch.context() as patched:
        patched.setattr(recovering, "look_and_plan", looking)
        if not noted:
            patched.setattr(recovering, "keep", lambda run, why, _area: run._replace(keep=why))
        with pytest.raises(KeyboardInterrupt):
            recover(killed)
    [kept] = kept_runs([str(killed)], None)
    assert ("copies" in kept.keep) == noted
    found = recover(killed).found
    assert found is not None and found["copied_bytes"] == 0
    (killed / paths.CLEAN_SHUTDOWN).touch()
    recover(killed, made_ms=1_900_000_000_000)
    assert list(kept.readable.rglob("copy.json"))


def test_a_recovery_that_copied_nothing_is_not_kept(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recovering.look_and_plan

    def looking(stages: Any, units: Any, policy: Any, options: Any) -> Any:
        if options.copy_readable:
            raise StorageFailed("the disk is full", path=killed)
        return real(stages, units, policy, options)

    monkeypatch.setattr(recovering, "look_and_plan", looking)
    recover(killed)
    [kept] = kept_runs([str(killed)], None)
    assert kept.keep == ""


def test_without_room_torn_tails_are_cut_without_undo(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for all but copies of tails: what holds no whole batch is cut in place."""
    monkeypatch.setattr(
        "kafkats.flow.recovering.room_of",
        lambda plan: [Room(str(killed), sum(disks._tails(plan.items).values()), 0)],
    )
    shutil.copytree(killed, roomy := tmp_path / "roomy" / "disk" / "data")
    before, show = logs(killed), Events()
    told = recover(killed, show=show).found
    monkeypatch.undo()
    with_room = recover(roomy).found
    assert told is not None and with_room is not None
    assert told["recovered"] == with_room["recovered"] == len(PARTITIONS) - len(BLOCKED)
    assert logs(killed) == logs(roomy)
    [cut] = [one for one in show.told if one["event"] == "cut"]
    changed = {name.split("/")[0] for name, data in logs(killed).items() if before[name] != data}
    assert {Path(one).name for one in cut["partitions"]} == changed
    [kept] = [one for one in kept_runs([str(killed)], None) if one.run.exists()]
    assert not list(kept.run.rglob("*.log"))


def test_without_room_a_log_whose_cut_may_hold_a_batch_stays(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.flow.recovering.room_of", lambda _plan: [Room(str(killed), 1, 0)])
    monkeypatch.setattr("kafkats.recovery.cutting.HARMLESS", ())
    before = logs(killed)
    found = recover(killed).found
    assert found is not None and found["recovered"] == 0
    assert logs(killed) == before


def test_a_second_recovery_finds_nothing_to_do(killed: Path) -> None:
    recover(killed)
    state = {path: path.stat().st_mtime_ns for path in killed.rglob("*") if path.is_file()}
    recover(killed)
    assert {path: path.stat().st_mtime_ns for path in killed.rglob("*") if path.is_file()} == state


def test_blocked_partitions_stay_as_they_are(killed: Path) -> None:
    before = logs(killed)
    result = recover(killed)
    assert result.found is not None
    left = {row["partition_dir"] for row in result.found["left_partitions"]}
    assert left == BLOCKED
    changed = {name.split("/")[0] for name, data in logs(killed).items() if before[name] != data}
    assert not changed & left


def test_a_linked_partition_is_left_to_the_broker(killed: Path, tmp_path: Path) -> None:
    shutil.move(killed / "few-bytes-0", tmp_path / "few-bytes-0")
    (killed / "few-bytes-0").symlink_to(tmp_path / "few-bytes-0")
    found = recover(killed).found
    assert found is not None
    assert found["recovered"] + found["left"] == found["partitions"] == len(PARTITIONS)
    whys = {row["partition_dir"]: row["why"] for row in found["left_partitions"]}
    assert "symbolic link" in whys["few-bytes-0"]


def test_without_time_all_is_left_to_the_broker(killed: Path) -> None:
    before = logs(killed)
    result = recover(killed, within=1)
    assert result.found is not None
    assert (result.exit_code, result.found["recovered"]) == (0, 0)
    assert {row["why"] for row in result.found["left_partitions"]} == {"the time was up"}
    assert logs(killed) == before


def test_a_running_broker_is_left_alone(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = logs(killed)
    state = lock_state(killed)._replace(state="held")
    monkeypatch.setattr("kafkats.recovery.root.lock_state", lambda _root: state)
    show = Events()
    assert recover(killed, show=show).exit_code == 0
    assert "a-broker-runs" in show.names()
    assert logs(killed) == before


def test_the_lock_keeps_a_broker_out_meanwhile(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    real = recovering.look_and_plan

    def looking(*words: Any) -> Any:
        pid = os.fork()
        if pid == 0:
            os._exit({"shared": 0}.get(lock_state(killed).state, 1))
        states.append(os.waitpid(pid, 0)[1])
        return real(*words)

    monkeypatch.setattr(recovering, "look_and_plan", looking)
    recover(killed)
    assert states and set(states) == {0}
    assert lock_state(killed).state != "shared"


HOLDING = """
import sys, time
from contextlib import nullcontext
from kafkats.flow.waiting import alone
from kafkats.logdir.lock import hold_shared
root, recovers = sys.argv[1], sys.argv[2] == "recovers"
with alone([root], 1e12) if recovers else nullcontext(), hold_shared(root, False):
    print("held", flush=True)
    time.sleep(1) if recovers else sys.stdin.read()
"""


@contextmanager
def holding(root: Path, does: str) -> Generator[subprocess.Popen[bytes]]:
    """Another process that works on a log directory: a recovery, which ends soon, or other work."""
    words = [sys.executable, "-c", HOLDING, str(root), does]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        yield process


@pytest.mark.parametrize("placed", [False, True])
def test_a_second_recovery_waits_for_the_first(killed: Path, placed: bool, tmp_path: Path) -> None:
    """Also one that names another place for its work area."""
    with holding(killed, "recovers") as first:
        result = recover(killed, place=tmp_path if placed else None)
        assert first.poll() is not None
    assert result.found is not None
    assert result.found["recovered"] == len(PARTITIONS) - len(BLOCKED)


def test_other_work_on_a_log_directory_is_left_alone(killed: Path) -> None:
    run = new_run(work_area(killed), 1_800_000_000_000, 0)
    events = Events()
    with holding(killed, "works"):
        result = recover(killed, show=events)
    assert "kafkats-works" in events.names()
    assert result.found is not None and not result.found["clean"]
    assert run.folder.exists()  # it may be that other work's


def test_a_clean_stop_needs_nothing(killed: Path) -> None:
    (killed / paths.CLEAN_SHUTDOWN).touch()
    before = logs(killed)
    result = recover(killed)
    assert result.found is not None
    assert (result.found["clean"], result.found["recovered"], logs(killed)) == (True, 0, before)


def test_harmless_old_bytes_are_purged_at_the_next_clean_start(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, "crash-4.3.1", SOUND, tmp_path / "disk" / "data")
    assert recover(root).exit_code == 0
    [kept] = kept_runs([str(root)], None)
    assert kept.keep == ""
    (root / paths.CLEAN_SHUTDOWN).touch()
    show = Events()
    recover(root, show=show)
    assert "purged" in show.names() and not kept.folder.exists()


def test_a_log_directory_that_the_broker_leaves_out_has_not_stopped_cleanly(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, "crash-4.3.1", SOUND, tmp_path / "disk" / "data")
    recover(root)
    (root / paths.RECOVERY_POINT).write_text("garbage")
    found = recover(root, release="2.8.2").found
    [kept] = kept_runs([str(root)], None)
    assert (found is not None and found["clean"], kept.keep) == (False, "")


def test_a_cut_below_the_high_watermark_is_kept_until_a_person_purges_it(
    golden: Unpacked, tmp_path: Path
) -> None:
    killed = some_of(golden, "crash-4.3.1", ["torn-0"], tmp_path / "disk" / "data")
    recover(killed)
    [kept] = kept_runs([str(killed)], None)
    assert "below the high watermark" in kept.keep
    (killed / paths.CLEAN_SHUTDOWN).touch()
    recover(killed, made_ms=1_900_000_000_000)
    assert kept.run.is_dir()


def test_old_bytes_are_purged_by_age(golden: Unpacked, tmp_path: Path) -> None:
    killed = some_of(golden, "crash-4.3.1", SOUND, tmp_path / "disk" / "data")
    recover(killed)
    [kept] = kept_runs([str(killed)], None)
    recover(killed, made_ms=1_800_000_000_000 + 6 * 86_400_000)
    assert kept.folder.exists()
    recover(killed, made_ms=1_800_000_000_000 + 8 * 86_400_000)
    assert not kept.folder.exists()


def test_a_lost_disk_holds_the_start(golden: Unpacked, killed: Path, tmp_path: Path) -> None:
    other = some_of(golden, "crash-4.3.1", ["garbage-0"], tmp_path / "other" / "data")
    assert recover(killed, other, record=tmp_path / "records").exit_code == 0
    assert (tmp_path / "records" / "recover.json").exists()
    for name in os.listdir(other):
        path = other / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    held = recover(killed, other)
    assert (held.exit_code, held.start) == (3, "no") and held.found is not None
    assert [(one["kind"], one["holds"]) for one in held.found["findings"] if one["holds"]] == [
        ("emptied", True)
    ]
    os.rmdir(other)
    held = recover(killed, other)
    assert held.exit_code == 3 and held.found is not None
    assert held.found["findings"][0]["kind"] == "absent"
    assert recover(killed, other, hold=["none"]).exit_code == 0
    records = [*tmp_path.rglob("recover.json")]
    assert len(records) == 3
    for record in records:
        record.unlink()
    assert recover(killed, other).exit_code == 0


def test_another_node_s_disk_holds_the_start(killed: Path) -> None:
    before = logs(killed)
    assert recover(killed, node_id=99).exit_code == 3
    assert logs(killed) == before
    assert recover(killed, node_id=99, hold=["lacks-partitions"]).exit_code == 0


def test_a_partition_that_is_gone_holds_the_start(killed: Path) -> None:
    shutil.rmtree(killed / "untouched-0")
    result = recover(killed)
    assert result.exit_code == 3 and result.found is not None
    [finding] = [one for one in result.found["findings"] if one["holds"]]
    assert (finding["kind"], "untouched-0" in finding["reason"]) == ("lacks-partitions", True)


def test_losses_hold_only_where_they_are_named(killed: Path) -> None:
    result = recover(killed, hold=["default", "loses-records"])
    assert result.exit_code == 3 and result.found is not None
    assert result.found["recovered"] > 0
    assert recover(killed).exit_code == 0


def leave_all(loads: Any, *_: Any) -> Choice:
    return Choice((), tuple(loads), 0.0, 0.0, 0.0)


def test_losses_of_partitions_that_are_left_hold_too(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of torn-header-0 tells what it loses; that of torn-0 does not, so it is read."""
    names = [*SOUND, "torn-0", "torn-header-0"]
    root = some_of(golden, "crash-4.3.1", names, tmp_path / "disk" / "data")
    expected = recover(root, hold=["loses-records"]).found
    shutil.rmtree(tmp_path / "disk")
    some_of(golden, "crash-4.3.1", names, root)
    monkeypatch.setattr(recovering, "choose", leave_all)
    show = Events()
    result = recover(root, hold=["loses-records"], show=show)
    assert result.exit_code == 3 and result.found is not None and expected is not None
    held = [{Path(f["log_dir"]).name for f in one["findings"]} for one in (expected, result.found)]
    assert held[0] == held[1] == {"torn-0", "torn-header-0"}
    assert "not-judged" not in show.names()
    assert recover(root, hold=["none"]).exit_code == 0


@pytest.mark.parametrize(
    ("cut", "lacks"), [(50, "offset 159 is"), (2000, "offsets 149 to 159 are")]
)
def test_losses_after_a_clean_stop_hold_where_they_are_named(
    golden: Unpacked, tmp_path: Path, cut: int, lacks: str
) -> None:
    """The end of a log that ends in its last batch does not tell it: the last segment is read."""
    shutil.copytree(golden("matrix-4.3.1-v2", "data"), root := tmp_path / "disk" / "data")
    (root / paths.CLEAN_SHUTDOWN).touch()
    show = Events()
    assert recover(root, hold=["loses-records"], show=show).exit_code == 0
    log = root / "snappy-lat-0" / paths.segment_file(111)
    log.write_bytes(log.read_bytes()[:-cut])
    result = recover(root, hold=["loses-records"], show=show)
    assert result.exit_code == 3 and result.found is not None
    [finding] = result.found["findings"]
    assert Path(finding["log_dir"]).name == "snappy-lat-0" and lacks in finding["reason"]
    assert "not-judged" not in show.names()
    assert recover(root).exit_code == 0
    recover(root, hold=["loses-records"], within=1, show=show)
    assert (show.told[-1]["event"], show.told[-1]["partitions"]) == ("not-judged", 10)


def test_partitions_that_could_not_be_judged_are_told(killed: Path) -> None:
    show = Events()
    recover(killed, hold=["loses-records"], within=1, show=show)
    [told] = [one for one in show.told if one["event"] == "not-judged"]
    assert (told["level"], told["partitions"]) == ("warning", len(PARTITIONS))
    show = Events()
    recover(killed, within=1, show=show)
    assert "not-judged" not in show.names()


@pytest.mark.parametrize("how", ["left", "no place", "clean"])
def test_a_start_that_is_to_be_predicted_is_however_many_partitions_there_are(
    killed: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (killed / "untouched-0" / "not-a-number.log").write_bytes(b"x")
    monkeypatch.setattr("kafkats.flow.verbs.recover._LOOK_AGAIN", 0.0)
    monkeypatch.setattr(recovering, "choose", leave_all)
    if how == "no place":
        (killed.parent / ".kafkats").touch()
    if how == "clean":
        (killed / paths.CLEAN_SHUTDOWN).touch()
    show = Events()
    result = recover(killed, hold=["will-not-start"], show=show)
    assert result.exit_code == 3 and "predicted" in show.names()


def test_a_prediction_for_which_the_time_is_too_short_is_told(killed: Path) -> None:
    show = Events()
    assert recover(killed, hold=["will-not-start"], within=1, show=show).exit_code == 0
    [told] = [one for one in show.told if one["event"] == "not-predicted"]
    assert told["level"] == "warning"
    show = Events()
    recover(killed, within=1, show=show)
    assert not {"predicted", "not-predicted"} & {*show.names()}


def test_one_slice_that_fails_leaves_its_partitions_to_the_broker(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageFailed("the disk is gone", path=killed)

    monkeypatch.setattr("kafkats.flow.recovering.write_plan", fail)
    before = logs(killed)
    show = Events()
    result = recover(killed, show=show)
    assert result.found is not None
    assert (result.exit_code, result.found["recovered"], logs(killed)) == (0, 0, before)
    assert "failed" in show.names() and result.found["failed"]


def test_time_that_is_up_credits_what_is_finished(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that stops a run is there from the third partition on, as at the end of the time."""
    from kafkats.flow import apply as module

    real, begun = module._apply, []

    def applying(work: Any) -> Any:
        begun.append(work.partition_dir)
        if len(begun) == 3:
            Path(work.stop_file).write_text("the time was up")
        return real(work)

    monkeypatch.setattr(module, "_apply", applying)
    points = read_offsets(killed / paths.RECOVERY_POINT)
    result = recover(killed)
    raised = {
        str(p): end
        for p, end in read_offsets(killed / paths.RECOVERY_POINT).items()
        if points.get(p) != end
    }
    assert result.found is not None and result.found["recovered"] == 3
    assert {*raised} <= {*begun} and len(raised) >= 2
    for name, end in raised.items():
        assert (killed / name / paths.segment_file(end)).stat().st_size == 0


def test_time_that_is_up_credits_nothing_that_it_has_not_reached(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker rolled untouched-0 and could not append: its last segment is as after a recovery."""
    from kafkats.flow import apply as module

    well = PartitionName("untouched", 0, "")
    (killed / str(well) / paths.segment_file(100)).touch()
    real = module._apply

    def applying(work: Any) -> Any:
        Path(work.stop_file).write_text("the time was up")
        return real(work)

    monkeypatch.setattr(module, "_apply", applying)
    points = read_offsets(killed / paths.RECOVERY_POINT)
    found = recover(killed).found
    assert found is not None and found["recovered"] == 1
    assert str(well) in {row["partition_dir"] for row in found["left_partitions"]}
    assert points[well] != 100
    assert read_offsets(killed / paths.RECOVERY_POINT)[well] == points[well]


def test_a_time_of_centuries_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.extend([timeout] if timeout is not None else [])
            return super().wait(timeout)

    monkeypatch.setattr(threading, "Event", Event)
    with recovering._stopped_at(time.monotonic() + 1e14, [tmp_path / "stop"]):
        pass
    assert 0 < waits[0] <= threading.TIMEOUT_MAX


def test_a_stop_counts_also_before_its_run_is_opened(tmp_path: Path) -> None:
    """Opening a run makes its folder, and clears the stop of an earlier attempt."""
    file = tmp_path / "run" / "stopped"
    with recovering._stopped_at(time.monotonic(), [file]):
        time.sleep(0.05)
        file.parent.mkdir()
        for _ in range(2):
            until = time.monotonic() + 10
            while not file.exists() and time.monotonic() < until:
                time.sleep(0.01)
            file.unlink()


def test_a_plan_that_took_all_the_time_is_not_applied(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recovering.look_and_plan

    def slow(*words: Any) -> Any:
        planned = real(*words)
        time.sleep(4)
        return planned

    monkeypatch.setattr(recovering, "look_and_plan", slow)
    before = logs(killed)
    found = recover(killed, within=4000).found
    assert found is not None and (found["recovered"], found["runs"]) == (0, [])
    whys = {row["partition_dir"]: row["why"] for row in found["left_partitions"]}
    assert {whys[name] for name in SOUND} == {"the time was up"}
    assert logs(killed) == before


@pytest.mark.parametrize("name", ["", "area"])
def test_a_killed_recovery_is_finished_by_the_next(
    killed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from kafkats.logdir import changeset

    place = tmp_path / name if name else None
    if place:
        place.mkdir()

    class Killed(BaseException):
        pass

    real, count = changeset.drive, []

    def drive(*words: Any, **more: Any) -> Any:
        count.append(1)
        if len(count) == 4:
            raise Killed
        return real(*words, **more)

    monkeypatch.setattr(changeset, "drive", drive)
    with pytest.raises(Killed):
        recover(killed, place=place)
    monkeypatch.setattr(changeset, "drive", real)
    show = Events()
    result = recover(killed, show=show, place=place)
    assert "finishing" in show.names() and result.exit_code == 0
    [first, *_] = kept_runs([str(killed)], place)
    assert (first.run / "report.json").exists(), "the killed one has no result"
    for one in predict_start(LocalExecutor(1), [killed], "4.3").partitions:
        if one.partition_dir in SOUND:
            assert sum(r.log_bytes for r in one.recovered) == 0


def test_a_killed_recovery_that_is_kept_says_how_a_person_ends_it(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker has started since, so it cannot be finished. It has cut below the high watermark."""
    from kafkats.logdir import changeset

    root = some_of(golden, "crash-4.3.1", ["torn-0"], tmp_path / "disk" / "data")

    def drive(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(changeset, "drive", drive)
        with pytest.raises(KeyboardInterrupt):
            recover(root)
    [kept] = [one for one in kept_runs([str(root)], None) if one.keep]
    log = max((root / "torn-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-100])
    show = Events()
    found = recover(root, show=show).found
    [told] = [one for one in show.told if one["event"] == "not-finished"]
    assert found is not None and found["left_partitions"][0]["partition_dir"] == "torn-0"
    assert (told["level"], told["folder"], told["keep"]) == (
        "warning", str(kept.folder), kept.keep,
    )  # fmt: skip
    assert "torn-0" in told["error"]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(shlex.split(told["command"])[1:])
    show = Events()
    found = recover(root, show=show).found
    assert found is not None and found["recovered"] == 1
    assert "not-finished" not in show.names()


def test_a_purge_that_fails_on_one_disk_keeps_the_folder_of_its_run(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = [some_of(golden, "crash-4.3.1", [name], tmp_path / name / "data") for name in SOUND]
    meta = roots[1] / paths.META_PROPERTIES
    meta.write_text(meta.read_text().replace("directory.id=", "directory.id=other"))
    recover(*roots)
    folders = [next(kept_runs([str(root)], None)).folder for root in roots]
    real = ending.purge

    def purge(area: Any, *words: Any, **more: Any) -> Any:
        if area.root == roots[1]:
            raise StorageFailed("the disk does not answer", path=area.root)
        return real(area, *words, **more)

    monkeypatch.setattr(ending, "purge", purge)
    for root in roots:
        (root / paths.CLEAN_SHUTDOWN).touch()
    show = Events()
    recover(*roots, show=show)
    [told] = [one for one in show.told if one["event"] == "not-purged"]
    assert (told["level"], told["folder"]) == ("warning", str(folders[1]))
    assert str(roots[1]) in told["error"] and str(roots[0]) not in told["error"]
    assert [one.exists() for one in folders] == [False, True]
    monkeypatch.undo()
    recover(*roots, show=show)
    assert not folders[1].exists() and "purged" in show.names()


def test_a_disk_that_is_lost_after_a_kill_blocks_no_partition_of_another(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkats.logdir import changeset

    names = {"a": ["few-bytes-0"], "b": ["torn-0", "untouched-0"]}

    def made(disk: str) -> Path:
        root = some_of(golden, "crash-4.3.1", names[disk], tmp_path / disk / "data")
        meta = root / paths.META_PROPERTIES
        meta.write_text(meta.read_text().replace("directory.id=", f"directory.id={disk}"))
        return root

    roots, real = [made("a"), made("b")], changeset.drive

    def drive(place: Any, *words: Any, **more: Any) -> Any:
        if place.partition == "few-bytes-0":
            raise KeyboardInterrupt
        return real(place, *words, **more)

    with monkeypatch.context() as patched:
        patched.setattr(changeset, "drive", drive)
        with pytest.raises(KeyboardInterrupt):
            recover(*roots)
    assert list((tmp_path / "a").rglob("journal"))
    shutil.rmtree(tmp_path / "b")
    made("b")
    found = recover(*roots).found
    assert found is not None and (found["recovered"], found["left"]) == (3, 0)


def test_the_record_is_json_and_belongs_to_the_log_directory(killed: Path) -> None:
    recover(killed)
    record = killed.parent / ".kafkats" / "data" / "recover.json"
    entry = json.loads(record.read_text())["log_dirs"][str(killed)]
    assert entry["partitions"] == sum(
        (killed / name).is_dir() for name in os.listdir(killed) if name != "__cluster_metadata-0"
    )
    assert record.stat().st_uid == killed.stat().st_uid


@pytest.fixture
def of_another_user(golden: Unpacked) -> Generator[Path]:
    """A log directory that another user than root has, on a disk that this user has, too."""
    if os.geteuid() != 0:
        refuse_without("recovers the logs of another user")
    disk = Path(tempfile.mkdtemp())
    root = some_of(golden, "crash-4.3.1", ["few-bytes-0", "torn-0"], disk / "data")
    for path in (disk, *disk.rglob("*")):
        os.chown(path, USER, USER)
    disk.chmod(0o755)
    yield root
    shutil.rmtree(disk)


def test_root_follows_nothing_that_the_broker_s_user_lays(
    of_another_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (victim := tmp_path / "victim").write_text("of root")
    (foreign := tmp_path / "foreign").mkdir()
    laid: list[KeptRun] = []

    def making(*words: Any) -> KeptRun:
        kept = new_run(*words)
        laid.append(kept)
        if len(laid) == 1:
            with acting_as(USER, USER):
                kept.plan.symlink_to(foreign)
        else:
            with acting_as(USER, USER):
                kept.run.mkdir()
                (kept.run / f"run.json.{os.getpid()}.tmp").symlink_to(victim)
        return kept

    monkeypatch.setattr(recovering, "new_run", making)
    recover(of_another_user)
    result = recover(of_another_user)
    assert laid[1:] and result.found is not None
    assert (victim.read_text(), os.listdir(foreign)) == ("of root", [])


def test_root_leaves_the_broker_s_user_all_that_it_writes(
    of_another_user: Path, tmp_path: Path
) -> None:
    """Also a record in a folder of root, and after a first work area where only root may make it."""
    os.chown(of_another_user.parent, 0, 0)
    result = recover(of_another_user, record=tmp_path / "record")
    assert result.found is not None and result.found["recovered"] == 2, result.found
    assert (tmp_path / "record" / "recover.json").stat().st_uid == USER
    written = [*of_another_user.parent.rglob("*")]
    assert {path.lstat().st_uid for path in written} == {USER}
    assert any(path.name == "run.json" for path in written)


def test_another_user_s_log_directories_stay_as_they_are_beside_root_s(
    of_another_user: Path, killed: Path
) -> None:
    show = Events()
    result = recover(of_another_user, killed, show=show)
    assert result.found is not None and result.found["recovered"] == 0
    [left] = [one for one in show.told if one["event"] == "left-to-the-broker"]
    assert "another user" in left["error"]
