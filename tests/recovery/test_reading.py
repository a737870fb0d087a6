"""Logs of formats that a broker does not know, as brokers 0.8.2.2, 0.9.0.1 and 0.10.2.2 left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.evidence.claims import Claims
from kafkats.formats.framing import MAGIC_AT, OVERHEAD
from kafkats.logdir.partition import scan_partition
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.reading import epochs_in, recover
from kafkats.recovery.rules import start_rule
from tests.builders.partitions import batch
from tests.golden import Unpacked
from tests.recovery.mixed_logs import write_log

_OLDER = ("0.8.2", "0.9.0", "0.10.2")
_MAGIC_2 = ("clean-start-2.8.2", "before", "untouched-0")
_UPGRADED = "upgrade-0.9-to-2.8", "data"


def _start(directory: Path, kafka: str, recovery_point: int, *, clean: bool) -> PartitionStart:
    claims = Claims(recovery_point=recovery_point, log_start=0, rooted=True, clean=clean)
    partition = scan_partition(directory)
    return predict(partition, claims, start_rule(kafka), log_dir=str(directory.parent))


@pytest.mark.parametrize("kafka", _OLDER)
@pytest.mark.parametrize(
    ("place", "end"),
    [
        (_MAGIC_2, 98),
        ((*_UPGRADED, "gzip-one-segment-0"), 131),
        ((*_UPGRADED, "lz4-one-segment-0"), 0),
        ((*_UPGRADED, "none-many-segments-0"), 121),
        (("matrix-2.8.2-v2", "data", "gzip-lat-0"), 103),
        (("matrix-2.8.2-v2", "data", "lz4-ct-0"), 200),
    ],
)
def test_the_log_end_is_that_of_the_last_batchs_first_offset(
    kafka: str, place: tuple[str, str, str], end: int, golden: Unpacked
) -> None:
    """Or the base offset, where the index names a later offset than the batches begin with."""
    start = _start(golden(*place[:2]) / place[2], kafka, 0, clean=True)
    assert (start.outcome, start.log_end_offset, start.recovered) == ("loads", end, ())
    assert start.loses
    assert "bad-magic" in {finding.kind for finding in start.findings}


@pytest.mark.parametrize("kafka", ["0.9.0", "0.10.2"])
@pytest.mark.parametrize(
    ("partition", "recovery_point", "cut", "deleted"),
    [
        ("none-many-segments-0", 0, (32, 2595, 2017), (48, 71, 88, 111)),
        ("none-many-segments-0", 111, (111, 2323, 0), ()),
        ("none-one-segment-0", 0, (0, 17095, 5806), ()),
    ],
)
def test_a_recovery_cuts_a_log_at_its_first_batch_of_magic_2(
    kafka: str,
    partition: str,
    recovery_point: int,
    cut: tuple[int, int, int],
    deleted: tuple[int, ...],
    golden: Unpacked,
) -> None:
    start = _start(golden(*_UPGRADED) / partition, kafka, recovery_point, clean=False)
    cuts = [(r.base_offset, r.log_bytes, r.cut_to) for r in start.recovered if r.cut_bytes]
    assert (cuts, start.deleted) == ([cut], deleted)
    end = 111 if recovery_point else 44
    assert (start.log_end_offset, start.lost_offsets) == (end, 132 - end)


def test_a_segment_of_magic_2_only_is_emptied(golden: Unpacked) -> None:
    case, state, partition = _MAGIC_2
    start = _start(golden(case, state) / partition, "0.10.2", 0, clean=False)
    assert (start.log_end_offset, start.deleted) == (0, (30, 42, 67, 97))
    assert (start.lost_offsets, start.cut_bytes) == (100, 1488)
    newer = _start(golden(case, state) / partition, "0.11.0", 0, clean=False)
    assert (newer.log_end_offset, newer.deleted, newer.cut_bytes) == (100, (), 0)


@pytest.mark.parametrize(
    ("kafka", "magics", "found"),
    [
        ("0.9.0", "00", ""),
        ("0.9.0", "01", "1 segment has batches of magic 1, a format"),
        ("0.10.2", "01", ""),
        ("0.10.2", "12", "1 segment has batches of magic 2, a format"),
        ("0.11.0", "12", ""),
    ],
)
def test_a_format_that_cannot_be_read_is_a_finding(
    kafka: str, magics: str, found: str, tmp_path: Path
) -> None:
    write_log(tmp_path / "p-0", [magics])
    start = _start(tmp_path / "p-0", kafka, 0, clean=True)
    reasons = [finding.reason for finding in start.findings]
    assert any(found in reason for reason in reasons) if found else reasons == []


def test_compressed_messages_of_magic_1_mostly_stop_a_recovery_by_0_9(golden: Unpacked) -> None:
    """Broker 0.9.0.1 ended with IndexOutOfBoundsException; uncompressed ones it recovered."""
    root = golden("matrix-0.10.2.2-v1", "data")
    start = _start(root / "gzip-ct-0", "0.9.0", 0, clean=False)
    assert start.outcome == "unknown"
    assert "compressed messages of magic 1" in start.words
    start = _start(root / "none-ct-0", "0.9.0", 0, clean=False)
    assert (start.outcome, start.log_end_offset, start.cut_bytes) == ("loads", 200, 0)


def _with_magic(directory: Path, magics: str, number: int, magic: int) -> None:
    write_log(directory, [magics])
    log = next(directory.glob("*.log"))
    data, at = bytearray(log.read_bytes()), 0
    for _ in range(number):
        at += OVERHEAD + int.from_bytes(data[at + 8 : at + OVERHEAD], "big")
    data[at + MAGIC_AT] = magic
    log.write_bytes(data)


@pytest.mark.parametrize("kafka", _OLDER)
@pytest.mark.parametrize(("magics", "number"), [("2222", 0), ("1122", 2)])
def test_a_recovery_cuts_at_a_magic_above_2_as_at_2(
    magics: str, number: int, kafka: str, tmp_path: Path
) -> None:
    """No checksum of magic 2 covers the magic, so brokers from 0.11 on read the batch."""
    _with_magic(tmp_path / "p-0", magics, number, 5)
    start = _start(tmp_path / "p-0", kafka, 0, clean=False)
    assert (start.outcome, start.log_end_offset) == ("loads", number)
    assert "bad-crc" in {finding.kind for finding in start.findings}


@pytest.mark.parametrize("kafka", _OLDER)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("magic", [5, 128, 255])
def test_a_log_end_lies_behind_batches_of_any_magic(
    magic: int, number: int, kafka: str, tmp_path: Path
) -> None:
    _with_magic(tmp_path / "p-0", "1222", number, magic)
    start = _start(tmp_path / "p-0", kafka, 0, clean=True)
    assert (start.outcome, start.log_end_offset) == ("loads", 4)
    newest = [f.reason.split(",")[0] for f in start.findings if f.kind == "bad-magic"]
    assert newest == [f"1 segment has batches of magic {5 if magic == 5 else 2}"]


def _with_epochs(log: Path, *epochs: int) -> int:
    """Write a batch of two records per epoch. Returns the bytes."""
    return log.write_bytes(
        b"".join(batch(2 * n, 1, 2, leader_epoch=epoch) for n, epoch in enumerate(epochs))
    )


@pytest.mark.parametrize(
    ("epochs", "known", "begun"),
    [
        ([3] * 200, -1, [(3, 0)]),
        ([3] * 200, 3, []),
        ([-1] * 150 + [0] * 10 + [4] * 100, -1, [(0, 300), (4, 320)]),
        ([5] * 100 + [4] * 100 + [7], 5, [(7, 400)]),
    ],
)
def test_epochs_begin_where_the_batches_begin_them(
    epochs: list[int], known: int, begun: list[tuple[int, int]], tmp_path: Path
) -> None:
    log = tmp_path / "00000000000000000000.log"
    size = _with_epochs(log, *epochs)
    assert [tuple(e) for e in epochs_in(log, size, known, max(epochs))] == begun
    assert tuple(recover(log, 0))[:4] == (size, 2 * len(epochs), size, max(epochs))


def test_no_batch_behind_the_highest_epoch_is_read(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    size = _with_epochs(log, *[2] * 100, 6)
    assert [e.epoch for e in epochs_in(log, size, -1, 2)] == [2]
    assert [e.epoch for e in epochs_in(log, size, -1, 6)] == [2, 6]


@pytest.mark.parametrize("kafka", ["0.10.2", "2.8", "4.3"])
@pytest.mark.parametrize(
    ("kept", "behind", "loses"),
    [(11, 0, False), (30, 0, False), (65, 0, True), (12, 1, True)],
    ids=["a few bytes", "no whole header", "a header that names an offset", "a whole batch behind"],
)
def test_an_unfinished_batch_that_names_no_offset_is_no_loss(
    kept: int, behind: int, loses: bool, kafka: str, tmp_path: Path
) -> None:
    """`behind`: this many whole batches follow on a frame whose size was damaged."""
    letter = "1" if kafka == "0.10.2" else "2"
    directory = tmp_path / "p-0"
    write_log(directory, [letter * 5])
    log = directory / "00000000000000000000.log"
    whole = log.read_bytes()
    size = len(whole) // 5
    torn = whole[3 * size : 3 * size + kept]
    if behind:
        torn = torn[:8] + (1 << 20).to_bytes(4, "big") + whole[4 * size :]
    if kept == 65 and letter == "1":
        torn, loses = whole[3 * size : 4 * size - 1], False  # its header names no last offset
    log.write_bytes(whole[: 3 * size] + torn)
    start = _start(directory, kafka, 0, clean=False)
    assert (start.log_end_offset, start.cut_bytes, start.loses) == (3, len(torn), loses)
    assert start.lost_offsets == ((1 + behind) if loses else 0)
    assert _start(directory, kafka, 0, clean=True).loses, "new batches are appended behind it"
