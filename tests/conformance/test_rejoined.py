"""What a broker that rejoins its cluster is compared by: its words, its logs, each answer."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conformance.clusters import Rejoined, compare_runs
from conformance.raw_requests import Answer
from conformance.rejoined import Logs, fetched_after_start, logs_of, truncations
from conformance.tally import Tally
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType

WORDS = """\
INFO Completed load of Log(dir=ROOT/plain-0, topic=plain, partition=0, logEndOffset=3) with 1 segments
INFO [ReplicaFetcher replicaId=2, leaderId=1] Truncating partition plain-0 with offset=2 (kafka.server.X)
INFO [Log partition=plain-0, dir=ROOT] Truncating to offset 2 (kafka.log.Log)
INFO [Log partition=plain-1, dir=ROOT] Truncating to 5 has no effect (kafka.log.Log)
"""
LOGS = Logs(0, 3, 9, "digest", ((0, 0),))
ONE = Rejoined(
    ["plain-0 Truncating to offset 2"],
    {"plain-0": 7},
    7,
    {"plain-0": LOGS},
    [{"plain-0": "Leader 1"}],
    {"plain-0": [{"isr": [1, 2]}]},
    {"read_committed": {"plain-0": (3, "digest")}},
    [],
    {"plain-0": Answer(0, 3)},
    0.0,
)


def _batch(offset: int, timestamp: int) -> bytes:
    return v2.encode_batch([Record(offset, timestamp, TimestampType.CREATE_TIME, None, b"value")])


def _partition(root: Path, *timestamps: int) -> Path:
    directory = root / "plain-0"
    directory.mkdir(parents=True)
    log = b"".join(_batch(offset, at) for offset, at in enumerate(timestamps))
    (directory / f"{0:020}.log").write_bytes(log + bytes(100))
    return directory


def test_lines_about_truncations_do_not_name_directories() -> None:
    assert truncations(WORDS.replace("ROOT", "/a")) == truncations(WORDS.replace("ROOT", "/b"))
    assert truncations(WORDS) == [
        "Truncating plain-0 with offset=2",
        "plain-0 Truncating to offset 2",
        "plain-1 Truncating to 5 has no effect",
    ]


def test_bytes_are_fetched_from_where_the_log_was_truncated(tmp_path: Path) -> None:
    _partition(tmp_path, 1, 2, 3, 4)
    size = len(_batch(0, 1))
    assert fetched_after_start(WORDS, tmp_path) == {"plain-0": 2 * size}
    assert fetched_after_start(WORDS.splitlines()[0], tmp_path) == {"plain-0": size}


def test_only_the_times_of_appended_batches_may_differ(tmp_path: Path) -> None:
    one, other = _partition(tmp_path / "one", 1, 2, 3), _partition(tmp_path / "other", 1, 2, 9)
    assert logs_of(one, 2) == logs_of(other, 2)
    assert logs_of(one) != logs_of(other)
    assert (logs_of(one).end, logs_of(one).size) == (3, 3 * len(_batch(0, 1)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"truncations": []},
        {"fetched": {"plain-0": 8}},
        {"counted": 8},
        {"logs": {"plain-0": LOGS._replace(epochs=())}},
        {"members": [{"plain-0": "Leader 2"}]},
        {"history": {}},
        {"records": {"read_committed": {"plain-0": (2, "digest")}}},
        {"followers": ["plain-0 Truncating to offset 1"]},
        {"appended": {"plain-0": Answer(0, 4)}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_each_difference_of_two_starts_is_reported(wrong: dict[str, Any]) -> None:
    tally = Tally(Console(file=io.StringIO()))
    compare_runs("4.3.1", "seed", ONE, ONE, tally)
    assert not tally.differences
    compare_runs("4.3.1", "seed", ONE._replace(**wrong), ONE, tally)
    assert tally.differences
