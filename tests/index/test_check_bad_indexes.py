"""Indexes cut at every byte, flipped at every byte, padded, swapped and made of text, through `check_segment`.

Whatever the bytes, an index is called sound exactly when it is (conformance/soundness.py), and a defective one has a
finding that names the file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.soundness import extents, offset_index_is_sound, time_index_is_sound
from kafkats.errors import KafkatsError
from kafkats.findings import KINDS
from kafkats.generations import DEFAULT_RULE
from kafkats.index.check import SegmentCheck, check_segment
from tests.golden import Unpacked

SEGMENTS = (
    ("matrix-4.3.1-v2", "data", "none-ct-0"),
    ("matrix-2.8.2-v1", "data", "gzip-ct-0"),
    ("matrix-0.10.2.2-v1", "data", "none-lat-0"),
    ("matrix-2.8.2-v0", "data", "none-ct-0"),
    ("timestamps-4.1.0", "data", "ts-shuffled-0"),
    ("compaction-3.9.1", "after", "keep-tombstones-0"),
)


class Subject:
    """A private copy of the partition's second segment (base offset above 0), or of its only one."""

    def __init__(
        self, golden: Unpacked, case: str, state: str, partition: str, folder: Path
    ) -> None:
        found = [s for s in golden.segments_of(case, state, partition) if s.log.stat().st_size]
        self.segment = next((s for s in found if s.base_offset and _entries(s.log)), found[0])
        self.log = folder / self.segment.log.name
        for kind in (".log", ".index", ".timeindex"):
            shutil.copyfile(self.segment.log.with_suffix(kind), self.log.with_suffix(kind))
        self.extents = extents(self.log.read_bytes())
        self.index = self.log.with_suffix(".index")
        self.timeindex = self.log.with_suffix(".timeindex")

    def check(self) -> SegmentCheck:
        return check_segment(
            self.log,
            rule=DEFAULT_RULE,
            index_interval_bytes=self.segment.interval,
            segment_index_bytes=self.segment.index_bytes,
        )

    def judge(self, path: Path) -> SegmentCheck:
        """Check, and hold the verdict on that file against the slow definition."""
        answer = self.check()
        content = path.read_bytes()
        is_sound = offset_index_is_sound if path == self.index else time_index_is_sound
        sound = is_sound(content, self.segment.base_offset, self.extents)
        state = answer.offset_index if path == self.index else answer.time_index
        about = [f for f in answer.findings if f.file == path.name]
        damage = [f for f in about if f.severity in ("damage", "danger")]
        what = (content.hex(), state, about)
        assert state in ("equal", "sound", "defective"), what
        assert (state != "defective") == sound, what
        assert bool(damage) == (not sound), what
        for finding in about:
            assert finding.kind in KINDS
            assert finding.reason
            assert -1 <= finding.position <= len(content), what
        rebuilt = answer.built.offset_index if path == self.index else answer.built.time_index
        assert (state == "equal") == (content == rebuilt), what
        return answer


def _entries(log: Path) -> bool:
    return (
        bool(log.with_suffix(".index").stat().st_size)
        and log.with_suffix(".timeindex").stat().st_size != 0
    )


@pytest.fixture(params=SEGMENTS, ids="/".join)
def subject(request: pytest.FixtureRequest, golden: Unpacked, tmp_path: Path) -> Subject:
    return Subject(golden, *request.param, tmp_path)


KINDS_OF_INDEX = pytest.mark.parametrize("kind", ["index", "timeindex"])


def test_the_undamaged_ones_are_sound(subject: Subject) -> None:
    for path in (subject.index, subject.timeindex):
        subject.judge(path)
    assert {subject.check().offset_index, subject.check().time_index} <= {"equal", "sound"}


@KINDS_OF_INDEX
def test_cut_at_every_byte(subject: Subject, kind: str) -> None:
    path: Path = getattr(subject, kind)
    for size in range(path.stat().st_size, -1, -1):
        os.truncate(path, size)
        subject.judge(path)


@KINDS_OF_INDEX
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte_flipped(subject: Subject, kind: str, mask: int) -> None:
    path: Path = getattr(subject, kind)
    intact = path.read_bytes()
    for at in range(min(len(intact), 480)):
        path.write_bytes(intact[:at] + bytes([intact[at] ^ mask]) + intact[at + 1 :])
        subject.judge(path)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "zeros after the entries": lambda b: b + bytes(24 * 100),
    "only zeros": lambda b: bytes(len(b) or 24),
    "zeros to 2 MiB": lambda b: b + bytes((2 << 20) - len(b) - (2 << 20) % 24),
    "odd zeros": lambda b: b + bytes(13),
    "text": lambda b: b"this is not an index\n" * 40,
    "0xff": lambda b: b"\xff" * 240,
    "twice": lambda b: b + b,
    "backwards": lambda b: b"".join(b[i : i + 4] for i in range(0, len(b), 4))[::-1],
    "first entry lost": lambda b: b[24:],
    "zero hole in the middle": lambda b: b[:24] + bytes(24) + b[48:],
}


@KINDS_OF_INDEX
@pytest.mark.parametrize("damage", DAMAGES)
def test_damages(subject: Subject, kind: str, damage: str) -> None:
    path: Path = getattr(subject, kind)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    subject.judge(path)


def test_each_in_place_of_the_other(subject: Subject) -> None:
    index, timeindex = subject.index.read_bytes(), subject.timeindex.read_bytes()
    subject.index.write_bytes(timeindex)
    subject.timeindex.write_bytes(index)
    subject.judge(subject.index)
    subject.judge(subject.timeindex)


@KINDS_OF_INDEX
def test_missing(subject: Subject, kind: str) -> None:
    path: Path = getattr(subject, kind)
    path.unlink()
    answer = subject.check()
    assert (answer.offset_index if kind == "index" else answer.time_index) == "missing"
    # Logs of magic 0 alone may lie in a directory whose broker knew no time index.
    optional = kind == "timeindex" and not any(answer.facts.magics[1:])
    assert [f.kind for f in answer.findings if f.file == path.name] == (
        [] if optional else ["missing-index"]
    )


@KINDS_OF_INDEX
def test_a_directory_or_a_dangling_link_in_its_place(subject: Subject, kind: str) -> None:
    """Neither may be read, followed or written: a finding or an error of ours, with the path."""
    path: Path = getattr(subject, kind)
    path.unlink()
    path.mkdir()
    unreadable(subject, path)
    path.rmdir()
    path.symlink_to(subject.log.parent / "nowhere")
    unreadable(subject, path)


def unreadable(subject: Subject, path: Path) -> None:
    try:
        answer = subject.check()
    except KafkatsError as error:
        assert error.path == str(path)
    else:
        optional = path == subject.timeindex and not any(answer.facts.magics[1:])
        about = [f for f in answer.findings if f.file == path.name and f.severity == "damage"]
        assert about or optional, answer.findings


@KINDS_OF_INDEX
def test_a_sparse_index_of_three_gib(subject: Subject, kind: str) -> None:
    """More than segment.index.bytes can be: named, in bounded time and memory."""
    path: Path = getattr(subject, kind)
    if subject.segment.case.name != "matrix-4.3.1-v2":
        pytest.skip("one segment is enough")
    os.truncate(path, 3 << 30)
    try:
        answer = subject.check()
    except KafkatsError as error:
        assert error.path == str(path)
    else:
        assert {f.kind for f in answer.findings if f.file == path.name} & {"zero-entries"}
