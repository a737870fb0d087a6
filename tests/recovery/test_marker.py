"""A clean-shutdown marker beside a torn tail: when a plan removes it, and how undo restores it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.cli import main
from kafkats.errors import CorruptPlan, Refused
from kafkats.execution.local import LocalExecutor
from kafkats.flow.apply import partition_works
from kafkats.flow.applying import undo
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.operations import OPERATIONS
from kafkats.paths import PartitionName
from kafkats.plans.attempt import finish_run
from kafkats.plans.plan import Plan, make_plan, read_plan
from kafkats.plans.run import begin_run, run_of
from kafkats.plans.units import list_units
from kafkats.recovery.look import RecoverOptions
from kafkats.recovery.plan import look_and_plan
from tests.builders.directories import contents
from tests.builders.operations import applied_rows
from tests.golden import Unpacked, case
from tests.recovery.crashed import CRASHED, plan_of, policy_of, some_of

TORN = case("torn-append-4.3.1")
LOG = paths.segment_file(0, paths.LOG)
CORRUPT = "crc-old-rp0-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two logs that end torn at offset 27, beside a marker; all files say 30."""
    (tmp_path / "data").mkdir()
    return TORN.unpack("before", tmp_path / "data")


def marker_rows(plan: Plan) -> list[dict[str, object]]:
    return [row for row in plan.items.to_pylist() if row["file"] == paths.CLEAN_SHUTDOWN]


def others(plan: Plan) -> list[dict[str, object]]:
    return [row for row in plan.items.to_pylist() if row["file"] != paths.CLEAN_SHUTDOWN]


def blocked(plan: Plan) -> dict[str, str]:
    rows = plan.items.to_pylist()
    return {row["partition_dir"]: row["reason"] for row in rows if row["action"] == "blocked"}


def run_in(plan: Plan, folder: Path) -> Path:
    begin_run(run_of(plan), folder)
    finish_run(folder, applied_rows(plan), {})
    return folder


def looks(file: Path) -> tuple[object, ...]:
    st = file.stat()
    return file.read_bytes(), st.st_ino, st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns


def undone(folder: Path) -> int:
    return undo(LocalExecutor(1), folder, holder="test", by="test").exit_code


def sound(root: Path) -> None:
    """Add a partition with one good batch, without indexes and checkpoints."""
    whole = (root / "not-indexed-0" / LOG).read_bytes()
    (root / "sound-0").mkdir()
    (root / "sound-0" / LOG).write_bytes(whole[: int.from_bytes(whole[8:12], "big") + 12])


def test_the_plan_is_that_of_an_unclean_stop(root: Path) -> None:
    """Without the marker a broker recovers the whole log directory."""
    sound(root)
    plan = plan_of(root, TORN).plan
    (row,) = marker_rows(plan)
    assert (row["partition_dir"], row["action"]) == (".", "remove")
    assert "ISR and ELR" in str(row["reason"])
    (root / paths.CLEAN_SHUTDOWN).unlink()
    unclean = plan_of(root, TORN, accept=True).plan
    assert others(plan) == others(unclean)
    assert {str(row["partition_dir"]) for row in others(plan)} > {"sound-0"}


def test_the_marker_stays_where_nothing_names_an_offset_past_the_cut(root: Path) -> None:
    applied_rows(plan_of(root, TORN).plan)
    marks = root / paths.HIGH_WATERMARK  # all other files say 27 by now
    marks.write_bytes(encode_offsets(dict.fromkeys(read_offsets(marks), 27)))
    epoch = b'{"version":0,"brokerEpoch":3}'
    (root / paths.CLEAN_SHUTDOWN).write_bytes(epoch)
    log = root / "indexed-0" / paths.segment_file(27, paths.LOG)
    log.write_bytes(bytes(7) + b"\x1b\0\0\1")  # the beginning of a batch
    plan = plan_of(root, TORN).plan
    assert [row["action"] for row in others(plan) if row["file"] == log.name] == ["truncate"]
    assert not marker_rows(plan) and "markers_removed" not in plan.header["totals"]
    assert set(applied_rows(plan)["outcome"].to_pylist()) <= {"done", "nothing"}
    assert (root / paths.CLEAN_SHUTDOWN).read_bytes() == epoch
    assert log.stat().st_size == 0


@pytest.mark.parametrize(
    "option", [{}, {"accept": True}, {"like_kafka": True}], ids=["", "accepted", "like Kafka"]
)
def test_a_broker_would_lose_records_of_another_partition(
    golden: Unpacked, tmp_path: Path, option: dict[str, bool]
) -> None:
    """Beside the marker a broker keeps what lies behind a corrupt batch; without it, it does not."""
    root = some_of(golden, CRASHED.name, ("torn-0", CORRUPT), tmp_path / "data")
    points = root / paths.RECOVERY_POINT
    names = {PartitionName("torn", 0, ""): 98}
    points.write_bytes(encode_offsets({**read_offsets(points), **names}))
    (root / paths.CLEAN_SHUTDOWN).touch()
    before = contents(root)
    plan = plan_of(root, CRASHED, **option).plan
    if option.get("like_kafka"):
        assert len(marker_rows(plan)) == 1 and not blocked(plan)
        return
    assert not marker_rows(plan)
    reason = blocked(plan)["torn-0"]
    assert reason.startswith("records are missing: ") and f"recovers {CORRUPT}, too" in reason
    applied_rows(plan)
    after = contents(root)
    kept = [name for name in before if name.startswith(("torn-0/", ".kafka"))]
    assert [after[name] for name in kept] == [before[name] for name in kept]


def test_partitions_that_are_not_asked_for_are_left_to_the_broker(
    root: Path, tmp_path: Path
) -> None:
    """It must lose nothing in them for the marker's removal."""
    sound(root)
    plan = tmp_path / "plan"

    def planned(topic: str) -> tuple[object, list[dict[str, object]]]:
        shutil.rmtree(plan, ignore_errors=True)
        with pytest.raises(SystemExit) as ended:
            main(["plan", "recover", str(root), "-o", str(plan), "--topics", topic])
        return ended.value.code, read_plan(plan).items.to_pylist()

    code, (row,) = planned("indexed")
    assert (code, row["action"]) == (1, "blocked")
    assert "recovers not-indexed-0, too, which this plan does not" in str(row["reason"])
    shutil.rmtree(root / "not-indexed-0")
    code, rows = planned("indexed")
    assert code == 0 and paths.CLEAN_SHUTDOWN in {row["file"] for row in rows}
    assert {row["partition_dir"] for row in rows} == {".", "indexed-0"}


def test_the_marker_of_another_log_directory_stays(
    root: Path, golden: Unpacked, tmp_path: Path
) -> None:
    other = some_of(golden, CRASHED.name, ("untouched-0",), tmp_path / "other")
    (other / paths.CLEAN_SHUTDOWN).touch()
    stages, policy = LogStages(LocalExecutor(1)), policy_of(TORN)
    plan, alone = (
        look_and_plan(stages, list(list_units(roots)), policy, RecoverOptions()).plan
        for roots in ([other, root], [other])
    )
    assert [row["log_dir"] for row in marker_rows(plan)] == [str(root)]
    rows = plan.items.to_pylist()
    assert [row for row in rows if row["log_dir"] == str(other)] == alone.items.to_pylist()
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert (other / paths.CLEAN_SHUTDOWN).exists() and not (root / paths.CLEAN_SHUTDOWN).exists()


def test_a_corrupt_batch_that_is_cut_like_kafka_counts_too(
    golden: Unpacked, tmp_path: Path
) -> None:
    root = some_of(golden, CRASHED.name, ("crc-last-0",), tmp_path / "data")
    name = PartitionName("crc-last", 0, "")
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets({name: 100}))
    (root / paths.CLEAN_SHUTDOWN).touch()
    assert not marker_rows(plan_of(root, CRASHED).plan)
    plan = plan_of(root, CRASHED, like_kafka=True).plan
    assert len(marker_rows(plan)) == 1
    assert set(applied_rows(plan)["outcome"].to_pylist()) == {"done"}
    assert not (root / paths.CLEAN_SHUTDOWN).exists()


def test_a_marker_that_is_no_file_stays(root: Path) -> None:
    (root / paths.CLEAN_SHUTDOWN).unlink()
    (root / paths.CLEAN_SHUTDOWN).symlink_to(root / paths.META_PROPERTIES)
    plan = plan_of(root, TORN).plan
    assert not marker_rows(plan) and len(blocked(plan)) == 2
    assert all("remove it yourself" in reason for reason in blocked(plan).values())


def test_undo_restores_the_marker_with_its_epoch(root: Path, tmp_path: Path) -> None:
    marker = root / paths.CLEAN_SHUTDOWN
    marker.chmod(0o640)
    os.utime(marker, ns=(10**18, 10**18 + 7))
    files, before = contents(root), looks(marker)
    assert b"brokerEpoch" in marker.read_bytes()
    folder = run_in(plan_of(root, TORN).plan, tmp_path / "run")
    assert not marker.exists()
    assert undone(folder) == 0
    assert looks(marker) == before and contents(root) == files
    again = plan_of(root, TORN).plan
    assert set(applied_rows(again)["outcome"].to_pylist()) == {"done"}


def test_a_mount_of_its_own(tmp_path: Path) -> None:
    """The old marker is kept beside the live files, under a name that brokers do not read."""
    with TemporaryDirectory(dir="/dev/shm") as place:
        if Path(place).stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("one file system only")
        root = TORN.unpack("before", Path(place))
        marker = root / paths.CLEAN_SHUTDOWN
        files, before = contents(root), looks(marker)
        plan = plan_of(root, TORN).plan
        assert set(applied_rows(plan, place=tmp_path)["outcome"].to_pylist()) == {"done"}
        assert not marker.exists()
        assert plan_of(root, TORN).plan.items.num_rows == 0
        begin_run(run_of(plan, place=tmp_path), tmp_path / "run")
        assert undone(tmp_path / "run") == 0
        assert looks(marker) == before and contents(root) == files


def test_undo_is_refused_beside_a_new_marker(root: Path, tmp_path: Path) -> None:
    folder = run_in(plan_of(root, TORN).plan, tmp_path / "run")
    (root / paths.CLEAN_SHUTDOWN).write_bytes(b'{"version":0,"brokerEpoch":12}')
    after = contents(root)
    with pytest.raises(Refused, match="new clean-shutdown marker"):
        undone(folder)
    assert contents(root) == after


@pytest.mark.parametrize(
    "change",
    [Path.unlink, lambda marker: marker.write_bytes(marker.read_bytes()), None],
    ids=["gone", "written again", "a log has changed"],
)
def test_nothing_is_cut_unless_the_marker_is_removed(
    root: Path, change: Callable[[Path], object] | None
) -> None:
    """A broker that has started since the plan has removed the marker, or written it again."""
    plan = plan_of(root, TORN).plan
    if change is None:
        with (root / "indexed-0" / LOG).open("ab") as file:
            file.write(b"x")
    else:
        change(root / paths.CLEAN_SHUTDOWN)
    before = {name: files for name, files in contents(root).items() if "/" in name}
    rows = applied_rows(plan).to_pylist()
    now = contents(root)
    outcomes = {
        (row["partition_dir"], row["file"] == paths.CLEAN_SHUTDOWN): row["outcome"] for row in rows
    }
    if change is None:  # the stop is an unclean one then
        assert outcomes[".", True] == "done" and outcomes["indexed-0", False] == "refused"
        assert not (root / paths.CLEAN_SHUTDOWN).exists()
        assert outcomes["not-indexed-0", False] == "done"
    else:
        assert outcomes[".", True] == "refused"
        if (root / paths.CLEAN_SHUTDOWN).exists():
            assert {name: now[name] for name in before} == before


def test_a_run_is_shown_applied_proved_and_undone(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kafkats(*words: object, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        said = capsys.readouterr()
        assert ended.value.code == code, said.err + said.out
        return said.out + said.err

    plan, run = tmp_path / "plan", tmp_path / "plan.run"
    before = contents(root)
    assert "next: kafkats plan recover" in kafkats("preflight", root, "--kafka", "4.3", code=1)
    said = kafkats("plan", "recover", root, "-o", plan)
    assert "1 clean-shutdown marker removed" in said and "offsets 27 to 29 are missing" in said
    shown = kafkats("show", plan)
    assert "1 clean-shutdown marker removed" in shown and "it is not true of" in shown
    rows = [json.loads(line) for line in kafkats("show", plan, "--json").splitlines()]
    (row,) = [row for row in rows if row.get("file") == paths.CLEAN_SHUTDOWN]
    assert (row["partition_dir"], row["action"]) == (".", "remove")
    applied = kafkats("apply", plan, "--digest", "any", "--owner-stopped", "--json")
    rows = [json.loads(line) for line in applied.splitlines() if line.startswith("{")]
    (row,) = [row for row in rows if row.get("file") == paths.CLEAN_SHUTDOWN]
    assert (row["partition_dir"], row["outcome"]) == (".", "done")
    assert "already" in kafkats("apply", plan, "--digest", "any", "--owner-stopped", "--json")
    kafkats("verify", root, "--of-run", run)
    (root / paths.CLEAN_SHUTDOWN).touch()
    assert paths.CLEAN_SHUTDOWN in kafkats("verify", root, "--of-run", run, code=1)
    (root / paths.CLEAN_SHUTDOWN).unlink()
    kafkats("undo", run)
    assert contents(root) == before


def test_no_other_operation_removes_a_marker(root: Path) -> None:
    plan = plan_of(root, TORN).plan
    rows = pa.Table.from_pylist(marker_rows(plan), schema=plan.items.schema)
    for name in OPERATIONS:
        other = make_plan(name, {}, {}, rows)
        if name == "recover":
            assert len(partition_works(other, run_of(other))) == 1
            continue
        with pytest.raises(CorruptPlan):
            partition_works(other, run_of(other))
