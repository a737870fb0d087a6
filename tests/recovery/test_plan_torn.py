"""Torn tails beside a clean-shutdown marker: before a broker appended behind them, and after."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.evidence.claims import claims_of
from kafkats.logdir.checkpoints import read_offsets
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from tests.builders.directories import contents, scan_root
from tests.builders.operations import applied_rows
from tests.golden import Case, cases
from tests.recovery.crashed import plan_of

NAMES = ("indexed-0", "not-indexed-0")
torn = pytest.mark.parametrize("case", cases("torn-append"), ids=str)


def blocked_of(planned: Planned) -> dict[str, str]:
    rows = planned.beside["recovery"].to_pylist()
    return {row["partition_dir"]: row["blocked"] for row in rows}


def started(root: Path, case: Case) -> dict[str, PartitionStart]:
    """What the case's broker does with each partition at its next start."""
    seen = scan_root(root)
    return {
        p.path.name: predict(
            p,
            claims_of(p, seen, live=False, tiered=False),
            start_rule(case.kafka),
            log_dir=str(root),
        )
        for p in seen.partitions
    }


@torn
def test_a_torn_tail_beside_a_marker_is_missing_records(case: Case, tmp_path: Path) -> None:
    """The marker says that all was flushed: the batch is lost, and only a person accepts that."""
    root = case.unpack("before", tmp_path)
    before = contents(root)
    planned = plan_of(root, case)
    for reason in blocked_of(planned).values():
        assert reason.startswith("records are missing: offsets 27 to 29")
    assert planned.plan.exit_code == 1
    applied_rows(planned.plan)
    assert contents(root) == before


@torn
def test_an_accepted_torn_tail_is_cut_and_its_offsets_are_given_out_once(
    case: Case, tmp_path: Path
) -> None:
    root = case.unpack("before", tmp_path)
    kinds = {f.kind for start in started(root, case).values() for f in start.findings}
    assert {"end-moved-back", "torn-tail-marked-clean"} <= kinds
    planned = plan_of(root, case, accept=True)
    assert blocked_of(planned) == dict.fromkeys(NAMES, "")
    assert planned.plan.header["totals"]["behind_high_watermark"] == 2
    assert set(applied_rows(planned.plan)["outcome"].to_pylist()) == {"done"}
    assert (root / paths.CLEAN_SHUTDOWN).exists()
    for start in started(root, case).values():
        assert (start.log_end_offset, start.recovered, start.replay_bytes) == (27, (), 0)
        assert not {"end-moved-back", "torn-tail-marked-clean"} & {f.kind for f in start.findings}
    points = read_offsets(root / paths.RECOVERY_POINT)
    assert [points[PartitionName(name[:-2], 0, "")] for name in NAMES] == [27, 27]


@torn
def test_batches_that_a_broker_appended_behind_a_torn_one_stay(case: Case, tmp_path: Path) -> None:
    """They were acknowledged: in indexed-0 with offsets that the log has already."""
    root = case.unpack("appended", tmp_path)
    before = contents(root)
    planned = plan_of(root, case, accept=True)
    for reason in blocked_of(planned).values():
        assert "good batches follow at byte" in reason
    applied_rows(planned.plan)
    assert contents(root) == before


@torn
def test_like_kafka_cuts_where_the_broker_would(case: Case, tmp_path: Path) -> None:
    root = case.unpack("appended", tmp_path)
    (root / paths.CLEAN_SHUTDOWN).unlink()
    ends = {name: one.recovered[-1] for name, one in started(root, case).items()}
    planned = plan_of(root, case, like_kafka=True, accept=True)
    assert set(applied_rows(planned.plan)["outcome"].to_pylist()) == {"done"}
    for name, end in ends.items():
        assert end.next_offset == 27
        assert (root / name / f"{0:020d}.log").stat().st_size == end.cut_to
