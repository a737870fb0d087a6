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
@pytest.mark.parametrize("accept", [False, True])
def test_a_torn_tail_is_cut_and_the_marker_that_denies_it_is_removed(
    case: Case, tmp_path: Path, accept: bool
) -> None:
    root = case.unpack("before", tmp_path)
    kinds = {f.kind for start in started(root, case).values() for f in start.findings}
    assert {"end-moved-back", "torn-tail-marked-clean"} <= kinds
    planned = plan_of(root, case, accept=accept)
    assert blocked_of(planned) == dict.fromkeys(NAMES, "")
    totals = planned.plan.header["totals"]
    assert (totals["behind_high_watermark"], totals["markers_removed"]) == (2, 1)
    assert sum("offsets 27 to 29 are missing" in remark for remark in planned.remarks) == 2
    assert set(applied_rows(planned.plan)["outcome"].to_pylist()) == {"done"}
    assert not (root / paths.CLEAN_SHUTDOWN).exists()
    for start in started(root, case).values():
        assert (start.log_end_offset, start.recovered_bytes, start.replay_bytes) == (27, 0, 0)
        assert [one.base_offset for one in start.recovered] == [27]
        assert not {"end-moved-back", "torn-tail-marked-clean"} & {f.kind for f in start.findings}
    points = read_offsets(root / paths.RECOVERY_POINT)
    assert [points[PartitionName(name[:-2], 0, "")] for name in NAMES] == [27, 27]
    assert plan_of(root, case).plan.items.num_rows == 0


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
