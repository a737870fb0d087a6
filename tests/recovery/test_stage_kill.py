"""kill -9 at the effects of a recovery: the same command finishes it, or undo takes it back.

Every STRIDE-th effect is tried: KAFKATS_KILL_STRIDE=1 tries all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.logdir.checkpoints import encode_offsets, read_offsets
from kafkats.paths import PartitionName
from kafkats.plans.plan import Plan
from kafkats.recovery.stage import ends_empty
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, undone
from tests.crash.migration import killed_at, unsynced
from tests.golden import Unpacked
from tests.recovery.crashed import CRASHED, plan_of, some_of

pytestmark = pytest.mark.forks

STRIDE = int(os.environ.get("KAFKATS_KILL_STRIDE", "11"))
PARTITIONS = ("torn-0", "swap-complete-0", "crc-old-rp0-0")


class Scene:
    """A copy of a crashed log directory, and its plan."""

    def __init__(self, golden: Unpacked, folder: Path) -> None:
        self.root = some_of(golden, CRASHED.name, PARTITIONS, folder / "data")
        points = self.root / paths.RECOVERY_POINT  # one replacement lies above its recovery point
        lower = {PartitionName("swap-complete", 0, ""): 0}
        points.write_bytes(encode_offsets({**read_offsets(points), **lower}))
        self.before = self.look()
        self.plan: Plan = plan_of(self.root, CRASHED, like_kafka=True).plan

    def look(self) -> dict[str, bytes]:
        return {name: data for name, (data, _, _) in contents(self.root).items()}

    def apply(self) -> set[str]:
        return set(applied_rows(self.plan)["outcome"].to_pylist())

    def check_points(self) -> None:
        """Each recovery point that was raised is a log end that is flushed and checked."""
        points = read_offsets(self.root / paths.RECOVERY_POINT)
        old = self.before[paths.RECOVERY_POINT].decode().splitlines()[2:]
        was = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in old}
        for name, point in points.items():
            if point != was[f"{name.topic} {name.partition}"]:
                assert ends_empty(self.root / str(name), point)


@pytest.mark.slow(7)
def test_apply_and_undo(golden: Unpacked, tmp_path: Path) -> None:
    whole = Scene(golden, tmp_path / "whole")
    with unsynced():
        assert whole.apply() == {"done"}
    after, n, kills = whole.look(), 0, 0
    while True:
        scene = Scene(golden, tmp_path / "scene")
        if not killed_at(n, scene.apply):
            break
        kills += 1
        scene.check_points()
        with unsynced():
            if kills % 2:
                assert scene.apply() <= {"done", "already"}
                assert scene.look() == after
            killed_at(n // 2, lambda scene=scene: undone(scene.plan))  # type: ignore[misc]
            assert all(not row["error"] for row in undone(scene.plan))
        assert scene.look() == scene.before
        shutil.rmtree(tmp_path / "scene")
        n += STRIDE
    assert kills > 200 // STRIDE
