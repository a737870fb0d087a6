"""Directories that real brokers left after kill -9: our recovery against that of the same brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.execution.local import LocalExecutor
from kafkats.flow.apply import apply_partition, partition_works, rounds, summarize
from kafkats.flow.looking import LogStages
from kafkats.logdir.checkpoints import read_epochs, read_offsets
from kafkats.logdir.partition import log_bases
from kafkats.logdir.snapshot import read_snapshot
from kafkats.plans.facts import ACTIONS
from kafkats.plans.operation import Planned, Proving
from kafkats.plans.plan import Plan
from kafkats.plans.run import run_of
from kafkats.recovery.proof import prove
from tests.golden import Case, Unpacked, cases
from tests.recovery.crashed import plan_of


class Recovered(NamedTuple):
    """A case's `before`, recovered by us as its brokers do it, and its `after`."""

    case: Case
    ours: Path
    theirs: Path
    points: dict[paths.PartitionName, int]
    planned: Planned


def apply(plan: Plan) -> int:
    rows = [
        apply_partition(work)
        for together in rounds(partition_works(plan, run_of(plan)))
        for work in together
    ]
    return int(summarize(pa.Table.from_batches(rows, ACTIONS))["exit_code"])


@pytest.fixture(scope="module", params=cases("crash"), ids=str)
def recovered(
    request: pytest.FixtureRequest, golden: Unpacked, tmp_path_factory: pytest.TempPathFactory
) -> Recovered:
    case: Case = request.param
    ours = case.unpack("before", tmp_path_factory.mktemp("ours"))
    checkpoint = ours / paths.RECOVERY_POINT
    points = read_offsets(checkpoint) if checkpoint.exists() else {}
    planned = plan_of(ours, case, like_kafka=True, accept=True)
    assert apply(planned.plan) == 0
    return Recovered(case, ours, golden(case.name, "after"), points, planned)


def ours_and_theirs(recovered: Recovered) -> Iterator[tuple[Path, Path]]:
    """The partitions that were planned and that the broker loaded, without those of unfinished swaps."""
    blocked = {
        row["partition_dir"]
        for row in recovered.planned.beside["recovery"].to_pylist()
        if row["blocked"]
    }
    for row in recovered.planned.beside["recovery"].to_pylist():
        name = row["partition_dir"]
        theirs = recovered.theirs / name
        told = recovered.case.info["damage"].get(name, {})
        if name in blocked or name.startswith("__") or "broker_refused_to_start" in told:
            continue
        if theirs.is_dir():
            yield recovered.ours / name, theirs


def logs_of(directory: Path) -> dict[int, bytes]:
    """The logs by base offset, without an empty one at the end."""
    logs = {
        base: (directory / paths.segment_file(base, paths.LOG)).read_bytes()
        for base in log_bases(directory)
    }
    last = max(logs)
    return {base: data for base, data in logs.items() if data or base != last}


@pytest.mark.examples(5)
def test_logs_are_those_of_the_broker(recovered: Recovered) -> None:
    compared = 0
    for ours, theirs in ours_and_theirs(recovered):
        assert logs_of(ours) == logs_of(theirs), ours.name
        compared += 1
    assert compared >= 20


@pytest.mark.slow(1)
def test_indexes_from_the_recovery_point_on_are_those_of_the_broker(recovered: Recovered) -> None:
    kept = {  # true as they are, and a recovery gives other entries
        f"{row['partition_dir']}/{finding['file']}"
        for row in recovered.planned.segments.to_pylist()
        for finding in row["findings"]
        if finding["kind"] in ("sound", "other-rule") and not row["active"]
    }
    compared = 0
    for ours, theirs in ours_and_theirs(recovered):
        name = paths.parse_partition(ours.name)
        assert name
        bases = log_bases(theirs)
        first = max((b for b in bases if b <= recovered.points.get(name, 0)), default=0)
        for base in (b for b in bases if b >= first):
            for kind in (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX):
                file = paths.segment_file(base, kind)
                if f"{ours.name}/{file}" in kept:
                    continue
                assert content(ours / file) == content(theirs / file), f"{ours.name}/{file}"
                compared += 1
    assert compared >= 60


def content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.mark.slow(1)
def test_producers_at_the_log_end_are_those_of_the_broker(recovered: Recovered) -> None:
    for ours, theirs in ours_and_theirs(recovered):
        end = log_bases(ours)[-1]
        wanted = theirs / paths.segment_file(end, paths.SNAPSHOT)
        if not wanted.exists():
            assert not any(theirs.glob("*.snapshot")), theirs
            continue
        here = {e.producer_id: e for e in read_snapshot(ours / wanted.name)}
        # The broker drops expired producers; a later marker of one makes it anew, without a batch.
        there = {e.producer_id: e for e in read_snapshot(wanted) if e.last_sequence >= 0}
        if recovered.case.kafka.startswith("0.11"):  # a marker counts as a batch
            same = ("producer_epoch", "last_sequence", "txn_first_offset")
            for producer, entry in there.items():
                for name in same:
                    assert getattr(here[producer], name) == getattr(entry, name), ours.name
            continue
        assert there.items() <= here.items(), ours.name


def test_a_damaged_snapshot_at_the_recovery_point_is_written_again(recovered: Recovered) -> None:
    if recovered.case.name not in ("crash-2.8.2", "crash-3.9.1", "crash-4.1.0", "crash-4.3.1"):
        pytest.skip("its broker read no damaged snapshot")
    name = "bad-snapshot-0"
    point = recovered.points.get(paths.PartitionName("bad-snapshot", 0, ""), 0)
    snapshot = paths.segment_file(point, paths.SNAPSHOT)
    rows = recovered.planned.plan.items.to_pylist()
    (row,) = [r for r in rows if (r["partition_dir"], r["file"]) == (name, snapshot)]
    assert row["action"] == "replace" and "version" in row["reason"]
    theirs = read_snapshot(recovered.theirs / name / snapshot)
    ours = {e.producer_id: e for e in read_snapshot(recovered.ours / name / snapshot)}
    assert {e.producer_id: e for e in theirs if e.last_sequence >= 0}.items() <= ours.items()


def test_epochs_are_those_of_the_broker(recovered: Recovered) -> None:
    for ours, theirs in ours_and_theirs(recovered):
        if not (theirs / paths.LEADER_EPOCH).exists():
            continue
        first, *_, end = log_bases(ours)
        here, there = (
            [  # some brokers write where the first epoch begins in the log, and some do not
                (e.epoch, max(e.start_offset, first))
                for e in read_epochs(where / paths.LEADER_EPOCH)
                if e.start_offset < end
            ]
            for where in (ours, theirs)
        )
        if ours.name == "no-epochs-0":  # 2.4 forgets those of the log
            here = [entry for entry in here if entry in there]
        assert here == there, ours.name


def test_each_log_ends_with_an_empty_segment_at_its_recovery_point(recovered: Recovered) -> None:
    points = read_offsets(recovered.ours / paths.RECOVERY_POINT)
    for ours, _ in ours_and_theirs(recovered):
        name = paths.parse_partition(ours.name)
        assert name
        end = log_bases(ours)[-1]
        assert not (ours / paths.segment_file(end, paths.LOG)).stat().st_size
        assert points[name] == end


def test_what_was_written_is_proved(recovered: Recovered) -> None:
    plan = recovered.planned.plan
    proof = prove(Proving(LogStages(LocalExecutor(1)), plan, Path(), ()))
    assert not proof.not_equal
    assert proof.files > 100


@pytest.mark.slow(1)
def test_a_second_plan_has_nothing_to_do(recovered: Recovered) -> None:
    again = plan_of(recovered.ours, recovered.case, like_kafka=True, accept=True)
    rows = [r for r in again.plan.items.to_pylist() if r["action"] != "blocked"]
    assert rows == []
