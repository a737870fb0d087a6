"""Runs of the DAGs that rebuild and retain on one directory: policy, params, and what a run left."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator

from kafkats.logdir.reservation import read_reservation, reservation_area
from tests.golden import case, retention_policy, tree
from tests.retained import GOLDEN, RETAIN

Again = Callable[..., Any]


REBUILT = case("matrix-4.3.1-v2")


DAMAGED = ["none-ct-0/00000000000000000043.timeindex", "zstd-lat-0/00000000000000000000.timeindex"]


REBUILD: dict[str, Any] = {
    "volumes": [], "topics": "*", "rule": "last-offset", "only_after_unclean_stop": False, "recover": False,
    "need_approval": True, "dry_run": False,
}  # fmt: skip


def policy(root: Path, **more: Any) -> str:
    path = root.parents[1] / "policy.yaml"
    path.write_text(
        yaml.safe_dump(
            {"volumes": [{"broker": "1", "path": str(root), "owner_stopped": True}]} | more
        )
    )
    return str(path)


def places(root: Path, **topics: Any) -> dict[str, Any]:
    more = {"topics": topics} if topics else retention_policy(GOLDEN)
    return {"policy": policy(root, **more), "folder": str(root.parents[1] / "reports")}


def retain(
    bag: Any,
    root: Path,
    topics: dict[str, Any] | None = None,
    *,
    mark: str | None = None,
    **params: Any,
) -> Any:
    conf = RETAIN | places(root, **(topics or {})) | params
    return bag.dags["apply_retention"].test(
        run_conf=conf, logical_date=None, mark_success_pattern=mark
    )


def rebuild(bag: Any, root: Path, *, mark: str | None = None, **params: Any) -> Any:
    conf = REBUILD | places(root) | params
    return bag.dags["rebuild_time_indexes"].test(
        run_conf=conf, logical_date=None, mark_success_pattern=mark
    )


def report(root: Path) -> dict[str, Any]:
    found = (root.parents[1] / "reports").glob("*/*/report.json")
    return dict(json.loads(max(found, key=lambda path: path.stat().st_mtime_ns).read_text()))


def states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def data(root: Path) -> dict[str, Any]:
    """The log directory without what kafkats keeps there."""
    return {path: facts for path, facts in tree(root).items() if not path.startswith(".kafkats")}


def refusing(monkeypatch: pytest.MonkeyPatch, root: Path, *partitions: str) -> None:
    """Once, files of these partitions change between the plan and the apply."""
    execute, pending = KafkatsJobOperator.execute, list(partitions)

    def changed(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        if self.job == "apply":
            while pending:
                for log in (root / pending.pop()).glob("*.*"):
                    os.utime(log, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))
        return execute(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", changed)


HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def holder(root: Path) -> str:
    found = read_reservation(reservation_area(root))
    return found.holder if found else ""


def task_state(run: Any, task: str) -> tuple[str, int]:
    """Return the state of one task, and how often it was tried."""
    [found] = [ti for ti in run.get_task_instances() if ti.task_id == task]
    return str(found.state), found.try_number
