"""Many segments at once against the reference, `check_tail`: what is sound has its facts, and nothing else is sound."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkats.errors import CorruptBatch, KafkatsError
from kafkats.index import ends
from kafkats.index.ends import Place, facts_of, read_bytes, sound_ends, sound_tails
from kafkats.index.tail import read_tail
from kafkats.index.tail_check import TailCheck, check_tail
from kafkats.kernels import ends_state as e
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, parse_segment_file
from kafkats.segment.reader import read_so_far
from tests.builders.logs import build
from tests.golden import Unpacked, partitions, states
from tests.index.damages import damages
from tests.kernels.inputs import Case, cases, sample

KINDS = (LOG, OFFSET_INDEX, TIME_INDEX)


def listed(directory: Path) -> tuple[list[int], np.ndarray]:
    """The segments of a directory as a listing knows them: bases and sizes."""
    bases = sorted(
        file.base_offset
        for name in os.listdir(directory)
        if (file := parse_segment_file(name)) and file.kind == LOG and not file.suffix
    )
    sizes = [
        [path.stat().st_size if path.is_file() else -1 for path in files(directory, base)]
        for base in bases
    ]
    return bases, np.array(sizes, np.int64).reshape(-1, 3)


def files(directory: Path, base: int) -> list[Path]:
    return [directory / f"{base:020d}{kind}" for kind in KINDS]


def reference(log: Path, *, active: bool = False, live: bool = False) -> TailCheck | None:
    try:
        return check_tail(log, active=active, live=live)
    except KafkatsError:
        return None


def left_alone(directory: Path, base: int) -> bool:
    """Whether the kernels leave the segment to the reference, sound or not."""
    log, _, times = files(directory, base)
    if not all(path.exists() for path in files(directory, base)):
        return True
    head = log.read_bytes()[: e.HEAD_BYTES]
    begin = int.from_bytes(head[:8], "big", signed=True)
    return (
        len(head) < e.HEAD_BYTES or head[16] > 2 or begin < base or times.read_bytes() == bytes(12)
    )


def agree(directory: Path) -> list[int]:
    """Hold all segments of a directory against the reference. Return SOUND of each."""
    bases, sizes = listed(directory)
    before = read_so_far()
    rows = sound_ends([Place(directory, len(bases))], bases, sizes)
    sound = rows[:, e.SOUND] == 1
    assert read_so_far() - before == read_bytes(rows)[sound].sum()
    for base, row, bytes_read in zip(bases, rows.tolist(), read_bytes(rows), strict=True):
        log, before = files(directory, base)[0], read_so_far()
        check = reference(log)
        if not row[e.SOUND]:
            fine = check is not None and not check.doubt and not check.findings
            assert not fine or left_alone(directory, base), check
            continue
        assert read_so_far() - before == bytes_read
        assert check == (facts_of(row), (), "")
        assert check == reference(log, active=True, live=True)
    return rows[:, e.SOUND].tolist()


def agree_on_tails(directory: Path) -> list[int]:
    """Hold the look at the last entries against `read_tail`. Return SOUND of each segment."""
    bases, sizes = listed(directory)
    rows = sound_tails([Place(directory, len(bases))], bases, sizes)
    for base, row in zip(bases, rows.tolist(), strict=True):
        for moving in (False, True) if row[e.SOUND] else ():
            tail = read_tail(files(directory, base)[0], active=moving, live=moving)
            assert tail == (facts_of(row), ())
    return rows[:, e.SOUND].tolist()


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", ["matrix", "timestamps", "torn-append"])
def test_the_segments_of_real_directories(golden: Unpacked, kind: str) -> None:
    found = [
        sound
        for one, state in states(kind)
        for directory in partitions(golden(one, state))
        for sound in (*agree(directory), *agree_on_tails(directory))
    ]
    assert sum(found) > 0


def written(directory: Path, case: Case) -> None:
    """Write a case as a segment: without entries of its own with those that a rebuild gives."""
    log, offsets, times = files(directory, case.base_offset)
    log.write_bytes(case.log)
    entries = (case.offset_entries, case.time_entries)
    if not any(entries):
        try:
            built = build(
                np.frombuffer(case.log, np.uint8), case.base_offset, index_interval_bytes=1
            )
            entries = (built.offset_index, built.time_index)
        except CorruptBatch:
            pass
    offsets.write_bytes(entries[0])
    times.write_bytes(entries[1])


@pytest.mark.slow(4)
def test_extreme_numbers_in_every_field(tmp_path: Path) -> None:
    found = []
    for case in cases() if os.environ.get("KAFKATS_FULL") else sample():
        written(tmp_path, case)
        found += agree(tmp_path) + agree_on_tails(tmp_path)
        for path in files(tmp_path, case.base_offset):
            path.unlink()
    assert 20 < sum(found) < len(found)


@pytest.fixture(scope="module")
def source(golden: Unpacked) -> Path:
    """A partition directory with several segments that have entries."""
    root = golden("matrix-4.3.1-v2", "data")
    return max(partitions(root), key=lambda d: sum(f.stat().st_size for f in d.glob("*.index")))


def cut_or_turned(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    n, value, cut = draw(st.integers(0, 2**20)), draw(st.integers(0, 255)), draw(st.booleans())
    from_end = draw(st.booleans())

    def change(data: bytes) -> bytes:
        at = n % max(len(data), 1)
        at = len(data) - 1 - at % 200 if from_end else at
        return data[:at] if cut else data[:at] + bytes([value]) + data[at + 1 :]

    return change


@pytest.mark.slow(1)
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    offsets=st.none() | damages(),
    times=st.none() | damages(),
    log=st.none() | st.composite(cut_or_turned)(),
)
def test_random_damages(
    source: Path,
    tmp_path: Path,
    offsets: Callable[[bytes], bytes | None] | None,
    times: Callable[[bytes], bytes | None] | None,
    log: Callable[[bytes], bytes] | None,
) -> None:
    copy = tmp_path / source.name
    shutil.copytree(source, copy, dirs_exist_ok=True)
    for base in listed(copy)[0]:
        for path, change in zip(files(copy, base), (log, offsets, times), strict=True):
            data = change(path.read_bytes()) if change else path.read_bytes()
            path.unlink() if data is None else path.write_bytes(data)
    agree(copy)
    agree_on_tails(copy)
    shutil.rmtree(copy)


def test_a_whole_directory_is_sound(source: Path) -> None:
    assert agree(source) and all(agree(source)) and all(agree_on_tails(source))


def test_files_that_changed_since_they_were_listed_are_left_alone(
    source: Path, tmp_path: Path
) -> None:
    copy = tmp_path / source.name
    shutil.copytree(source, copy)
    bases, sizes = listed(copy)
    for column, path in enumerate(files(copy, bases[0])):
        other = sizes.copy()
        for size in (int(sizes[0, column]) + 1, int(sizes[0, column]) - 1):
            other[0, column] = size
            assert sound_ends([Place(copy, len(bases))], bases, other)[0, e.SOUND] == 0, path
    assert not sound_ends([Place(tmp_path / "gone", len(bases))], bases, sizes)[:, e.SOUND].any()


def test_links_pipes_and_missing_files_are_left_alone(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / source.name
    shutil.copytree(source, copy)
    bases, sizes = listed(copy)
    first = files(copy, bases[0])
    first[1].unlink()
    os.mkfifo(first[1])
    assert sound_ends([Place(copy, len(bases))], bases, sizes)[0, e.SOUND] == 0
    assert sound_ends([Place(copy, len(bases))], bases, sizes)[1:, e.SOUND].all()
    sizes[0, 1] = -1
    assert sound_ends([Place(copy, len(bases))], bases, sizes)[0, e.SOUND] == 0


def test_a_small_room_gives_the_same(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bases, sizes = listed(source)
    whole = sound_ends([Place(source, len(bases))], bases, sizes)
    room = int(sizes.max()) + 100
    monkeypatch.setattr(ends, "_ROOM", room)
    monkeypatch.setattr(ends, "_rooms", ends._Rooms())
    again = sound_ends([Place(source, len(bases))], bases, sizes)
    assert sizes.sum() > 2 * room
    same = [n for n in range(e.COLUMNS) if n not in (e.OFFSETS, e.TIMES, e.HEAD, e.TAIL)]
    assert (whole[:, same] == again[:, same]).all()


def test_an_end_larger_than_the_room_is_left_alone(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "_MOST", 10)
    bases, sizes = listed(source)
    sizes[:, 1:] = 0
    assert not sound_ends([Place(source, len(bases))], bases, sizes)[:, e.SOUND].any()
