"""Snapshots, epochs and checkpoints that contradict the log: each is named, and the log is believed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from kafkats import paths
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.checkpoints import (
    EpochStart,
    encode_epochs,
    encode_offsets,
    read_offsets,
)
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats.paths import PartitionName
from kafkats.plans.operation import Planned
from kafkats.recovery.start import predict_start
from tests.builders.directories import contents
from tests.builders.operations import applied_rows, undone
from tests.golden import case
from tests.recovery.crashed import plan_of

TRANSACTIONS: Final = case("transactions-4.3.1")
DIRECTORY, NAME = "txn-0", PartitionName("txn", 0, "")
POINT, INSIDE, END = 97, 167, 219
"""Recovery point, the base offset of a later segment, log end."""

Wrong = Callable[[Path], object]
Entries = Callable[[list[ProducerEntry]], list[ProducerEntry]]


def snapshot(offset: int) -> str:
    return paths.segment_file(offset, paths.SNAPSHOT)


def producers(offset: int, change: Entries) -> Wrong:
    def act(root: Path) -> None:
        file = root / DIRECTORY / snapshot(offset)
        file.write_bytes(encode_snapshot(change(read_snapshot(file))))

    return act


def small(name: str, content: bytes) -> Wrong:
    return lambda root: (root / DIRECTORY / name).write_bytes(content)


def epochs(*entries: tuple[int, int]) -> Wrong:
    return small(paths.LEADER_EPOCH, encode_epochs([EpochStart(*entry) for entry in entries]))


def checkpoint(name: str, offset: int) -> Wrong:
    def act(root: Path) -> None:
        file = root / name
        offsets = dict(read_offsets(file)) if file.exists() else {}
        file.write_bytes(encode_offsets({**offsets, NAME: offset}))

    return act


def junk(name: str) -> Wrong:
    return lambda root: (root / name).write_bytes(b"junk")


def later(entries: list[ProducerEntry]) -> list[ProducerEntry]:
    return [entry._replace(last_sequence=entry.last_sequence + 7) for entry in entries]


def one_more(entries: list[ProducerEntry]) -> list[ProducerEntry]:
    return [*entries, entries[0]._replace(producer_id=999)]


def unpacked(to: Path, wrong: Wrong | None = None) -> Path:
    """The directory as a kill leaves it, with one wrong file."""
    root = to / "data"
    root.mkdir(parents=True)
    root = TRANSACTIONS.unpack("data", root)
    (root / paths.CLEAN_SHUTDOWN).unlink(missing_ok=True)
    checkpoint(paths.RECOVERY_POINT, POINT)(root)
    if wrong:
        wrong(root)
    return root


def recovered(root: Path, *, accept: bool = False) -> Planned:
    planned = plan_of(root, TRANSACTIONS, accept=accept)
    assert set(applied_rows(planned.plan)["outcome"].to_pylist()) <= {"done", "nothing"}
    return planned


def state_of(root: Path) -> dict[str, bytes]:
    """The logs, indexes and small files of the partition, and its recovery point."""
    point = read_offsets(root / paths.RECOVERY_POINT)[NAME]
    files = {path.name: path.read_bytes() for path in (root / DIRECTORY).iterdir()}
    return {**files, paths.RECOVERY_POINT: str(point).encode()}


def reasons(planned: Planned) -> dict[str, str]:
    rows = planned.plan.items.to_pylist()
    return {row["file"]: row["reason"] for row in rows if row["partition_dir"] == DIRECTORY}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What recovery makes of the directory where nothing contradicts."""
    root = unpacked(tmp_path_factory.mktemp("right"))
    recovered(root)
    return state_of(root)


CONTRADICTIONS: Final[dict[str, tuple[Wrong, str, str]]] = {
    "snapshot at the log end, another sequence": (producers(END, later), snapshot(END), "contradicts the log"),
    "snapshot at the log end, a producer more": (producers(END, one_more), snapshot(END), "contradicts the log"),
    "snapshot at the log end, no producers": (producers(END, lambda _: []), snapshot(END), "contradicts the log"),
    "snapshot at a segment, another sequence": (producers(INSIDE, later), snapshot(INSIDE), "contradicts the log"),
    "snapshot above the log end": (small(snapshot(END + 50), encode_snapshot([])), snapshot(END + 50), "above the log end"),
    "snapshot at the log end that is none": (small(snapshot(END), b"xx"), snapshot(END), "2 bytes, the header alone has"),
    "epochs that are none": (small(paths.LEADER_EPOCH, b"junk"), paths.LEADER_EPOCH, "'junk' is not a number"),
    "epochs, an epoch that no batch has": (epochs((9, 0)), paths.LEADER_EPOCH, "contradicts the log"),
    "epochs, two that no batch has": (epochs((0, 0), (3, INSIDE)), paths.LEADER_EPOCH, "contradicts the log"),
    "epochs above the log end": (epochs((0, 0), (7, END + 10)), paths.LEADER_EPOCH, "differs from what the log says"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_small_file_is_named_and_made_from_the_log(
    tmp_path: Path, right: dict[str, bytes], what: str
) -> None:
    wrong, file, reason = CONTRADICTIONS[what]
    root = unpacked(tmp_path, wrong)
    before = contents(root)
    planned = recovered(root)
    assert reason in reasons(planned)[file]
    assert state_of(root) == right
    assert all(not row["error"] for row in undone(planned.plan))
    assert contents(root) == before


def flipped(*offsets: int) -> Wrong:
    """Flip a bit of each snapshot, so that its CRC does not hold."""

    def act(root: Path) -> None:
        for offset in offsets:
            file = root / DIRECTORY / snapshot(offset)
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)

    return act


def lost(*offsets: int) -> Wrong:
    """Delete the snapshots."""

    def act(root: Path) -> None:
        for offset in offsets:
            (root / DIRECTORY / snapshot(offset)).unlink()

    return act


@pytest.mark.parametrize(
    "damaged",
    [(POINT,), (91,), (POINT, 91), (POINT, 91, INSIDE), (POINT, 91, INSIDE, END)],
    ids=str,
)
def test_a_damaged_snapshot_is_named_and_the_producers_are_those_of_a_broker(
    tmp_path: Path, right: dict[str, bytes], damaged: tuple[int, ...]
) -> None:
    """A broker loads the newest readable one up to its recovery point, and replays from there."""
    root = unpacked(tmp_path, flipped(*damaged))
    with LocalExecutor(1) as executor:
        start = predict_start(executor, [root], "4.3.1")
    predicted = next(one for one in start.partitions if one.partition_dir == DIRECTORY)
    planned = recovered(root)
    for offset in damaged:
        assert "CRC" in reasons(planned)[snapshot(offset)]
    gone = {snapshot(91)} if 91 in damaged else set()
    assert state_of(root) == {name: data for name, data in right.items() if name not in gone}
    assert {POINT, INSIDE, END} & set(predicted.snapshots) == {POINT, INSIDE, END}


def emptied(base_offset: int, high_watermark: int = -1) -> Wrong:
    """Empty an .index, and let the high watermark lie in its segment."""

    def act(root: Path) -> None:
        (root / DIRECTORY / paths.segment_file(base_offset, paths.OFFSET_INDEX)).write_bytes(b"")
        if high_watermark >= 0:
            checkpoint(paths.HIGH_WATERMARK, high_watermark)(root)

    return act


@pytest.mark.parametrize(
    ("wrong", "base_offset", "built"),
    [
        (emptied(POINT), POINT, True),
        (emptied(9, high_watermark=50), 9, True),
        (emptied(9, high_watermark=91), 9, False),
        (emptied(9, high_watermark=8), 9, False),
        (emptied(9), 9, False),
    ],
    ids=["recovered", "high watermark", "above it", "below it", "at the log end"],
)
def test_an_empty_index_is_built_where_a_broker_would_read_the_log_instead(
    tmp_path: Path, wrong: Wrong, base_offset: int, built: bool
) -> None:
    """A starting leader looks its high watermark up: without entries from the log's beginning."""
    name = paths.segment_file(base_offset, paths.OFFSET_INDEX)
    before = (unpacked(tmp_path / "before") / DIRECTORY / name).read_bytes()
    root = unpacked(tmp_path / "wrong", wrong)
    planned = recovered(root)
    assert ("no-entries" in reasons(planned).get(name, "")) is built
    after = (root / DIRECTORY / name).read_bytes()
    assert len(after) % 8 == 0
    assert len(after) > len(before) // 2 if built else after == b""


CHECKPOINTS: Final[dict[str, tuple[Wrong, str]]] = {
    "recovery points that are none": (junk(paths.RECOVERY_POINT), "every log is recovered from its start"),
    "high watermarks that are none": (junk(paths.HIGH_WATERMARK), "no log end is compared"),
    "log starts that are none": (junk(paths.LOG_START), "each log starts at its first segment"),
    "cleaner points that are none": (junk(paths.CLEANER), "a broker cleans"),
    "a high watermark above the log end": (checkpoint(paths.HIGH_WATERMARK, END + 20), "below its high watermark"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHECKPOINTS)
def test_a_checkpoint_is_named_and_the_log_believed(
    tmp_path: Path, right: dict[str, bytes], what: str
) -> None:
    from kafkats.recovery.operation import OPERATION

    wrong, reason = CHECKPOINTS[what]
    root = unpacked(tmp_path, wrong)
    planned = recovered(root)
    said = [*planned.remarks, *OPERATION.sentences(planned.plan.header)]
    assert reason in " ".join(said)
    below = f"{root}/{DIRECTORY}: the log ends at {END}, below its high watermark {END + 20}"
    assert any(below in one for one in said) is (what == "a high watermark above the log end")
    assert state_of(root) == right


@pytest.mark.parametrize("file", [paths.RECOVERY_POINT, paths.LOG_START])
def test_offsets_above_the_log_end_are_for_a_person_to_accept(
    tmp_path: Path, right: dict[str, bytes], file: str
) -> None:
    root = unpacked(tmp_path, checkpoint(file, END + 20))
    before = state_of(root)
    planned = recovered(root)
    assert planned.plan.exit_code == 1
    assert any(f"{file} says {END + 20}" in reason for reason in reasons(planned).values())
    assert state_of(root) == before
    recovered(root, accept=True)
    accepted = right if file == paths.RECOVERY_POINT else before  # a broker would delete the log
    assert state_of(root) == accepted


def test_a_snapshot_below_the_recovery_point_is_believed_as_by_a_broker(tmp_path: Path) -> None:
    """What was flushed is not read: verify --deep compares it."""
    root = unpacked(tmp_path, producers(91, later))
    assert snapshot(91) not in reasons(recovered(root))


@pytest.mark.parametrize(
    ("stray", "wrong", "believed"),
    [
        (150, lost(INSIDE, 169, END), False),
        (168, lost(169, END), False),
        (93, flipped(POINT, 91), True),
    ],
    ids=["above the first", "behind the last base", "below the first"],
)
def test_a_snapshot_that_a_merge_of_segments_left_counts_only_where_a_recovery_begins(
    tmp_path: Path, right: dict[str, bytes], stray: int, wrong: Wrong, *, believed: bool
) -> None:
    """Up to the first segment that is recovered a broker loads the newest; those above it deletes."""
    root = unpacked(tmp_path)
    left = one_more(read_snapshot(root / DIRECTORY / snapshot(POINT)))
    (root / DIRECTORY / snapshot(stray)).write_bytes(encode_snapshot(left))
    wrong(root)
    before = contents(root)
    planned = recovered(root)
    at_end = read_snapshot(root / DIRECTORY / snapshot(END))
    assert believed == any(entry.producer_id == 999 for entry in at_end)
    assert believed or state_of(root)[snapshot(END)] == right[snapshot(END)]
    assert all(not row["error"] for row in undone(planned.plan))
    assert contents(root) == before


def test_the_order_of_producers_in_a_snapshot_that_is_believed_stays(tmp_path: Path) -> None:
    """Two producers share a slot of Java's table: their order there is that of their insertion."""

    def colliding(entries: list[ProducerEntry]) -> list[ProducerEntry]:
        return [ProducerEntry(entries[0].producer_id + 1024, 0, 5, 5, 0, 1, -1, -1), *entries]

    root = unpacked(tmp_path, producers(POINT, colliding))
    producers(169, lambda entries: colliding(entries)[::-1])(root)
    producers(INSIDE, later)(root)
    lost(END)(root)
    planned = recovered(root)
    assert {snapshot(INSIDE), snapshot(END)} <= reasons(planned).keys()
    assert snapshot(169) not in reasons(planned)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_small_file_that_is_none_blocks_its_partition(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A plan that would put a file in its place failed at apply."""

    def wrong(root: Path) -> None:
        file = root / DIRECTORY / paths.LEADER_EPOCH
        file.unlink()
        make(file)

    planned = recovered(unpacked(tmp_path, wrong))
    assert reasons(planned) == {paths.LEADER_EPOCH: f"{paths.LEADER_EPOCH}: not a regular file"}
    assert planned.plan.exit_code == 1
