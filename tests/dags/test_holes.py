"""A preallocated index counts by its blocks where people read of disk space: sizes, the undo area, what retention keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.approvals import stakes

from tests.dags.runs import rebuild, retain

INDEX = "none-ct-0/00000000000000000043.timeindex"
PREALLOCATED = 10 * 1024 * 1024 // 12 * 12
FAMILY = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}


def on_disk(*paths: Path) -> int:
    found = [path.stat() for path in paths]
    return sum(min(one.st_size, 512 * one.st_blocks) for one in found)


def of_segments(root: Path) -> list[Path]:
    """Files of segments: a snapshot without its log is none."""
    globs = ("*-ct-0/*", "*-lat-0/*")
    files = [path for glob in globs for path in root.glob(glob) if path.suffix in FAMILY]
    return [path for path in files if path.with_suffix(".log").exists()]


def overview(root: Path) -> dict[str, Any]:
    found = (root.parents[1] / "reports").glob("*/*/overview.json")
    newest = max(found, key=lambda path: path.stat().st_mtime_ns)
    return dict(json.loads(newest.read_text())) | {"folder": newest.parent}


@pytest.mark.slow(8)
@pytest.mark.usefixtures("here")
def test_a_preallocated_index_counts_by_its_blocks(bag: Any, damaged: Path) -> None:
    os.truncate(damaged / INDEX, 0) if (damaged / INDEX).exists() else (damaged / INDEX).touch()
    os.truncate(damaged / INDEX, PREALLOCATED)
    before = on_disk(*of_segments(damaged))
    assert sum(path.stat().st_size for path in of_segments(damaged)) > before + PREALLOCATED // 2
    retain(bag, damaged, dry_run=True)
    [volume] = overview(damaged)["volumes"]
    assert volume["bytes"] == before
    plan = next(overview(damaged)["folder"].glob("*/before"))
    assert stakes.on_disk(plan) == before, "of a plan beside it"
    board = json.loads((overview(damaged)["folder"] / "board.json").read_text())
    assert sum(row["bytes"] for row in board["partitions"]) < PREALLOCATED // 2
    assert str(rebuild(bag, damaged, need_approval=False).state) == "success"
    after = overview(damaged)
    [volume] = after["volumes"]
    assert volume["bytes"] == on_disk(*of_segments(damaged))
    [undo] = after["undo"]
    assert sum(undo["bytes"].values()) < PREALLOCATED // 2, "the old index has no blocks"
