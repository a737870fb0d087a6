"""What is written, when it is refused, and how it is undone."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkats import paths
from kafkats.errors import CorruptPlan, Refused
from kafkats.execution.local import LocalExecutor
from kafkats.flow.apply import partition_works
from kafkats.flow.applying import purge, undo
from kafkats.flow.looking import LogStages
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.logdir.disk import DISK
from kafkats.logdir.root import LogDir, RootNames, read_root
from kafkats.logdir.snapshot import read_snapshot
from kafkats.paths import PartitionName
from kafkats.plans import units
from kafkats.plans.attempt import finish_run
from kafkats.plans.plan import Plan, make_plan
from kafkats.plans.run import begin_run, run_of
from kafkats.recovery import stage
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from kafkats.segment.reader import read_so_far
from tests.builders.certificates import message
from tests.builders.directories import contents
from tests.builders.operations import altered, applied_rows, undone
from tests.builders.partitions import write_indexes
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, policy_of, some_of

TORN, WELL, CORRUPT = "torn-0", "untouched-0", "crc-old-rp0-0"


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    return some_of(golden, CRASHED.name, (TORN, WELL, CORRUPT), tmp_path / "data")


def outcomes(plan: Plan) -> dict[str, set[str]]:
    """The outcomes by partition directory."""
    found: dict[str, set[str]] = {}
    for row in applied_rows(plan).to_pylist():
        found.setdefault(row["partition_dir"], set()).add(row["outcome"])
    return found


def run_in(plan: Plan, folder: Path) -> Path:
    """Apply a plan as a run with a folder."""
    begin_run(run_of(plan), folder)
    finish_run(folder, applied_rows(plan), {})
    return folder


def test_good_batches_behind_a_corrupt_one_stay(root: Path) -> None:
    plan = plan_of(root, CRASHED).plan
    before = contents(root / CORRUPT)
    (blocked,) = [row for row in plan.items.to_pylist() if row["action"] == "blocked"]
    assert blocked["partition_dir"] == CORRUPT and "--like-kafka" in blocked["reason"]
    assert plan.exit_code == 1
    points = read_offsets(root / paths.RECOVERY_POINT)
    assert set().union(*outcomes(plan).values()) == {"done"}
    assert contents(root / CORRUPT) == before
    after = read_offsets(root / paths.RECOVERY_POINT)
    corrupt = PartitionName("crc-old-rp0", 0, "")
    assert after[corrupt] == points[corrupt] == 0
    assert after[PartitionName("torn", 0, "")] == 97


def test_no_marker_is_written(root: Path) -> None:
    outcomes(plan_of(root, CRASHED, like_kafka=True).plan)
    assert not (root / paths.CLEAN_SHUTDOWN).exists()


def test_a_log_that_grew_since_the_plan_is_left_alone(root: Path) -> None:
    plan = plan_of(root, CRASHED).plan
    log = max((root / WELL).glob("*.log"))
    with log.open("ab") as file:
        file.write(bytes(7))
    before = contents(root / WELL)
    assert outcomes(plan)[WELL] == {"refused"}
    assert contents(root / WELL) == before


def test_no_recovery_point_is_raised_while_a_partition_is_not_recovered(root: Path) -> None:
    plan = plan_of(root, CRASHED).plan
    log = max((root / WELL).glob("*.log"))
    points = (root / paths.RECOVERY_POINT).read_bytes()
    last = log.read_bytes()
    log.write_bytes(last + bytes(7))
    found = outcomes(plan)
    assert found[TORN] == {"done"} and found["."] == {"refused"}
    assert (root / paths.RECOVERY_POINT).read_bytes() == points


@pytest.mark.parametrize("credit", [False, True])
def test_an_empty_last_segment_does_not_prove_that_its_partition_was_flushed(
    root: Path, monkeypatch: pytest.MonkeyPatch, credit: bool
) -> None:
    """A broker rolls, and cannot append: its last segment is as a recovery would leave it."""
    end = 100
    (root / WELL / paths.segment_file(end)).touch()
    units_ = list(units.list_units([root]))
    plan = look_and_plan(
        LogStages(LocalExecutor(1)), units_, policy_of(CRASHED), RecoverOptions(credit=credit)
    ).plan
    sync = DISK.sync_file

    def sync_file(path: Path) -> None:
        if path.parent.name == WELL and path.suffix == ".log":
            raise OSError(errno.EIO, "the disk does not take it")
        sync(path)

    monkeypatch.setattr(DISK, "sync_file", sync_file)
    points = read_offsets(root / paths.RECOVERY_POINT)
    found = outcomes(plan)
    assert (found[WELL], found[TORN]) == ({"failed"}, {"done"})
    after = read_offsets(root / paths.RECOVERY_POINT)
    well, torn = PartitionName("untouched", 0, ""), PartitionName("torn", 0, "")
    assert points[well] != end and after[well] == points[well]
    assert (found["."], after[torn]) == (({"done"}, 97) if credit else ({"refused"}, points[torn]))
    monkeypatch.undo()
    assert set().union(*outcomes(plan).values()) <= {"done", "already", "nothing"}
    if not credit:
        assert read_offsets(root / paths.RECOVERY_POINT)[well] == end


def test_apply_does_not_read_logs_without_producers(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, CRASHED.name, (), tmp_path / "data")
    log = root / "plain-0" / paths.segment_file(0, paths.LOG)
    log.parent.mkdir()
    log.write_bytes(b"".join(message(1, offset) for offset in range(100)))
    write_indexes(log, INDEX_INTERVAL_BYTES)
    plan = plan_of(root, CRASHED).plan
    assert "00000000000000000100.snapshot" in plan.items["file"].to_pylist()
    before = read_so_far()
    assert set().union(*outcomes(plan).values()) == {"done"}
    assert read_so_far() == before
    assert read_snapshot(log.with_name("00000000000000000100.snapshot")) == []


def test_the_checkpoints_are_read_once_for_all_partitions(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(root, CRASHED, like_kafka=True).plan
    reads: list[Path] = []

    def counted(path: Path, names: RootNames | None = None) -> LogDir:
        reads.append(path)
        return read_root(path, names)

    monkeypatch.setattr(stage, "read_root", counted)
    monkeypatch.setattr(units, "read_root", counted)
    assert set().union(*outcomes(plan).values()) == {"done"}
    assert len(reads) == 1
    partitions = [root / name for name in (TORN, WELL, CORRUPT)]
    assert len({unit.partition_dir for unit in units.list_units(partitions)}) == 3
    assert len(reads) == 2


def test_undo_restores_every_byte(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    plan = plan_of(root, CRASHED, like_kafka=True).plan
    folder = run_in(plan, tmp_path / "run")
    assert contents(root) != before
    assert undo(LocalExecutor(1), folder, holder="test", by="test").exit_code == 0
    assert contents(root) == before


def test_a_broker_that_was_killed_before_its_first_checkpoint(root: Path, tmp_path: Path) -> None:
    """It writes the first one half a minute after its start; until then it recovers everything."""
    (root / paths.RECOVERY_POINT).unlink()
    before = contents(root)
    plan = plan_of(root, CRASHED, like_kafka=True).plan
    folder = run_in(plan, tmp_path / "run")
    after = read_offsets(root / paths.RECOVERY_POINT)
    assert after[PartitionName("torn", 0, "")] == 97
    assert after[PartitionName("untouched", 0, "")] == 100
    meta, made = ((root / name).stat() for name in (paths.META_PROPERTIES, paths.RECOVERY_POINT))
    assert (made.st_mode, made.st_uid, made.st_gid) == (meta.st_mode, meta.st_uid, meta.st_gid)
    assert undo(LocalExecutor(1), folder, holder="test", by="test").exit_code == 0
    assert contents(root) == before


@pytest.mark.parametrize("file", [f"{TORN}/{97:020d}.log", paths.RECOVERY_POINT])
def test_undo_is_refused_as_a_whole_after_a_change(root: Path, tmp_path: Path, file: str) -> None:
    plan = plan_of(root, CRASHED).plan
    folder = run_in(plan, tmp_path / "run")
    with (root / file).open("ab") as out:
        out.write(b"x")
    after = contents(root)
    with pytest.raises(Refused, match="nothing was undone"):
        undo(LocalExecutor(1), folder, holder="test", by="test")
    assert contents(root) == after


def test_undo_says_that_the_run_was_purged(root: Path, tmp_path: Path) -> None:
    folder = run_in(plan_of(root, CRASHED).plan, tmp_path / "run")
    assert purge(LocalExecutor(1), folder).exit_code == 0
    with pytest.raises(Refused, match="the run was purged"):
        undo(LocalExecutor(1), folder, holder="test", by="test")


@pytest.mark.parametrize("raised", [True, False])
def test_undo_is_refused_beside_a_marker_that_has_come_since(
    root: Path, tmp_path: Path, raised: bool
) -> None:
    """The old logs end torn: a broker that believes the marker would give out offsets twice.

    Also if the recovery point is the log end already, so that the run has not raised it.
    """
    if not raised:
        points = dict.fromkeys(read_offsets(root / paths.RECOVERY_POINT), 97)
        (root / paths.RECOVERY_POINT).write_bytes(encode_offsets(points))
    folder = run_in(plan_of(root, CRASHED).plan, tmp_path / "run")
    (root / paths.CLEAN_SHUTDOWN).touch()
    after = contents(root)
    with pytest.raises(Refused, match="a new clean-shutdown marker"):
        undo(LocalExecutor(1), folder, holder="test", by="test")
    assert contents(root) == after
    (root / paths.CLEAN_SHUTDOWN).unlink()
    assert not undo(LocalExecutor(1), folder, holder="test", by="test").exit_code


def test_a_second_apply_changes_nothing(root: Path) -> None:
    plan = plan_of(root, CRASHED).plan
    outcomes(plan)
    after = contents(root)
    assert set().union(*outcomes(plan).values()) <= {"already", "nothing"}
    assert contents(root) == after


def test_the_cut_end_is_kept_until_purge(root: Path) -> None:
    log = max((root / TORN).glob("*.log"))
    inode, before = log.stat().st_ino, log.read_bytes()
    outcomes(plan_of(root, CRASHED).plan)
    after = log.read_bytes()
    assert log.stat().st_ino == inode and before.startswith(after) and after < before
    kept = [
        p.read_bytes() for p in root.parent.rglob(log.name) if p.parent.name.startswith("tail-")
    ]
    assert [after + tail for tail in kept] == [before.rstrip(b"\0")]


@pytest.fixture
def mount() -> Iterator[Path]:
    """A folder on another file system than tmp_path."""
    with TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


def test_a_mount_of_its_own(golden: Unpacked, mount: Path, tmp_path: Path) -> None:
    root = some_of(golden, CRASHED.name, (TORN, WELL), mount / "data")
    if root.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("one file system only")
    before = contents(root)
    plan = plan_of(root, CRASHED).plan
    assert set(applied_rows(plan, place=tmp_path)["outcome"].to_pylist()) == {"done"}
    assert plan_of(root, CRASHED).plan.items.num_rows == 0, "not all is recovered"
    assert all(path.is_file() for path in root.glob("*/*"))
    left = {row["outcome"] for row in undone(plan, place=tmp_path, wrote=True)}
    assert left == {"undone"} and contents(root) == before


def test_a_log_with_a_second_hard_link_is_copied(root: Path, tmp_path: Path) -> None:
    log = max((root / TORN).glob("*.log"))
    backup = tmp_path / "backup"
    backup.hardlink_to(log)
    before = backup.read_bytes()
    plan = plan_of(root, CRASHED).plan
    (row,) = [row for row in plan.items.to_pylist() if row["file"] == log.name and row["before"]]
    assert row["action"] == "replace" and "hard link" in row["reason"]
    outcomes(plan)
    assert backup.read_bytes() == before and len(log.read_bytes()) < len(before)


def test_a_plan_that_was_undone_before_its_first_change_can_be_made_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plan_of(root, CRASHED).plan

    def fail(*_: object) -> None:
        raise OSError(5, "no")

    with monkeypatch.context() as patched:
        patched.setattr("kafkats.logdir.changeset.keep_old", fail)
        assert "failed" in set().union(*outcomes(first).values())
    undone(first, wrote=False)
    second = plan_of(root, CRASHED).plan
    assert second.digest != first.digest
    assert set().union(*outcomes(second).values()) == {"done"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "recovery-point-offset-checkpoint", "action": "remove"},
        {"file": "partition.metadata", "action": "remove"},
        {"file": f"{5:020d}.log"},
        {"rule": "kip33"},
    ],
)
def test_items_of_no_recovery_are_refused(root: Path, wrong: dict[str, object]) -> None:
    plan = plan_of(root, CRASHED).plan
    logs = plan.items.filter(
        pc.and_(
            pc.ends_with(plan.items["file"], ".log"), pc.equal(plan.items["action"], "truncate")
        )
    )
    of_logs = make_plan("recover", {}, {}, pa.Table.from_batches(logs.to_batches()))
    with pytest.raises(CorruptPlan):
        partition_works(altered(of_logs, wrong), run_of(of_logs))
