"""Pieces that were listed beside a running broker, read after it has deleted, rewritten, merged or truncated what was listed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import BadInput, Changed, KafkatsError, UsageError, Vanished
from kafkats.formats import v2
from kafkats.formats.model import Record, TimestampType
from kafkats.paths import LOG, OFFSET_INDEX, segment_file
from kafkats.records.piece import Piece
from kafkats.records.plan import ReadOptions, plan_read
from kafkats.records.settled import read_settled
from kafkats.segment.arrow import COLUMNS
from kafkats.segment.reader import open_segment
from tests.builders.locks import broker
from tests.builders.logs import build

BASES = (0, 40, 80, 120)
"""Each segment has ten batches of four records; the last has two of them."""


def batch(first: int, *left: int) -> bytes:
    records = [
        Record(n, 5, TimestampType.CREATE_TIME, b"k", b"v%d" % n)
        for n in left or range(first, first + 4)
    ]
    return v2.encode_batch(records)


def write(directory: Path, base: int, *batches: bytes) -> None:
    """A new file in the segment's place, as the cleaner renames it."""
    log = directory / segment_file(base, LOG)
    log.with_name("new").write_bytes(b"".join(batches))
    log.with_name("new").replace(log)
    with open_segment(log) as view:
        (directory / segment_file(base, OFFSET_INDEX)).write_bytes(
            build(view, base, index_interval_bytes=64).offset_index
        )


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "data"
    (root / "t-0").mkdir(parents=True)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for base in BASES:
        write(
            root / "t-0",
            base,
            *(batch(n) for n in range(base, base + (8 if base == 120 else 40), 4)),
        )
    with broker(root):
        yield root


def read(pieces: list[Piece], told: list[str] | None = None) -> list[int]:
    rows = []
    for piece in pieces:
        for found in read_settled(piece, COLUMNS, on_deleted=None if told is None else told.append):
            rows += found["offset"].to_pylist()
    return rows


def gone(directory: Path, *bases: int) -> None:
    for base in bases:
        for path in directory.glob(f"{base:020d}.*"):
            path.unlink()


def merged(directory: Path) -> None:
    gone(directory, 40, 80)
    write(directory, 0, batch(0, 1, 3), batch(40, 41), batch(44), batch(100, 101, 102))


def cleaned(directory: Path) -> None:
    write(directory, 40, batch(40, 43), batch(76, 76))


def truncated(directory: Path) -> None:
    log = directory / segment_file(120, LOG)
    log.write_bytes(log.read_bytes()[: len(batch(120))])


WHOLE = list(range(128))
CHANGES: list[tuple[Callable[[Path], None], list[int], str]] = [
    (lambda d: gone(d, 0), WHOLE[40:], "the log begins at 40"),
    (lambda d: gone(d, 0, 40, 80), WHOLE[120:], "the log begins at 120"),
    (merged, [1, 3, 41, 44, 45, 46, 47, 101, 102, *WHOLE[120:]], ""),
    (cleaned, [*WHOLE[:40], 43, 76, *WHOLE[80:]], ""),
    (truncated, WHOLE[:124], ""),
    (shutil.rmtree, [], "the partition's directory is gone"),
]


@pytest.mark.slow(1)
@pytest.mark.parametrize("piece_bytes", [1, 400, 1 << 20])
@pytest.mark.parametrize(
    ("change", "expected", "said"),
    CHANGES,
    ids=["one", "three", "merged", "cleaned", "cut", "topic"],
)
def test_each_record_that_is_left_comes_once(
    root: Path, change: Callable[[Path], None], expected: list[int], said: str, piece_bytes: int
) -> None:
    pieces = plan_read([root], ReadOptions(piece_bytes=piece_bytes))
    assert (len(pieces) > 4) == (piece_bytes < 1 << 20)
    assert read(pieces) == WHOLE
    change(root / "t-0")
    told: list[str] = []
    assert read(pieces, told) == expected
    assert bool(told) == bool(said)
    assert all(one.startswith("t-0: offsets ") and one.endswith(said) for one in told)


@pytest.mark.parametrize(
    "change",
    [lambda d: gone(d, 40), lambda d: gone(d, 0), shutil.rmtree],
    ids=["mid", "front", "topic"],
)
def test_while_it_is_being_read(root: Path, change: Callable[[Path], None]) -> None:
    """The file that is open stays: what has begun is read to its end."""
    pieces = plan_read([root], ReadOptions())
    reading = iter(read_settled(pieces[0], COLUMNS))
    first = next(reading)["offset"].to_pylist()
    change(root / "t-0")
    assert first + [n for found in reading for n in found["offset"].to_pylist()] == WHOLE[:40]


def test_what_no_broker_deletes_alone_is_an_error(root: Path) -> None:
    pieces = plan_read([root], ReadOptions())
    gone(root / "t-0", 40)
    with pytest.raises(Vanished, match=segment_file(40, LOG)):
        read(pieces)


def test_offsets_that_were_asked_for_must_be_there(root: Path) -> None:
    wanted: Any = {"starting_offsets": {("t", 0): 20}}
    pieces = plan_read([root], ReadOptions(**wanted))
    lenient = plan_read([root], ReadOptions(**wanted, fail_on_data_loss=False))
    gone(root / "t-0", 0)
    with pytest.raises(Vanished, match=r"offsets 20 to 39 were deleted .* failOnDataLoss=false"):
        read(pieces)
    assert read(lenient) == WHOLE[40:]


def test_a_change_while_it_is_planned(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index and the log of a listed segment go before they are opened: the directory is listed again."""
    from kafkats.records import plan

    cut, done = plan._cut, []

    def cutting(unit: Any, *more: Any) -> Any:
        if not done:
            done.append(unit)
            gone(root / "t-0", 0)
        return cut(unit, *more)

    monkeypatch.setattr(plan, "_cut", cutting)
    assert read(plan_read([root], ReadOptions(piece_bytes=1))) == WHOLE[40:]


def test_without_a_broker_nothing_goes(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    write(tmp_path / "t-0", 0, batch(0))
    pieces = plan_read([tmp_path / "t-0"], ReadOptions())
    gone(tmp_path / "t-0", 0)
    with pytest.raises(KafkatsError) as e:
        read(pieces)
    assert isinstance(e.value, Vanished) and not isinstance(e.value, Changed)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The same directory without a broker."""
    root = tmp_path / "stopped"
    (root / "t-0").mkdir(parents=True)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for base in BASES:
        write(root / "t-0", base, *(batch(n) for n in range(base, base + 40, 4)))
    return root


@pytest.mark.parametrize("piece_bytes", [1, 1 << 30])
@pytest.mark.parametrize("lost", [40, 80])
def test_a_lost_segment_is_an_error_or_told(stopped: Path, lost: int, piece_bytes: int) -> None:
    gone(stopped / "t-0", lost)
    strict = plan_read([stopped], ReadOptions(piece_bytes=piece_bytes))
    with pytest.raises(BadInput, match=f"offsets {lost} to {lost + 39} are missing"):
        read(strict)
    told: list[str] = []
    lenient = ReadOptions(piece_bytes=piece_bytes, fail_on_data_loss=False)
    offsets = read(plan_read([stopped], lenient), told)
    assert offsets == [n for n in range(160) if n not in range(lost, lost + 40)]
    assert len(told) == 1 and f"offsets {lost} to {lost + 39} are missing" in told[0]


def test_an_emptied_segment_is_an_error(stopped: Path) -> None:
    (stopped / "t-0" / segment_file(80, LOG)).write_bytes(b"")
    with pytest.raises(BadInput, match="offsets 80 to 119 are missing"):
        read(plan_read([stopped], ReadOptions()))


def test_what_the_cleaner_removed_is_no_error(stopped: Path) -> None:
    write(stopped / "t-0", 40, batch(40, 40, 42))
    assert len(read(plan_read([stopped], ReadOptions()))) == 160 - 38


def test_a_gap_outside_of_what_is_wanted_is_no_error(stopped: Path) -> None:
    gone(stopped / "t-0", 80)
    options = ReadOptions(ending_offsets={("t", 0): 40})
    assert read(plan_read([stopped], options)) == list(range(40))


def test_topics_that_match_nothing_are_an_error(stopped: Path) -> None:
    with pytest.raises(UsageError, match="nothing here matches nosuch"):
        plan_read([stopped], ReadOptions(topics=("nosuch",)))
