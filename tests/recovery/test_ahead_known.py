"""A plan predicts the start of each partition from the facts that it has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.paths import PartitionName
from kafkats.recovery import load
from kafkats.recovery.sentences import sentences
from kafkats.recovery.start import predict_start
from kafkats.segment.reader import read_so_far
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

NAME = "untouched-0"
P = PartitionName("untouched", 0, "")


def killed(golden: Unpacked, to: Path, high_watermark: int) -> Path:
    """A sound partition of a killed broker, whose whole log is to be recovered."""
    root = some_of(golden, CRASHED.name, (NAME,), to)
    (root / paths.RECOVERY_POINT).write_bytes(encode_offsets({P: 0}))
    (root / paths.HIGH_WATERMARK).write_bytes(encode_offsets({P: high_watermark}))
    return root


@pytest.mark.parametrize("torn", [0, 17])
def test_no_log_is_recovered_twice(
    golden: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torn: int
) -> None:
    root = killed(golden, tmp_path / "data", 0)
    last = max((root / NAME).glob("*.log"))
    last.write_bytes(last.read_bytes() + b"\1" * torn)
    size = sum(log.stat().st_size for log in (root / NAME).glob("*.log"))
    before = read_so_far()
    predict_start(LocalExecutor(1), [root], "4.3")
    asked = read_so_far() - before
    assert asked >= size, "a prediction without facts reads every log"

    def refused(*args: object, **named: object) -> None:
        raise AssertionError("the prediction of a plan recovers a log again")

    monkeypatch.setattr(load, "recover", refused)
    plan = plan_of(root, CRASHED)
    [row] = plan.beside["recovery"].to_pylist()
    assert row["bytes"] == size and row["cut_bytes"] == torn and not plan.plan.blocked


def test_a_wrong_high_watermark_is_named_by_both(golden: Unpacked, tmp_path: Path) -> None:
    root = killed(golden, tmp_path / "data", 1_000_000)
    plan = plan_of(root, CRASHED)
    [row] = plan.beside["recovery"].to_pylist()
    [remark] = [one for one in plan.remarks if "likely wrong itself" in one]
    assert "replication-offset-checkpoint says 1000000, far above all else" in remark
    assert row["known_end"] == row["log_end"] and "999999" not in remark

    start = predict_start(LocalExecutor(1), [root], "4.3")
    said = " ".join(" ".join(sentences(start, None)).split())
    assert "1 log will end below the high watermark (1 by a checkpoint that is likely" in said
    assert "replication-offset-checkpoint says 1000000, far above all else" in said
    assert "999999" not in said and start.partitions[0].lost_offsets == 0
    assert plan.plan.header["totals"]["behind_high_watermark"] == 1
