"""The figures of overview.json after real runs, against the files on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.runs.overview import NAME, Overview, Volume

from tests.dags.runs import places, rebuild, report, retain
from tests.retained import RETAIN


def on_disk(root: Path) -> dict[str, int]:
    """Partitions, segments and bytes of all logs but the controller's own."""
    logs = [log for log in root.glob("*-*/*.log") if log.parent.name != "__cluster_metadata-0"]
    return {
        "partitions": len({log.parent for log in logs}),
        "segments": len(logs),
        "log_bytes": sum(log.stat().st_size for log in logs),
    }


def told(root: Path) -> tuple[Overview, Volume]:
    """The overview of the latest run, and what it says of the directory."""
    found = Path(report(root)["report"], NAME).read_text()
    overview = Overview.model_validate(json.loads(found))
    [volume] = overview.volumes
    assert volume.log_dir == str(root)
    return overview, volume


def counted(volume: Volume) -> dict[str, int | None]:
    return {key: getattr(volume, key) for key in ("partitions", "segments", "log_bytes")}


@pytest.mark.slow(3)
def test_retention_before_and_after(bag: Any, volume: Path, here: list[str]) -> None:
    """A dry run says what it would delete; after a deletion nothing of that is left."""
    before = on_disk(volume)
    retain(bag, volume, dry_run=True)
    said = report(volume)
    overview, seen = told(volume)
    assert (overview.topics, overview.dry_run) == ("*", True)
    assert counted(seen) == before
    assert seen.reclaimable is not None
    assert seen.reclaimable.now_bytes == said["now_bytes"] > 0
    assert seen.reclaimable.pinned_bytes == said["pinned_bytes"]
    assert seen.disk_bytes == shutil.disk_usage(volume).total > (seen.disk_free_bytes or 0) > 0
    assert said["plans"][0]["on_disk"] == seen.bytes
    board = json.loads(Path(said["report"], "board.json").read_text())
    by_rule = [size for of_topic in board["deleted_by"].values() for size in of_topic.values()]
    assert sum(by_rule) == said["now_bytes"]

    retain(bag, volume)
    said = report(volume)
    assert said["outcome"] == "deleted and proved"
    _, seen = told(volume)
    assert counted(seen) == on_disk(volume)
    assert on_disk(volume)["segments"] < before["segments"]
    assert seen.reclaimable is not None
    assert (seen.reclaimable.now_bytes, said["now_bytes"] > 0) == (0, True)
    assert seen.reclaimable.pinned_bytes == said["pinned_bytes"]


@pytest.mark.slow(1)
def test_some_topics_are_not_the_volume(bag: Any, volume: Path, here: list[str]) -> None:
    conf = RETAIN | places(volume) | {"dry_run": True, "topics": "time-*"}
    bag.dags["apply_retention"].test(run_conf=conf, logical_date=None)
    overview, seen = told(volume)
    assert overview.topics == "time-*"
    assert (seen.partitions or 0) < on_disk(volume)["partitions"]


@pytest.mark.slow(3)
def test_defects_are_gone_after_a_rebuild(bag: Any, damaged: Path, here: list[str]) -> None:
    rebuild(bag, damaged, need_approval=False, dry_run=True)
    _, seen = told(damaged)
    assert seen.kinds is not None
    assert seen.kinds["damage"]["missing-index"] == 1
    rebuild(bag, damaged, need_approval=False)
    _, now = told(damaged)
    assert now.kinds is not None
    assert not now.kinds.keys() & {"damage", "danger"}
    assert counted(now) == counted(seen) == on_disk(damaged)
