"""The DAG itself: on directories of a killed broker, until nothing is left to recover."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafkats_airflow.reports.recovery import LEFT, outcome

from kafkats import paths
from kafkats.logdir.checkpoints import read_offsets
from kafkats.recovery.stage import ends_empty
from tests.dags.runs import states
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, some_of

DAG = "recover_log_dirs"
PARTITIONS = ("torn-0", "untouched-0")
PARAMS: dict[str, Any] = {
    "volumes": [], "topics": "*", "rule": "last-offset", "like_kafka": False, "kafka": None, "need_approval": False,
    "dry_run": False,
}  # fmt: skip


def reports(folder: Path) -> list[dict[str, Any]]:
    """Every report.json, the oldest first."""
    found = sorted(folder.glob("*/*/report.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.long(3)
def test_until_nothing_is_left(
    bag: Any,
    golden: Unpacked,
    policy: Callable[..., Path],
    tmp_path: Path,
    here: list[str],
    answering: dict[str, Any],
) -> None:
    root = some_of(golden, CRASHED.name, PARTITIONS, tmp_path / "broker" / "data")
    folder = tmp_path / "reports"
    conf = PARAMS | {"policy": str(policy(root, owner_stopped=True)), "folder": str(folder)}
    answering["says"] = "Approve"
    asked = conf | {"need_approval": True, "kafka": CRASHED.kafka}
    first = bag.dags[DAG].test(run_conf=asked, logical_date=None)
    assert str(first.state) == "success"
    assert "are cut" in str(answering["asked"])
    [report] = reports(folder)
    assert report["outcome"] == "recovered and proved"
    assert report["files_proved"] == report["files_planned"] > 8
    rows = pq.read_table(Path(report["report"], "recovery.parquet")).to_pylist()
    assert {row["partition_dir"] for row in rows} == set(PARTITIONS)
    seen = pq.read_table(Path(report["report"], "segments.parquet"), columns=["partition_dir"])
    assert set(seen["partition_dir"].to_pylist()) == set(PARTITIONS), "the page of index health"
    [start] = report["starts"]
    assert (start["outcome"], start["partitions"]) == ("loads", len(PARTITIONS))
    assert start["recovered_segments"] >= len(PARTITIONS) and start["cut_bytes"] > 0
    assert start["said"][0].startswith(f"This broker ({CRASHED.kafka}) will start")
    [ti] = [one for one in first.get_task_instances() if one.task_id == "report"]
    assert "said" not in ti.xcom_pull(task_ids="report")["starts"][0], "an XCom is small"
    starts = pq.read_table(Path(report["report"], "starts.parquet")).to_pylist()
    assert {row["partition_dir"]: row["log_end_offset"] for row in starts} == {
        row["partition_dir"]: row["log_end"] for row in rows
    }
    points = read_offsets(root / paths.RECOVERY_POINT)
    for name, point in points.items():
        assert ends_empty(root / str(name), point)

    second = bag.dags[DAG].test(run_conf=conf, logical_date=None)
    assert str(second.state) == "success"
    found = states(second)
    assert found["apply"] == found["preflight"] == "skipped"
    assert not reports(folder)[-1]["starts"]
    assert reports(folder)[-1]["outcome"] == "nothing to recover"


@pytest.mark.slow(1)
def test_a_volume_with_a_blocked_row_is_not_reported_as_done(
    bag: Any, golden: Unpacked, policy: Callable[..., Path], tmp_path: Path, here: list[str]
) -> None:
    names = ("torn-0", "crc-old-rp0-0")
    root = some_of(golden, CRASHED.name, names, tmp_path / "broker" / "data")
    folder = tmp_path / "reports"
    conf = PARAMS | {"policy": str(policy(root, owner_stopped=True)), "folder": str(folder)}
    run = bag.dags[DAG].test(run_conf=conf, logical_date=None)
    assert str(run.state) == "failed"
    found = states(run)
    assert found["apply"] == found["verify"] == "success" and found["report"] == "failed"
    [report] = reports(folder)
    assert report["outcome"] == f"recovered and proved, 1 partition {LEFT}"


def test_no_plan_is_no_success(tmp_path: Path) -> None:
    assert outcome(tmp_path, {"dry_run": False}, []) == "not finished"
