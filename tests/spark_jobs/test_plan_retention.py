"""The jobs of retention: the same plan as the kafkats command, the proof, and the end of the undo window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkats.cli import cli
from kafkats.config.reading import read_policy
from kafkats.errors import UsageError
from kafkats.formats import dispatch
from kafkats.formats.model import Record
from kafkats.inspect.inventory import inventory_units
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.plan import read_plan
from kafkats.plans.run import read_run
from kafkats.plans.units import list_units
from kafkats.rolling.plan import RollOptions, plan_roll
from pyspark_kafkats.execution import SparkExecutor
from tests.golden import case, retention_moment, retention_policy, tree
from tests.spark_jobs.words import job

ROOT = Path(__file__).parents[2]
GOLDEN = case("retention-4.3.1")
NOW = str(retention_moment(GOLDEN))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory of a stopped broker before its retention ran."""
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    return GOLDEN.unpack("before", root)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps(retention_policy(GOLDEN)))
    return path


def planned(
    executor: SparkExecutor, volume: Path, policy: Path, *given: object, name: str = "plan"
) -> dict[str, Any]:
    words = [
        "retain",
        volume,
        "--policy",
        policy,
        "--now",
        NOW,
        *given,
        "-o",
        volume.parents[1] / name,
    ]
    return job(executor, "plan", *words)


def applied(executor: SparkExecutor, plan: dict[str, Any], run: Path) -> dict[str, Any]:
    words = [plan["plan"], "--digest", plan["digest"], "--run", str(run), "--owner-stopped"]
    return job(executor, "apply", *words)


def proved(executor: SparkExecutor, plan: dict[str, Any], volume: Path) -> dict[str, Any]:
    return job(executor, "verify", volume, "--of-plan", plan["plan"])


def purged(executor: SparkExecutor, *given: object) -> dict[str, Any]:
    return job(executor, "purge", *given)


def command(*given: object) -> dict[str, Any]:
    """The kafkats command's last word."""
    ran = CliRunner().invoke(cli, [*map(str, given), "--json"])
    assert not ran.exit_code, ran.output
    return dict(json.loads(ran.stdout.splitlines()[-1])["summary"])


def logs(root: Path) -> dict[str, list[int]]:
    return {
        name: sorted(int(log.name.partition(".")[0]) for log in (root / name).glob("*.log"))
        for name in GOLDEN.info["retention"]
    }


LIMIT = 1_600_000_140_000
INSIDE = ["--inside-segments", "--before", str(LIMIT)]


@pytest.mark.examples(1)
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--last-segment"],
        ["--generation", "0.8"],
        ["--before", "2020-09-13T12:28:00Z", "--free", "20kB"],
        INSIDE,
    ],
)
def test_the_same_plan_as_the_command(
    executor: SparkExecutor, volume: Path, policy: Path, more: list[str]
) -> None:
    before = tree(volume)
    made = planned(executor, volume, policy, *more)
    other = volume.parents[1] / "other"
    said = command("plan", "retain", volume, "--policy", policy, "--now", NOW, *more, "-o", other)
    assert (said["digest"], said["segments"]) == (made["digest"], made["totals"]["segments"])
    assert said["segments"] > 0
    ours, theirs = (
        (folder / "retention.parquet").read_bytes() for folder in (Path(made["plan"]), other)
    )
    assert ours == theirs
    assert tree(volume) == before


def test_what_the_command_refuses(executor: SparkExecutor, volume: Path, policy: Path) -> None:
    with pytest.raises(UsageError, match="does not go with --free"):
        planned(executor, volume, policy, *INSIDE, "--free", "30kB")


def test_the_remarks_of_the_command(executor: SparkExecutor, volume: Path, policy: Path) -> None:
    given = json.loads(policy.read_text())
    given["topics"] = {"tmie-*": {}} | given["topics"]
    policy.write_text(json.dumps(given))
    export = volume.parents[1] / "topics.txt"
    export.write_text("Topic: time-all PartitionCount: 1 Configs: retention.ms=77\n")
    made = planned(executor, volume, policy, "--export", export)
    words = ("--policy", policy, "--now", NOW, "--export", export)
    assert (
        made["remarks"]
        == command("plan", "retain", volume, *words, "-o", volume.parents[1] / "other")["remarks"]
    )
    assert any("tmie-*" in remark for remark in made["remarks"])
    assert any("the export 77" in remark for remark in made["remarks"])
    out = volume.parents[1] / "roll"
    words = ["roll", volume, "--policy", policy, "--now", NOW, "--export", export, "-o", out]
    assert job(executor, "plan", *words)["remarks"] == made["remarks"]


def test_the_same_plan_to_roll(executor: SparkExecutor, volume: Path, policy: Path) -> None:
    policy.write_text(json.dumps({"topics": {"time-*": {"segment.ms": 60_000}}}))
    out = volume.parents[1] / "plan"
    words = ["roll", volume, "--policy", policy, "--now", NOW, "-o", out]
    made = job(executor, "plan", *words)
    facts = pa.Table.from_batches([inventory_units(list_units([volume]))], SEGMENTS)
    expected, due = plan_roll(facts, read_policy(policy), RollOptions(int(NOW)))
    assert made["digest"] == expected.digest
    assert made["totals"]["segments_added"] >= 2
    assert pq.read_table(out / "due.parquet").sort_by("partition_dir") == due.sort_by(
        "partition_dir"
    )


def test_from_plan_to_purge(
    executor: SparkExecutor, volume: Path, policy: Path, tmp_path: Path
) -> None:
    made = planned(executor, volume, policy, "--last-segment")
    done = applied(executor, made, tmp_path / "run")
    assert set(done["outcomes"]) <= {"done", "already"} and not done["exit_code"]
    expected = {name: told["segments_after"] for name, told in GOLDEN.info["retention"].items()}
    expected["start-offset-0"] = [0, 34, 68, 102]  # there a client deleted records meanwhile
    assert logs(volume) == expected
    said = proved(executor, made, volume)
    assert (said["equal"], said["exit_code"]) == (made["totals"]["files"], 0)

    run = read_run(tmp_path / "run")
    assert purged(executor, tmp_path / "run", "--older-than", "1h")["not_due"] == [
        str(tmp_path / "run")
    ]
    said = purged(executor, tmp_path / "run")
    assert said["runs"] == [str(tmp_path / "run")]
    assert said["freed_bytes"] >= made["totals"]["freed_bytes"], "whole blocks"
    assert (
        json.loads((tmp_path / "run" / "purge.json").read_text())["freed_bytes"]
        == said["freed_bytes"]
    )
    assert purged(executor, tmp_path / "run")["freed_bytes"] == 0, (
        "again: nothing is there any more"
    )
    assert run.operation == "retain"


def records(partition: Path) -> list[list[Record]]:
    """Batch by batch, by the plain decoders."""
    found = []
    for log in sorted(partition.glob("*.log")):
        data = log.read_bytes()
        found += [dispatch.records(data, batch) for batch in dispatch.batches(data)]
    return found


@pytest.mark.slow(1)
def test_expired_heads_go_and_come_back(
    executor: SparkExecutor, volume: Path, policy: Path, tmp_path: Path
) -> None:
    before = {name: records(volume / name) for name in GOLDEN.info["retention"]}
    files = {path: path.read_bytes() for path in volume.rglob("*") if path.is_file()}
    whole = planned(executor, volume, policy, "--before", LIMIT, name="whole")["totals"]
    made = planned(executor, volume, policy, *INSIDE)
    cut = {
        item["partition_dir"]
        for item in read_plan(Path(made["plan"])).items.to_pylist()
        if item["log"]
    }
    assert len(cut) == made["totals"]["heads"] >= 3
    assert made["totals"]["segments"] == whole["segments"] + len(cut)
    assert not applied(executor, made, tmp_path / "run")["exit_code"]
    for name, batches in before.items():
        now = records(volume / name)
        fresh = next(
            (n for n, one in enumerate(batches) if max(r.timestamp for r in one) >= LIMIT), 0
        )
        assert now == batches[fresh if name in cut else len(batches) - len(now) :]
        assert logs(volume)[name][0] == now[0][0].offset, "the log starts there"
    said = proved(executor, made, volume)
    assert (said["equal"], said["exit_code"]) == (made["totals"]["files"], 0)

    assert not job(executor, "undo", tmp_path / "run", "--by", "tests")["exit_code"]
    assert {
        path: path.read_bytes()
        for path in volume.rglob("*")
        if path.is_file() and path.name != ".lock"
    } == files
    again = planned(executor, volume, policy, *INSIDE, name="again")
    assert not applied(executor, again, tmp_path / "second")["exit_code"]
    assert purged(executor, tmp_path / "second")["freed_bytes"] >= again["totals"]["freed_bytes"]
    name = min(cut)
    (volume / name / f"{logs(volume)[name][0]:020}.log").unlink()
    assert proved(executor, again, volume)["exit_code"] == 1


@pytest.mark.slow(1)
def test_the_proof_can_fail(
    executor: SparkExecutor, volume: Path, policy: Path, tmp_path: Path
) -> None:
    made = planned(executor, volume, policy)
    applied(executor, made, tmp_path / "run")
    assert proved(executor, made, volume)["exit_code"] == 0
    (volume / "time-all-0" / "00000000000000000000.log").touch()
    (volume / "time-some-0" / "00000000000000000102.log").unlink()
    (volume / "size-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 33\n")
    said = proved(executor, made, volume)
    assert said["exit_code"] == 1
    assert sorted(said["not_equal"]) == [
        str(volume / path)
        for path in (
            "size-0/leader-epoch-checkpoint",
            "time-all-0/00000000000000000000.log",
            "time-some-0/00000000000000000102.log",
        )
    ]


@pytest.mark.slow(1)
def test_beyond_the_guard_is_a_plan_of_its_own(
    executor: SparkExecutor, volume: Path, policy: Path, tmp_path: Path
) -> None:
    given = json.loads(policy.read_text())
    given["topics"]["time-all"]["kafkats.guard.max.share"] = 0.3
    policy.write_text(json.dumps(given))
    made = planned(executor, volume, policy, "--beyond-guard", tmp_path / "beyond")
    assert made["over_guard"] == 3, "two, and the last one behind them"
    assert made["beyond"]["totals"]["segments"] == made["totals"]["segments"] + 2
    assert read_plan(tmp_path / "beyond").digest == made["beyond"]["digest"]
    assert (
        planned(executor, volume, policy, "--over-guard", name="again")["digest"]
        == made["beyond"]["digest"]
    )
    given["topics"]["time-all"].pop("kafkats.guard.max.share")
    policy.write_text(json.dumps(given))
    assert "beyond" not in planned(
        executor, volume, policy, "--beyond-guard", tmp_path / "none", name="third"
    )
    assert not (tmp_path / "none").exists()
