"""The leader epochs after a start, where they do not only rise in the log.

The expected epochs are those that Kafka's own log classes of the version left of the same directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.evidence.claims import Claims
from kafkats.logdir.checkpoints import EpochStart, encode_epochs
from kafkats.logdir.partition import scan_partition
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from tests.recovery.mixed_logs import write_log

_BOTH = ("2.8.2", "4.3.1")
_Epochs = tuple[tuple[int, int], ...]


def _start(directory: Path, version: str, *, clean: bool = False) -> PartitionStart:
    claims = Claims(recovery_point=0, log_start=0, rooted=True, clean=clean)
    rule = start_rule(version)
    return predict(scan_partition(directory), claims, rule, log_dir=str(directory.parent))


@pytest.mark.parametrize("version", _BOTH)
@pytest.mark.parametrize(
    ("segments", "epochs", "before", "after"),
    [
        (["222"], [1, 3, 3], (), ((1, 0), (3, 1))),
        (["22"], [0, -1], (), ((0, 0),)),
        (["222"], [1, 3, 1], ((1, 0),), ((1, 0), (3, 1))),
        (["222"], [5, 3, 2], ((4, 0),), ((5, 0),)),
        (["2221"], [1, 3, 1, -1], ((2, 0),), ((2, 0), (3, 1))),
        (["22", "22"], [2, 1, 4, 2], (), ((2, 0), (4, 2))),
        (["222"], [1, 3, 1], ((3, 0),), ((3, 0),)),
        (["252"], [0, 1, 2], (), ((0, 0), (1, 1), (2, 2))),
        (["2925"], [1, 7, 5, 8], (), ((1, 0), (7, 1), (8, 3))),
        (["5"], [7], (), ((7, 0),)),
    ],
)
def test_each_batch_of_a_recovered_log_is_compared_with_the_latest_epoch(
    segments: list[str],
    epochs: list[int],
    before: _Epochs,
    after: _Epochs,
    version: str,
    tmp_path: Path,
) -> None:
    directory = tmp_path / "p-0"
    write_log(directory, segments, epochs=epochs)
    known = [EpochStart(*one) for one in before]
    (directory / paths.LEADER_EPOCH).write_bytes(encode_epochs(known))
    start = _start(directory, version)
    assert (start.outcome, start.epochs) == ("loads", after)


@pytest.mark.parametrize(
    ("version", "clean", "after"),
    [
        ("2.8.2", True, ()),
        ("4.3.1", True, ((1, 0), (2, 1))),
        ("2.8.2", False, ((1, 0), (2, 1))),
        ("4.3.1", False, ((1, 0), (2, 1))),
    ],
)
def test_a_log_without_index_assigns_epochs_from_3_0_on(
    version: str, clean: bool, after: _Epochs, tmp_path: Path
) -> None:
    directory = tmp_path / "p-0"
    write_log(directory, ["22"], epochs=[1, 2], indexes=False)
    start = _start(directory, version, clean=clean)
    assert start.recovered[0].why == "missing-index"
    assert (start.outcome, start.epochs) == ("loads", after)


@pytest.mark.parametrize(
    ("version", "after"),
    [
        ("2.0.1", ((0, 0), (1, 1))),
        ("2.1.1", ((1, 1),)),
        ("2.4.1", ((1, 1),)),
        ("2.5.1", ((1, 1),)),
        ("2.6.3", ((0, 0), (1, 1))),
    ],
)
def test_from_2_1_to_2_5_a_recovery_assigns_no_epoch_0(
    version: str, after: _Epochs, tmp_path: Path
) -> None:
    directory = tmp_path / "p-0"
    write_log(directory, ["22"], epochs=[0, 1])
    assert _start(directory, version).epochs == after
