"""kill -9 at the effects of a recovery before a start, also with its work area lost: the broker loses nothing.

Every STRIDE-th effect is tried: KAFKATS_KILL_STRIDE=1 tries all.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkats.execution.local import LocalExecutor
from kafkats.recovery.start import predict_start
from tests.crash.migration import killed_at, unsynced
from tests.flow.verbs.recovering import recover
from tests.golden import Unpacked
from tests.recovery.crashed import some_of

pytestmark = [pytest.mark.forks, pytest.mark.slow(60)]

STRIDE = int(os.environ.get("KAFKATS_KILL_STRIDE", "29"))
PARTITIONS = ("few-bytes-0", "torn-0", "crc-old-rp0-0")


def ends(root: Path) -> dict[str, tuple[int, int, str]]:
    start = predict_start(LocalExecutor(1), [root], "4.3")
    return {
        p.partition_dir: (p.log_start_offset, p.log_end_offset, p.outcome) for p in start.partitions
    }


def test_each_start_is_as_it_was_predicted(golden: Unpacked, tmp_path: Path) -> None:
    root = some_of(golden, "crash-4.3.1", PARTITIONS, tmp_path / "disk" / "data")
    before, n, kills = ends(root), 1, 0
    while True:
        shutil.rmtree(tmp_path / "disk")
        some_of(golden, "crash-4.3.1", PARTITIONS, root)
        if not killed_at(n, lambda: recover(root)):
            break
        kills += 1
        assert ends(root) == before, n
        if kills % 2:
            shutil.rmtree(root.parent / ".kafkats", ignore_errors=True)
        with unsynced():
            result = recover(root)
        assert result.found is not None and result.exit_code == 0
        assert ends(root) == before, n
        assert result.found["recovered"] == 2, (n, [*result.found["left_partitions"]])
        n += STRIDE
    assert kills > 150 // STRIDE
