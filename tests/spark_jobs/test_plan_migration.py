"""The jobs of a migration: the same plan, bytes, census and certificate as the kafkats command; undo, and when it is too late."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import Refused
from kafkats.migration.certificate import read_certificate
from kafkats.migration.ledger import append, read
from kafkats.plans.plan import read_plan
from kafkats.plans.run import read_actions
from pyspark_kafkats.execution import SparkExecutor
from tests.golden import case, tree
from tests.spark_jobs.words import job, options, rows_of

OLD = case("matrix-0.10.2.2-v0")
MIXED = case("upgrade-0.9-to-2.8")


def unpacked(root: Path, one: Any = OLD) -> Path:
    root.mkdir(parents=True)
    return Path(one.unpack("data", root))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A directory of a stopped broker, magic 0 alone."""
    return unpacked(tmp_path / "broker" / "data")


def planned(
    executor: SparkExecutor, volume: Path, name: str = "plan", **more: Any
) -> dict[str, Any]:
    out = volume.parents[1] / name
    given = options(**{"to_magic": 2} | more)
    return job(executor, "plan", "migrate", volume, "-o", out, *given)


def applied(executor: SparkExecutor, plan: dict[str, Any]) -> dict[str, Any]:
    given = (plan["plan"], "--digest", plan["digest"], "--owner-stopped", "--by", "tests")
    return job(executor, "apply", *given)


def certified(executor: SparkExecutor, volume: Path, **more: Any) -> dict[str, Any]:
    out = volume.parents[1] / "certificate"
    return job(executor, "certify", volume, "-o", out, *options(**more))


def undone(executor: SparkExecutor, run: str, **more: Any) -> dict[str, Any]:
    return job(executor, "undo", run, "--by", "tests", *options(**more))


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in root.rglob("*")
        if p.is_file()
    }


@pytest.mark.slow(5)
def test_the_same_plan_and_the_same_bytes_as_the_command(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    before = tree(volume)
    made = planned(executor, volume, report=tmp_path / "before")
    assert made["totals"]["segments"] == 7
    assert made["census"]["magic_batches"] == [137, 0, 0]
    other = rows_of("plan", "migrate", volume, "--to-magic", 2, "-o", tmp_path / "other")[-1][
        "summary"
    ]
    assert other["digest"] == made["digest"]
    theirs, ours = (
        read_table(folder / "forecast.parquet")
        for folder in (tmp_path / "other", tmp_path / "plan")
    )
    assert ours.drop_columns("seconds") == theirs.drop_columns("seconds")
    assert tree(volume) == before, "nothing was written"

    assert applied(executor, made)["outcomes"] == {"done": made["totals"]["files"]}
    by_spark = files(volume)
    assert undone(executor, str(tmp_path / "plan.run"))["exit_code"] == 0
    assert tree(volume).items() >= {k: v for k, v in before.items() if "/" in k}.items(), (
        "the very same files"
    )
    again = rows_of("plan", "migrate", volume, "--to-magic", 2, "-o", tmp_path / "again")[-1][
        "summary"
    ]
    rows_of("apply", tmp_path / "again", "--digest", again["digest"], "--owner-stopped")
    assert files(volume) == by_spark


def read_table(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


@pytest.mark.slow(1)
def test_both_parity_digests_are_in_the_report_and_what_was_written_is_proved(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    made = planned(executor, volume)
    done = applied(executor, made)
    logs = [
        row for row in read_actions(Path(done["run"])).to_pylist() if row["file"].endswith(".log")
    ]
    assert len(logs) == 7
    assert all(
        row["parity_before"].startswith("blake3:") and row["parity_before"] == row["parity_after"]
        for row in logs
    )
    assert sum(row["records"] for row in logs) == len(OLD.records())
    plan = Path(made["plan"])
    proof = certified(executor, volume, min_magic=2, of_plan=plan, report=tmp_path / "after")
    assert (proof["equal"], proof["not_equal"], proof["exit_code"]) == (
        made["totals"]["files"],
        [],
        0,
    )
    assert (proof["certified"], proof["exceptions"], proof["census"]["magic_bytes"][:2]) == (
        True,
        0,
        [0, 0],
    )

    log = volume / logs[0]["partition_dir"] / logs[0]["file"]
    log.write_bytes(log.read_bytes()[:-1])
    wrong = certified(executor, volume, min_magic=2, of_plan=plan)
    assert wrong["exit_code"] == 1
    assert str(log) in wrong["not_equal"]
    assert not wrong["certificate"]


@pytest.mark.slow(1)
def test_the_same_certificate_as_the_command_and_its_recheck(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    ours = certified(executor, volume, max_magic=0)
    rows_of("certify", volume, "--max-magic", 0, "-o", tmp_path / "theirs")
    assert read_certificate(tmp_path / "theirs").digest == ours["certificate_digest"]
    check = ("--check", ours["certificate"])
    assert job(executor, "certify", *check)["holds"]
    applied(executor, planned(executor, volume))
    later = job(executor, "certify", *check)
    assert (later["holds"], later["exit_code"]) == (False, 1)
    assert certified(executor, volume, max_magic=0)["exit_code"] == 1


@pytest.mark.slow(1)
def test_the_same_census_as_the_command(
    executor: SparkExecutor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = unpacked(tmp_path / "broker" / "data", MIXED)
    said = job(executor, "census", root, "--by", "topic", "--report", tmp_path / "report")
    ours = [
        json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")
    ]
    assert ours == rows_of("inventory", root, "--by", "format")[: len(ours)]
    assert all(said["census"]["magic_batches"]), "three formats in one directory"
    assert (tmp_path / "report" / "census.parquet").is_file()
    assert json.loads((tmp_path / "report" / "zero-copy.json").read_text())["topics"]


@pytest.mark.slow(2)
def test_phase_1_plans_for_strays_alone(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    fine = planned(
        executor, volume, "fine", to_magic=0, only_newer=True, certify=tmp_path / "fine-certificate"
    )
    assert (fine["certified"], fine["totals"]["files"]) == (True, 0)
    assert read_certificate(tmp_path / "fine-certificate").certified

    root = unpacked(tmp_path / "mixed" / "data", MIXED)
    with pytest.raises(Refused, match="--accept-loss"):
        planned(executor, root, "refused", to_magic=0, only_newer=True)
    found = planned(
        executor,
        root,
        "strays",
        to_magic=1,
        only_newer=True,
        accept_loss="all",
        certify=tmp_path / "no",
    )
    assert (found["certified"], (tmp_path / "no").exists()) == (False, False)
    strays = sorted({
        row["partition_dir"] for row in read_plan(Path(found["plan"])).items.to_pylist()
    })
    assert len(strays) == found["totals"]["partitions"]
    given = [root / partition for partition in strays]
    command = (
        "plan",
        "migrate",
        *given,
        "--to-magic",
        1,
        "--accept-loss",
        "all",
        "-o",
        tmp_path / "theirs",
    )
    assert rows_of(*command)[-1]["summary"]["digest"] == found["digest"]


@pytest.mark.slow(2)
def test_what_can_be_undone_is_not_planned_and_what_cannot_is(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    run = applied(executor, planned(executor, volume))["run"]
    back = {"to_magic": 0, "accept_loss": "all", "undo": [Path(run)]}
    first = planned(executor, volume, "first", **back)
    assert (first["undo"], first["plan"], first["totals"]["files"]) == ([run], run, 21)
    assert not (tmp_path / "first").exists()

    log = next(volume.glob("none-*/*.log"))
    stat = log.stat()
    log.write_bytes(log.read_bytes())  # the same bytes in the same file, but somebody was there
    assert log.stat().st_mtime_ns != stat.st_mtime_ns
    assert "undo" not in planned(executor, volume, "changed", **back)

    shutil.rmtree(volume.parent)
    unpacked(volume)
    run = applied(executor, planned(executor, volume, "again"))["run"]
    rows_of("purge", run)
    late = planned(executor, volume, "late", **back | {"undo": [Path(run)]})
    assert "undo" not in late
    assert late["totals"]["segments"] == 7
    assert applied(executor, late)["exit_code"] == 0
    assert certified(executor, volume, max_magic=0)["certified"]
    assert undone(executor, run)["exit_code"] == 3, "purged"


@pytest.mark.slow(1)
def test_undo_certifies_what_is_there_again(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    before = files(volume)
    run = applied(executor, planned(executor, volume))["run"]
    out = {
        "certify": [str(volume)],
        "max_magic": 0,
        "output": tmp_path / "c",
        "report": tmp_path / "after",
    }
    said = undone(executor, run, **out)
    assert (said["files"], said["certified"], said["census"]["magic_bytes"][2]) == (21, True, 0)
    assert files(volume) == before
    assert undone(executor, run, **out)["exit_code"] == 0, "again is no harm"


def test_the_ledger_is_told_by_who_does_it(
    executor: SparkExecutor, volume: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    begin = {"from_magic": 0, "to_magic": 2, "brokers": ["1"]}
    append(ledger, "begin", by="tests", now_ms=1, details=begin)
    steps = [
        ("attest", "1", "phase-1", {"text": "yes"}),
        ("certified", "1", "phase-1", {"max_magic": 0, "digest": "d"}),
    ]
    step = {"ledger": ledger, "broker": "1", "phase": "canary"}
    for event, broker, phase, details in steps:
        with pytest.raises(Refused):
            planned(executor, volume, "early", **step)
        append(ledger, event, by="tests", now_ms=1, broker=broker, phase=phase, details=details)
    run = applied(executor, planned(executor, volume, **step))["run"]
    assert undone(executor, run)["exit_code"] == 0
    told = [(entry.event, entry.details.get("folder")) for entry in read(ledger).entries][
        1 + len(steps) :
    ]
    assert told == [("started", run), ("converted", run), ("undone", run)]
