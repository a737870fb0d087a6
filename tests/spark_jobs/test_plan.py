"""The jobs on real directories: the same plan and the same bytes as the kafkats command, whatever gets lost on the way."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkats.execution.local import LocalExecutor
from kafkats.flow import applying, parting
from kafkats.flow.verbs import plan as plan_verb
from kafkats.plans.parts import PlanInParts, open_plan
from kafkats.plans.plan import read_plan
from kafkats.plans.run import read_actions
from pyspark_kafkats import execution
from pyspark_kafkats.execution import SparkExecutor
from tests.builders.directories import another_volume
from tests.golden import case, tree
from tests.spark_jobs.words import ROOT, job, options, rows_of

GOLDEN = case("matrix-4.3.1-v2")
LOST = ["none-ct-0/00000000000000000043.timeindex", "zstd-lat-0/00000000000000000000.timeindex"]
EMPTIED = ["lz4-ct-0/00000000000000000000.timeindex", "gzip-ct-0/00000000000000000000.index"]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory of a stopped 4.3.1 broker with four index files lost or emptied."""
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    GOLDEN.unpack("data", root)
    for name in LOST:
        (root / name).unlink()
    for name in EMPTIED:
        (root / name).write_bytes(b"")
    return root


def planned(
    executor: SparkExecutor, volume: Path, name: str = "plan", **more: Any
) -> dict[str, Any]:
    out = volume.parents[1] / name
    return job(executor, "plan", "rebuild", volume, "-o", out, *options(**more))


def applied(executor: SparkExecutor, plan: dict[str, Any]) -> dict[str, Any]:
    given = (plan["plan"], "--digest", plan["digest"], "--owner-stopped")
    return job(executor, "apply", *given)


def differing(root: Path) -> list[str]:
    """Files that are not as Kafka left them."""
    files = GOLDEN.files("data").items()
    return [
        p
        for p, (_, _, sha256) in files
        if sha256
        and (not (f := root / p).is_file() or hashlib.sha256(f.read_bytes()).hexdigest() != sha256)
    ]


def kafkats(*given: object) -> dict[str, Any]:
    """The command's own last word."""
    return dict(rows_of(*given)[-1]["summary"])


@pytest.mark.slow(1)
def test_the_same_plan_as_the_command(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    before = tree(volume)
    result = planned(executor, volume)
    assert result["totals"]["files"] == 3, "an empty .index on a whole segment is no defect"
    assert (
        kafkats("plan", "rebuild", volume, "-o", tmp_path / "other")["digest"] == result["digest"]
    )
    assert tree(volume) == before


@pytest.mark.slow(2)
def test_missing_records_are_told_and_left_alone_as_by_the_command(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    partition = volume / Path(LOST[0]).parent
    last = sorted(partition.glob("*.log"))[-1]
    for path in partition.glob(f"{last.stem}.*"):
        path.unlink()
    (partition / LOST[0].rpartition("/")[2]).unlink(missing_ok=True)
    found = job(executor, "verify", volume, "--report", tmp_path / "report")
    assert (found["exit_code"], found["worst"], found["kinds"]["missing-records"]) == (
        1,
        "danger",
        1,
    )
    theirs = kafkats("verify", volume)
    assert (theirs["kinds"], theirs["severities"]) == (found["kinds"], found["severities"])
    result = planned(executor, volume)
    items = read_plan(Path(result["plan"])).items.to_pylist()
    reasons = {row["reason"] for row in items if row["partition_dir"] == partition.name}
    assert len(reasons) == 1 and reasons.pop().startswith("records are missing: offset")
    assert result["totals"]["files"], "other partitions are planned for"
    assert (
        kafkats("plan", "rebuild", volume, "-o", tmp_path / "other")["digest"] == result["digest"]
    )
    given = planned(executor, volume, "given", accept_loss="offsets")
    assert given["totals"]["blocked"] < result["totals"]["blocked"]
    assert (
        result["exit_code"],
        planned(executor, volume, "going-on", go_on=True)["exit_code"],
    ) == (1, 0)


@pytest.mark.slow(1)
def test_an_interval_that_the_indexes_contradict_is_a_remark_as_of_the_command(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    setting = "index.interval.bytes=4096"
    [remark] = planned(executor, volume, config=[setting])["remarks"]
    assert "sparser" in remark
    assert kafkats("plan", "rebuild", volume, "-o", tmp_path / "other", "--config", setting)[
        "remarks"
    ] == [remark]
    assert planned(executor, volume, "true")["remarks"] == []


@pytest.mark.slow(1)
def test_apply_and_proof(executor: SparkExecutor, volume: Path, tmp_path: Path) -> None:
    result = planned(executor, volume, report=tmp_path / "before")
    assert result["seen"]["kinds"]["missing-index"] == 2
    done = applied(executor, result | {"digest": result["digest"][:12]})
    assert (done["outcomes"], done["exit_code"]) == ({"done": 3}, 0)
    assert differing(volume) == ["gzip-ct-0/00000000000000000000.index"]
    proof = (volume, "--of-plan", result["plan"], "--report", tmp_path / "after")
    assert job(executor, "verify", *proof)["equal"] == 3

    again = applied(executor, result)
    assert (again["outcomes"], again["exit_code"]) == ({"already": 3}, 0), (
        "a finished plan is a no-op that says so"
    )
    assert planned(executor, volume, "second")["totals"]["files"] == 0

    (volume / LOST[0]).write_bytes(bytes(12))
    wrong = job(executor, "verify", *proof)
    assert (wrong["equal"], wrong["exit_code"], wrong["not_equal"]) == (
        2,
        1,
        [str(volume / LOST[0])],
    )


@pytest.mark.slow(2)
@pytest.mark.parametrize("by", ["topic", "segment"])
def test_the_same_inventory_as_the_command(
    executor: SparkExecutor, volume: Path, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job(executor, "inventory", volume, "--by", by)
    ours = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [json.loads(line) for line in ours] == rows_of("inventory", volume, "--by", by)[
        : len(ours)
    ]
    assert ours


def test_several_volumes_are_one_plan(executor: SparkExecutor, volume: Path) -> None:
    second = volume.parents[1] / "other-broker" / "data"
    shutil.copytree(volume, second, copy_function=shutil.copy2)
    another_volume(second)
    out = volume.parents[1] / "plan"
    result = job(executor, "plan", "rebuild", second, volume, "-o", out)
    assert result["totals"]["files"] == 6
    assert {row["log_dir"] for row in read_plan(out).items.to_pylist()} == {
        str(volume),
        str(second),
    }


class Killed:
    """apply_partition, whose first call kills its process: before the change, or right after it."""

    def __init__(self, marker: Path, *, after: bool) -> None:
        self.marker = marker
        self.after = after

    def __call__(self, work: Any) -> Any:
        from kafkats.flow.apply import apply_partition

        if not self.after:
            self.die_once()
        rows = apply_partition(work)
        if self.after:
            self.die_once()
        return rows

    def die_once(self) -> None:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.examples(1)
@pytest.mark.parametrize("after", [False, True])
def test_a_killed_task_is_run_again(
    executor: SparkExecutor,
    volume: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    after: bool,
) -> None:
    result = planned(executor, volume)
    monkeypatch.setattr(applying, "apply_partition", Killed(tmp_path / "died", after=after))
    done = applied(executor, result)
    assert (tmp_path / "died").exists()
    assert sum(done["outcomes"].values()) == 3
    assert set(done["outcomes"]) <= {"done", "already"}
    assert differing(volume) == ["gzip-ct-0/00000000000000000000.index"]


@pytest.mark.slow(1)
def test_what_cannot_be_done_is_in_the_report(executor: SparkExecutor, volume: Path) -> None:
    result = planned(executor, volume)
    (volume / EMPTIED[0]).write_bytes(b"changed")
    plan = Path(result["plan"])
    done = applied(executor, result)
    assert done["outcomes"] == {"done": 2, "refused": 1}
    assert done["exit_code"] == 3
    rows = {
        row["partition_dir"]: row for row in read_actions(plan.with_name("plan.run")).to_pylist()
    }
    assert "changed" in rows["lz4-ct-0"]["error"]
    assert (volume / EMPTIED[0]).read_bytes() == b"changed"


def submit(java: dict[str, str], job: str, *given: object) -> tuple[int, dict[str, Any], str]:
    """A real spark-submit; exit code, result, everything it printed."""
    command = [
        "spark-submit",
        "--master",
        "local[2,4]",
        str(ROOT / "spark_jobs" / f"{job}.py"),
        *map(str, given),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=java)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("KAFKATS_RESULT ")]
    return (
        ran.returncode,
        json.loads(lines[-1].removeprefix("KAFKATS_RESULT ")),
        ran.stdout + ran.stderr,
    )


@pytest.mark.long(6)
def test_spark_submit_by_hand(java: dict[str, str], volume: Path, tmp_path: Path) -> None:
    code, result, said = submit(java, "verify", volume, "--report", tmp_path / "report")
    assert code == 1
    assert result["kinds"]["missing-index"] == 2
    partition, file = LOST[0].split("/")
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert (partition, file) in {(row["partition_dir"], row["file"]) for row in rows}
    assert (tmp_path / "report" / "segments.parquet").is_file()
    assert result["segments"] == 24
    assert result["rates"]["verify"]["units"] == result["rates"]["verify"]["of_units"] >= 24


@pytest.mark.slow(8)
def test_an_error_of_ours_is_one_line(java: dict[str, str], tmp_path: Path) -> None:
    code, result, said = submit(java, "apply", tmp_path / "nothing", "--digest", "12345678")
    assert code == 2
    assert result["kind"] == "CorruptPlan"
    assert "Traceback" not in said


@pytest.mark.slow(6)
@pytest.mark.parametrize("seen", [True, False], ids=["shared-folder", "no-shared-folder"])
def test_a_plan_in_parts_does_not_depend_on_the_number_of_tasks(
    executor: SparkExecutor, volume: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    for path in volume.glob("*-[cl]*t-0/*.timeindex"):
        path.unlink()
    for name, value in (("LARGE", 10), ("PART_SEGMENTS", 3), ("TABLE_ROWS", 10)):
        monkeypatch.setattr(parting, name, value)
    if not seen:  # tasks have a path that the driver does not know
        monkeypatch.setattr(
            plan_verb, "scratch_in", lambda _: nullcontext(volume.parents[1] / "none" / "here")
        )
    digests = set()
    for bins in (1, 2, 200):
        monkeypatch.setattr(execution, "pack", partial(_spread, bins=bins))
        plan = planned(executor, volume, f"plan-{bins}")
        digests.add(plan["digest"])
        assert isinstance(open_plan(Path(plan["plan"])), PlanInParts)
    with LocalExecutor(1) as local:
        digests.add(job(local, "plan", "rebuild", volume, "-o", volume.parents[1] / "p")["digest"])
    assert len(digests) == 1
    assert applied(executor, plan)["outcomes"] == {"done": plan["files"]}
    # of this partition no index is left from which its interval could be inferred
    assert {Path(name).parent.name for name in differing(volume)} == {"gzip-ct-0"}


def _spread(sizes: Sequence[int], *, slots: int, bins: int) -> list[list[int]]:
    """Spread units over bins, the last unit first."""
    numbers = range(len(sizes))[::-1]
    return [some for n in range(bins) if (some := list(numbers[n::bins]))]
