"""The producer snapshots of a start after an unclean stop, where messages of magic 0 and 1 are in the log.

The expected offsets are those that Kafka's own log classes of the version left of the same directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.evidence.claims import Claims
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.partition import scan_partition
from kafkats.recovery.ahead import SegmentUnit, recover_ahead
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.reading import recover
from kafkats.recovery.rules import start_rule
from tests.recovery.mixed_logs import write_log

_BOTH = ("2.8.2", "4.3.1")


def _start(directory: Path, version: str, *, clean: bool = False) -> PartitionStart:
    claims = Claims(recovery_point=0, log_start=0, rooted=True, clean=clean)
    rule = start_rule(version)
    return predict(scan_partition(directory), claims, rule, log_dir=str(directory.parent))


@pytest.mark.parametrize("version", _BOTH)
@pytest.mark.parametrize(
    ("segments", "snapshots", "replay_from"),
    [
        (["22"], (2,), -1),
        (["221"], (2, 3), 2),
        (["2210"], (2, 4), 2),
        (["2120"], (3, 4), 3),
        (["112"], (3,), -1),
        (["251"], (2, 3), 2),
        (["215"], (3,), -1),
        (["22", "221"], (2, 4, 5), 4),
        (["221", "22"], (3, 5), -1),
        (["221", "21", "20"], (3, 5, 6, 7), 6),
    ],
)
def test_the_snapshot_of_a_recovered_segment_is_at_the_end_of_its_last_batch_of_magic_2(
    segments: list[str],
    snapshots: tuple[int, ...],
    replay_from: int,
    version: str,
    tmp_path: Path,
) -> None:
    end = write_log(tmp_path / "p-0", segments)
    start = _start(tmp_path / "p-0", version)
    assert (start.outcome, start.log_end_offset) == ("loads", end)
    assert start.snapshots == snapshots
    assert (start.replay_from, start.replay_bytes > 0) == (replay_from, replay_from >= 0)


def test_a_segment_without_magic_2_gets_no_snapshot_of_its_own(tmp_path: Path) -> None:
    """So a broker reads the last one for producers that it cannot have."""
    write_log(tmp_path / "p-0", ["11", "10"])
    start = _start(tmp_path / "p-0", "4.3.1")
    assert start.snapshots == (2, 4)
    assert (start.snapshot_offset, start.replay_from) == (2, 2)


@pytest.mark.parametrize(("version", "snapshots"), [("2.8.2", (2, 3)), ("4.3.1", (3,))])
def test_a_swapped_log_is_recovered_by_the_same_rule(
    version: str, snapshots: tuple[int, ...], tmp_path: Path
) -> None:
    """Up to 2.8 it is recovered before it takes its place; from 3.0 on it is only renamed."""
    write_log(tmp_path / "p-0", ["221"], indexes=False, suffix=".swap")
    start = _start(tmp_path / "p-0", version, clean=True)
    assert (start.outcome, start.log_end_offset) == ("loads", 3)
    assert start.snapshots == snapshots


@pytest.mark.parametrize("magics", ["221", "11", "22", "1251", ""])
def test_a_segment_that_is_read_ahead_is_recovered_the_same(magics: str, tmp_path: Path) -> None:
    write_log(tmp_path / "p-0", [magics])
    log = tmp_path / "p-0" / f"{0:020d}.log"
    unit = SegmentUnit(str(tmp_path), "p-0", 0, 4096, log.stat().st_size)
    with LocalExecutor(1) as executor:
        ahead = recover_ahead(executor, [unit])
    assert ahead == {(str(tmp_path), "p-0"): {0: recover(log, 0)}}
    ends = {"221": 2, "11": 0, "22": 2, "1251": 3, "": 0}
    assert ahead[str(tmp_path), "p-0"][0].producers_end == ends[magics]
