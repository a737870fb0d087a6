"""Transaction indexes, leader epochs and producer snapshots of real brokers, changed: `verify --deep` finds each change."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.compression.checksums import crc32c
from kafkats.evidence.epochs import EpochCheck
from kafkats.index import txn_index
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.checkpoints import EpochStart, read_epochs
from kafkats.logdir.snapshot import ProducerEntry, encode_snapshot, read_snapshot
from kafkats.plans.units import list_units
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import open_source
from tests.golden import Unpacked

CASES = ("transactions-0.11.0.3", "transactions-2.8.2", "transactions-3.9.1", "transactions-4.3.1")
OURS = {"wrong-epoch", "missing-aborted", "wrong-aborted", "wrong-producers"}


@pytest.fixture(params=CASES)
def partition(request: pytest.FixtureRequest, golden: Unpacked, tmp_path: Path) -> Path:
    """txn-0 of a cleanly stopped broker, in a root of its own."""
    shutil.copytree(golden(request.param, "data"), tmp_path / "data")
    return tmp_path / "data" / "txn-0"


def found(partition: Path, *, deep: bool = True) -> list[dict[str, Any]]:
    rows = [
        row
        for unit in list_units([partition.parent], topics="txn")
        for row in verify_unit(unit, VerifyOptions(deep=deep)).to_pylist()
    ]
    return [
        finding
        for row in rows
        for finding in row["findings"]
        if finding["severity"] in ("damage", "danger")
    ]


def told(partition: Path) -> list[tuple[str, str]]:
    """Kind and file of every alarm; all of them must be of this room, and be damage."""
    findings = found(partition)
    assert {finding["kind"] for finding in findings} <= OURS
    assert {finding["severity"] for finding in findings} <= {"damage"}
    return [(finding["kind"], finding["file"]) for finding in findings]


def _alarms(partition: Path) -> list[tuple[str, str]]:
    found = []
    for unit in list_units([partition.parent], topics=partition.name.rpartition("-")[0]):
        for row in verify_unit(unit, VerifyOptions(deep=True)).to_pylist():
            found += [
                (f["kind"], f["file"])
                for f in row["findings"]
                if f["severity"] in ("damage", "danger")
            ]
    return found


def indexes(partition: Path) -> list[Path]:
    return sorted(path for path in partition.glob("*.txnindex") if path.stat().st_size)


def test_untouched(partition: Path) -> None:
    assert len(indexes(partition)) >= 2
    assert told(partition) == []


@pytest.mark.parametrize("gone", [True, False])
def test_an_index_without_its_entries(partition: Path, gone: bool) -> None:
    for index in indexes(partition):
        content = index.read_bytes()
        index.unlink() if gone else index.write_bytes(b"")
        assert told(partition) == [("missing-aborted", index.name)]
        index.write_bytes(content)


def test_an_index_without_one_of_its_entries(partition: Path) -> None:
    index = indexes(partition)[0]
    content = index.read_bytes()
    assert len(content) > 2 * txn_index.ENTRY_SIZE
    for n in range(0, len(content), txn_index.ENTRY_SIZE):
        index.write_bytes(content[:n] + content[n + txn_index.ENTRY_SIZE :])
        assert told(partition) == [("missing-aborted", index.name)]


@pytest.mark.parametrize("name", ["cleaned-left-0", "swap-log-only-0"])
@pytest.mark.parametrize("case", ["clean-start-1.1.1", "clean-start-4.3.1"])
def test_an_index_beside_an_unfinished_replacement(
    golden: Unpacked, tmp_path: Path, case: str, name: str
) -> None:
    """The broker finishes or forgets the replacement, and keeps the index of every other segment."""
    shutil.copytree(golden(case, "before"), tmp_path / "data")
    (index,) = indexes(tmp_path / "data" / name)
    assert index.stem != "0" * 20  # the one that is replaced
    content, alarms = index.read_bytes(), lambda: _alarms(tmp_path / "data" / name)
    assert alarms() == []
    index.write_bytes(b"")
    assert alarms() == [("missing-aborted", index.name)]
    index.write_bytes(content[:10] + struct.pack(">q", 2**40) + content[18:])
    assert alarms() == [("wrong-aborted", index.name)]


@pytest.mark.examples(16)
@pytest.mark.parametrize(
    "field", ["producer_id", "first_offset", "last_offset", "last_stable_offset"]
)
@pytest.mark.parametrize("by", [1, -1, 7])
def test_an_altered_entry(partition: Path, field: str, by: int) -> None:
    index = indexes(partition)[-1]
    entries = txn_index.read(index).copy()
    for n in range(len(entries)):
        altered = entries.copy()
        altered[field][n] += by
        index.write_bytes(altered.tobytes())
        kinds = {kind for kind, file in told(partition) if file == index.name}
        assert kinds and kinds <= {"wrong-aborted", "missing-aborted", "below-base"}, (
            n,
            altered[n],
        )


def test_another_segments_index(partition: Path) -> None:
    first, second, *_ = indexes(partition)
    first.write_bytes(second.read_bytes())
    assert ("wrong-aborted", first.name) in told(partition)


def batches(log: Path) -> Iterator[tuple[int, int]]:
    """Position and leader epoch."""
    from kafkats.kernels import headers_state as k

    with open_source(log) as source:
        for rows in batch_headers(source):
            yield from zip(rows[:, k.AT].tolist(), rows[:, k.LEADER_EPOCH].tolist(), strict=True)


def set_epoch(log: Path, position: int, epoch: int) -> None:
    with log.open("r+b") as file:
        file.seek(position + 12)
        file.write(struct.pack(">i", epoch))


@pytest.mark.slow(1)
def test_changed_epochs(partition: Path) -> None:
    for log in sorted(partition.glob("*.log")):
        for position, epoch in list(batches(log))[:3]:
            for other in (epoch + 1, 2**31 - 1, epoch - 1):
                if other < 0:
                    continue
                set_epoch(log, position, other)
                assert told(partition) == [("wrong-epoch", log.name)]
            set_epoch(log, position, epoch)
    assert told(partition) == []


def test_the_epochs_of_a_whole_log(partition: Path) -> None:
    logs = sorted(partition.glob("*.log"))
    for log in logs:
        for position, epoch in batches(log):
            set_epoch(log, position, epoch + 5)
    assert told(partition) == [("wrong-epoch", log.name) for log in logs]


def test_an_altered_checkpoint_of_epochs(partition: Path) -> None:
    epochs = read_epochs(partition / paths.LEADER_EPOCH)
    (partition / paths.LEADER_EPOCH).write_text(
        f"0\n1\n{epochs[0].epoch + 3} {epochs[0].start_offset}\n"
    )
    assert {kind for kind, _ in told(partition)} == {"wrong-epoch"}


def test_epochs_that_fall_without_a_checkpoint(partition: Path) -> None:
    (partition / paths.LEADER_EPOCH).unlink()
    assert told(partition) == []
    log = sorted(partition.glob("*.log"))[1]
    position, epoch = next(iter(batches(log)))
    set_epoch(log, position, epoch + 1)
    assert ("wrong-epoch", log.name) in told(partition)


SNAPSHOTS: dict[str, Callable[[ProducerEntry], ProducerEntry]] = {
    "another producer": lambda e: e._replace(producer_id=e.producer_id + 1000),
    "a later batch": lambda e: e._replace(
        last_offset=e.last_offset + 1, offset_delta=e.offset_delta + 1
    ),
    "an earlier batch": lambda e: e._replace(last_offset=e.last_offset - 2),
    "a batch behind the end": lambda e: e._replace(last_offset=e.last_offset + 10_000),
    "a transaction": lambda e: e._replace(txn_first_offset=max(e.last_offset, 0)),
}


def newest(partition: Path) -> list[Path]:
    """The snapshots with producers, newest first."""
    return [
        path for path in sorted(partition.glob("*.snapshot"), reverse=True) if read_snapshot(path)
    ]


@pytest.mark.parametrize("what", SNAPSHOTS)
def test_an_altered_snapshot(partition: Path, what: str) -> None:
    for path in newest(partition)[:3]:
        content = path.read_bytes()
        entries = read_snapshot(path)
        n = max(range(len(entries)), key=lambda i: entries[i].last_offset)
        entries[n] = SNAPSHOTS[what](entries[n])
        path.write_bytes(encode_snapshot(entries))
        assert told(partition) == [("wrong-producers", path.name)]
        path.write_bytes(content)


@pytest.mark.parametrize("field", ["producer_epoch", "last_sequence", "offset_delta"])
def test_an_altered_field_of_a_batch(partition: Path, field: str) -> None:
    path = newest(partition)[0]
    entries = read_snapshot(path)
    n = next(i for i, e in enumerate(entries) if _is_last(partition, e))
    entries[n] = entries[n]._replace(**{field: getattr(entries[n], field) + 3})
    path.write_bytes(encode_snapshot(entries))
    assert told(partition) == [("wrong-producers", path.name)]


def _is_last(partition: Path, entry: ProducerEntry) -> bool:
    """Nothing of the producer, no marker either, lies behind the batch that its entry names."""
    from kafkats.kernels import headers_state as k

    last = -1
    for log in sorted(partition.glob("*.log")):
        with open_source(log) as source:
            for rows in batch_headers(source):
                own = rows[rows[:, k.PRODUCER_ID] == entry.producer_id]
                last = max([last, *own[:, k.LAST_OFFSET].tolist()])
    return last == entry.last_offset


def test_the_snapshot_of_another_partition(partition: Path, golden: Unpacked) -> None:
    foreign = golden("rolling-4.3.1", "data") / "by-bytes-0" / "00000000000000000120.snapshot"
    other = partition.parent / "txn-open-0"
    for source in (foreign, *sorted(other.glob("*.snapshot"))[-1:]):
        if not read_snapshot(source):
            continue
        for path in newest(partition)[:2]:
            content = path.read_bytes()
            path.write_bytes(source.read_bytes())
            assert ("wrong-producers", path.name) in told(partition), source
            path.write_bytes(content)


def test_an_open_transaction_that_a_snapshot_lacks(golden: Unpacked, tmp_path: Path) -> None:
    shutil.copytree(golden("transactions-4.3.1", "data"), tmp_path / "data")
    path = sorted((tmp_path / "data" / "txn-open-0").glob("*.snapshot"))[-1]
    path.write_bytes(encode_snapshot([]))
    rows = [
        row
        for unit in list_units([tmp_path / "data"], topics="txn-open")
        for row in verify_unit(unit, VerifyOptions(deep=True)).to_pylist()
    ]
    kinds = {
        (f["kind"], f["file"]) for row in rows for f in row["findings"] if f["severity"] == "damage"
    }
    assert kinds == {("wrong-producers", path.name)}


def test_without_deep_none_of_it_is_looked_for(partition: Path) -> None:
    indexes(partition)[0].write_bytes(b"")
    assert found(partition, deep=False) == []


def test_a_checksum_covers_a_snapshot_still(partition: Path) -> None:
    path = newest(partition)[0]
    content = bytearray(path.read_bytes())
    assert struct.unpack(">I", content[2:6])[0] == crc32c(bytes(content[6:]))
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    assert [finding["kind"] for finding in found(partition)] == ["unreadable"]


def test_epochs_newer_than_the_checkpoint_after_an_unclean_stop() -> None:
    import numpy as np

    from kafkats.kernels import headers_state as k

    rows = np.full((3, k.COLUMNS), -1, np.int64)
    rows[:, k.AT], rows[:, k.FIRST_OFFSET], rows[:, k.LEADER_EPOCH] = (
        [0, 100, 200],
        [0, 10, 20],
        [1, 1, 2],
    )
    for flushed_to, kinds in ((20, []), (21, ["wrong-epoch"])):
        check = EpochCheck([EpochStart(1, 0)], flushed_to)
        check.add(rows)
        assert [finding.kind for finding in check.findings("x.log")] == kinds
