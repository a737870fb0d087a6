"""kill -9 at the effects of a recovery that removes a clean-shutdown marker, and of its undo.

Every STRIDE-th effect is tried: KAFKATS_KILL_STRIDE=1 tries all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats import paths
from kafkats.evidence.claims import claims_of
from kafkats.execution.local import LocalExecutor
from kafkats.flow.applying import undo
from kafkats.plans.run import begin_run, run_of
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from tests.builders.directories import contents, scan_root
from tests.builders.operations import applied_rows
from tests.crash.migration import killed_at, unsynced
from tests.golden import case
from tests.recovery.crashed import plan_of

pytestmark = pytest.mark.forks

STRIDE = int(os.environ.get("KAFKATS_KILL_STRIDE", "29"))
TORN = case("torn-append-4.3.1")


class Scene:
    """Two logs that end torn at offset 27, beside a marker, and the plan of their recovery."""

    def __init__(self, folder: Path, area: Path | None = None) -> None:
        self.folder, self.area = folder, area
        (folder / "data").mkdir(parents=True)
        self.root = TORN.unpack("before", folder / "data")
        self.marker = self.root / paths.CLEAN_SHUTDOWN
        self.inode = self.marker.stat().st_ino
        self.before = contents(self.root)
        self.plan = plan_of(self.root, TORN).plan
        self.run = folder / "run"
        begin_run(run_of(self.plan, place=area), self.run)

    def apply(self) -> set[str]:
        return set(applied_rows(self.plan, place=self.area)["outcome"].to_pylist())

    def undo(self) -> int:
        return undo(LocalExecutor(1), self.run, holder="test", by="test").exit_code

    def check(self) -> None:
        """A marker stands beside old logs only; without it a broker ends each log at 27."""
        if self.marker.exists():
            now = contents(self.root)
            logs = [name for name in {**now, **self.before} if "/" in name]
            assert {n: now.get(n) for n in logs} == {n: self.before.get(n) for n in logs}
            return
        root = scan_root(self.root)
        for partition in root.partitions:
            claims = claims_of(partition, root, live=False, tiered=False)
            start = predict(partition, claims, start_rule("4.3.1"), log_dir=str(self.root))
            assert (start.outcome, start.log_end_offset, start.deleted) == ("loads", 27, ())

    def remove(self) -> None:
        shutil.rmtree(self.folder)


@pytest.fixture
def memory() -> Iterator[Path]:
    with TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.slow(7)
def test_apply_and_undo(tmp_path: Path) -> None:
    n = kills = 0
    while True:
        scene = Scene(tmp_path / "scene")
        if not killed_at(n, scene.apply):
            break
        kills += 1
        scene.check()
        with unsynced():
            if kills % 2:
                assert scene.apply() <= {"done", "already"}
                assert not scene.marker.exists()
                scene.check()
            killed_at(n // 2, scene.undo)
            scene.check()
            assert scene.undo() == 0
        assert contents(scene.root) == scene.before
        assert scene.marker.stat().st_ino == scene.inode
        scene.remove()
        n += STRIDE
    assert kills > 200 // STRIDE


@pytest.mark.slow(7)
def test_undo_of_a_whole_run_beside_a_mount(tmp_path: Path, memory: Path) -> None:
    """The work area lies on another file system, and the old marker beside the live files."""
    n = kills = 0
    while True:
        scene = Scene(memory / "scene", tmp_path)
        with unsynced():
            assert scene.apply() == {"done"}
        if not killed_at(n, scene.undo):
            break
        kills += 1
        scene.check()
        with unsynced():
            assert scene.undo() == 0
        assert contents(scene.root) == scene.before
        assert scene.marker.stat().st_ino == scene.inode
        scene.remove()
        n += STRIDE
    assert kills > 50 // STRIDE
