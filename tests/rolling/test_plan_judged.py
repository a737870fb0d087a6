"""Rolled and split directories, loaded by Kafka's own classes of two generations, after a clean stop and after a crash.

Needs Java and the jars, which `scripts/conformance` fetches; skipped where they are missing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conformance.judge import Judge
from kafkats.config.policy import Policy
from kafkats.flow.apply import apply_partition, partition_works, summarize
from kafkats.inspect.inventory import inventory_units
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.producers import snapshot_at
from kafkats.plans.facts import ACTIONS, SEGMENTS
from kafkats.plans.plan import Plan
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units
from kafkats.rolling.plan import RollOptions, plan_roll
from kafkats.split.parts import PARTS, SplitOptions, look
from kafkats.split.plan import plan_split
from tests.golden import case, partitions

JARS = Path(os.environ.get("KAFKATS_JARS", Path.home() / ".cache/kafkats/jars"))
VERSIONS = ("4.3.1", "2.8.2")
LONG_AGO = 1_500_000_000_000
"""No producer has expired by then."""

pytestmark = [
    pytest.mark.slow(0.4),
    pytest.mark.skipif(
        not (all((JARS / v).is_dir() for v in VERSIONS) and shutil.which("java")),
        reason="no Java, or no jars",
    ),
]


@pytest.fixture(scope="module", params=VERSIONS)
def judge(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    work = tmp_path_factory.mktemp("judge")
    with Judge(request.param, temporary=work, log=work / "judge.log") as ask:
        yield ask


def rolled(root: Path) -> Plan:
    segments = pa.Table.from_batches(
        [inventory_units([unit]) for unit in list_units([root])], schema=SEGMENTS
    )
    policy = Policy.model_validate({"defaults": {"segment.ms": 1}})
    return plan_roll(segments, policy, RollOptions(now_ms=time.time_ns() // 1_000_000))[0]


def cut(root: Path, options: SplitOptions) -> Plan:
    units = list(list_units([root]))
    parts = pa.Table.from_batches([look(unit, options) for unit in units], schema=PARTS)
    return plan_split(
        pa.Table.from_batches(
            [verify_unit(unit, VerifyOptions()) for unit in units], schema=SEGMENTS
        ),
        parts,
        options,
    )


def applied(made: Plan) -> None:
    works = partition_works(made, run_of(made))
    summary = summarize(
        pa.Table.from_batches([apply_partition(work) for work in works], schema=ACTIONS)
    )
    assert summary["exit_code"] == 0 and summary["outcomes"].get("done")


def loaded(judge: Judge, partition: Path, out: Path, *words: object) -> dict[str, Any]:
    answer = judge("load", partition, "--out", out, "--now", LONG_AGO, *words)
    assert "error" not in answer, answer
    shutil.rmtree(out)
    return answer


def settings(name: str, partition: Path) -> list[str]:
    config = case(name).topic_config(partition.name)
    kept = {
        "segment.bytes",
        "internal.segment.bytes",
        "segment.index.bytes",
        "index.interval.bytes",
        "cleanup.policy",
    }
    return [
        word
        for key, value in config.items()
        if key in kept
        for word in ("--config", f"{key}={value}")
    ]


WHOLE = ("log_start_offset", "log_end_offset", "active_producers", "first_unstable_offset")
CASES = (
    "rolling-4.3.1",
    "rolling-2.8.2",
    "transactions-4.3.1",
    "compaction-2.8.2",
    "upgrade-0.9-to-2.8",
    "matrix-2.8.2-v1",
)
DONE = {"rolled": None, "cut": SplitOptions("rolled", segment_bytes=900)}


@pytest.mark.parametrize("done", DONE)
@pytest.mark.parametrize("name", CASES)
def test_brokers_load_the_same_log(judge: Judge, name: str, done: str, tmp_path: Path) -> None:
    root, before = tmp_path / "data", tmp_path / "before"
    for folder in (root, before):
        folder.mkdir()
        case(name).unpack(case(name).states[-1], folder)
    options = DONE[done]
    applied(cut(root, options) if options else rolled(root))
    compared = producing = 0
    for partition in partitions(root):
        if partition.name.startswith("__"):
            continue
        old = before / partition.name
        bases = sorted(int(log.stem) for log in partition.glob("*.log"))
        if bases == sorted(int(log.stem) for log in old.glob("*.log")):
            continue
        for clean in ("true", "false"):
            words = ["--clean", clean, *settings(name, partition)]
            ours = loaded(judge, partition, tmp_path / "out", *words)
            theirs = loaded(judge, old, tmp_path / "out", *words)
            assert {key: ours.get(key) for key in WHOLE} == {
                key: theirs.get(key) for key in WHOLE
            }, partition.name
            assert [segment["base_offset"] for segment in ours["segments"]] == bases
            assert sum(segment["size"] for segment in ours["segments"]) == sum(
                s["size"] for s in theirs["segments"]
            )
            if clean == "true":
                untouched(partition, ours)
            end = f"{ours['log_end_offset']:020d}.snapshot"
            assert ours["files"][end]["size"] == theirs["files"][end]["size"]
            compared += 1
            producing += ours["files"][end]["size"] > 10
    assert compared >= 8 or name.startswith(("trans", "upgrade"))
    assert producing or not name.startswith("trans")


def untouched(partition: Path, answer: dict[str, Any]) -> None:
    """After a clean stop a broker takes the files as they are; snapshots too old for its producers it may remove."""
    for path in partition.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            assert answer["files"][path.name]["size"] == path.stat().st_size, path.name


def test_a_recovering_broker_writes_the_same_files(judge: Judge, tmp_path: Path) -> None:
    """Without any snapshot, after a crash: Kafka replays the log and writes those of the last two segments and of the log end,
    and rebuilds every index of the new families."""
    root = tmp_path / "data"
    root.mkdir()
    case("transactions-4.3.1").unpack("data", root)
    applied(cut(root, SplitOptions("rolled", segment_bytes=700)))
    partition, bare = root / "txn-0", tmp_path / "txn-0"
    shutil.copytree(partition, bare, ignore=shutil.ignore_patterns("*.snapshot"))
    words = settings("transactions-4.3.1", partition)
    answer = judge(
        "load", bare, "--out", tmp_path / "out", "--now", LONG_AGO, "--clean", "false", *words
    )
    assert "error" not in answer
    found = {
        path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    written = sorted(name for name in found if name.endswith(".snapshot"))
    assert len(written) >= 3
    compared = 0
    for name in written:
        offset = int(name.split(".")[0])
        if judge.version.startswith("4"):  # 2.8 keeps another order
            assert found[name] == snapshot_at(partition, offset), name
            assert not (partition / name).exists() or found[name] == (partition / name).read_bytes()
        assert len(found[name]) == len(snapshot_at(partition, offset))
    for path in partition.iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            assert found[path.name] == path.read_bytes(), path.name
            compared += 1
    assert compared > 60
