"""Logs of every magic and codec, cut at every byte and flipped at every header byte, through `check_segment`.

For each damage the answer must be ours: an error of kafkats.errors with the path, or a finding with file and position.
What damage may stay unseen is said here, byte by byte: a cut between two batches leaves a shorter log, and the fields that no
checksum covers may hold another value that is just as possible.
"""

from __future__ import annotations

import random
import shutil
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c

from kafkats.errors import KafkatsError
from kafkats.findings import KINDS
from kafkats.generations import RULES
from kafkats.index.check import SegmentCheck, check_segment
from tests.golden import Segment, Unpacked

LOG_DAMAGE = {
    "torn-tail",
    "zero-tail",
    "bad-length",
    "bad-magic",
    "unknown-magic",
    "bad-crc",
    "bad-header",
}
OFFSET_DAMAGE = {"offsets-not-increasing", "offset-out-of-range"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADER = {0: 26, 1: 34, 2: 61}
"""Bytes before the records (v2), or up to the value's own bytes where the key is null (v0, v1)."""


class Frame(NamedTuple):
    position: int
    size: int
    magic: int
    codec: str

    @property
    def end(self) -> int:
        return self.position + self.size


def frames(log: bytes) -> list[Frame]:
    """An intact log's batches, by the two fields that all formats share."""
    found = []
    position = 0
    while position < len(log):
        size = 12 + struct.unpack_from(">i", log, position + 8)[0]
        magic = log[position + 16]
        attributes = log[position + 22] if magic == 2 else log[position + 17]
        found.append(Frame(position, size, magic, CODECS[attributes & 7]))
        position += size
    return found


@cache
def kinds_of_log(golden: Unpacked) -> dict[str, Segment]:
    """The smallest log of three batches or more for each magic and codec, and for a few special contents."""
    best: dict[str, Segment] = {}
    for segment in golden.segments("matrix", "content", "transactions", "upgrade", "timestamps"):
        if segment.partition.name.startswith("__"):
            continue
        log = segment.log.read_bytes()
        found = frames(log)
        if len(found) < 3:
            continue
        magics = sorted({frame.magic for frame in found})
        codecs = sorted({frame.codec for frame in found})
        kind = f"v{''.join(map(str, magics))}-{'+'.join(codecs)}"
        if segment.case.kind == "transactions":
            kind += "-transactions"
        if kind not in best or len(log) < best[kind].log.stat().st_size:
            best[kind] = segment
    return best


KINDS_OF_LOG = (
    *(f"v{magic}-{codec}" for magic in (0, 1) for codec in CODECS[:4]),
    *(f"v2-{codec}" for codec in CODECS),
    "v2-none-transactions",
    "v012-none",
    "v012-lz4",
)


class Damaged:
    """A private copy of one segment's files; `check` says what check_segment says."""

    def __init__(self, segment: Segment, folder: Path) -> None:
        for kind in (".log", ".index", ".timeindex"):
            if segment.log.with_suffix(kind).exists():  # before 0.10 there is no time index
                shutil.copy(segment.log.with_suffix(kind), folder)
        self.segment = segment
        self.log = folder / segment.log.name
        self.intact = self.log.read_bytes()
        self.frames = frames(self.intact)
        self.rule = RULES["first-offset" if segment.case.first_offset_rule() else "last-offset"]

    def check(self, *, deep: bool = False) -> SegmentCheck | KafkatsError:
        try:
            return check_segment(
                self.log,
                rule=self.rule,
                index_interval_bytes=self.segment.interval,
                segment_index_bytes=self.segment.index_bytes,
                deep=deep,
            )
        except KafkatsError as error:
            assert error.path is not None, error
            return error

    def ends(self) -> list[int]:
        """Positions between two batches."""
        return [0, *(frame.end for frame in self.frames)]


@pytest.fixture(params=KINDS_OF_LOG)
def damaged(request: pytest.FixtureRequest, golden: Unpacked, tmp_path: Path) -> Damaged:
    return Damaged(kinds_of_log(golden)[request.param], tmp_path)


def kinds(answer: SegmentCheck | KafkatsError, path: Path) -> set[str]:
    """Kinds of findings about that file, after a look at each: known kind, own file, a position inside."""
    if isinstance(answer, KafkatsError):
        return {type(answer).__name__}
    for finding in answer.findings:
        assert finding.kind in KINDS
        assert finding.file.startswith(path.stem), finding
        assert finding.reason
        assert finding.position >= -1
    return {finding.kind for finding in answer.findings if finding.file == path.name}


def test_the_undamaged_logs_are_found_healthy(damaged: Damaged) -> None:
    answer = damaged.check(deep=True)
    assert isinstance(answer, SegmentCheck)
    assert kinds(answer, damaged.log) == set()
    assert answer.facts.valid_bytes == len(damaged.intact)


@pytest.mark.examples(4)
def test_cut_at_every_byte(damaged: Damaged) -> None:
    """Of the first two batches and of the last one; from the end, so that each cut is one truncate."""
    ends = damaged.ends()
    for cut in sorted({*range(ends[2]), *range(ends[-2], ends[-1])}, reverse=True):
        with damaged.log.open("r+b") as file:
            file.truncate(cut)
        answer = damaged.check()
        assert isinstance(answer, SegmentCheck), (cut, answer)
        whole = max(end for end in ends if end <= cut)
        assert answer.facts.valid_bytes == whole, cut
        assert answer.facts.log_bytes == cut
        found = kinds(answer, damaged.log)
        if cut == whole:
            assert found == set(), (cut, answer.findings)
        else:
            # The first bytes of an offset are zeros: alone they look like zeros that somebody appended.
            expected = "torn-tail" if any(damaged.intact[whole:cut]) else "zero-tail"
            assert found == {expected}, (cut, answer.findings)
            assert [f.position for f in answer.findings if f.kind == expected] == [whole]


def flips(damaged: Damaged) -> Iterator[tuple[Frame, int]]:
    """Every header byte of the first two batches and of the last one."""
    for frame in dict.fromkeys((*damaged.frames[:2], damaged.frames[-1])):
        for byte in range(min(HEADER[frame.magic], frame.size)):
            yield frame, byte


@pytest.mark.slow(1)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_header_byte_flipped(damaged: Damaged, mask: int) -> None:
    with damaged.log.open("r+b", buffering=0) as file:
        for frame, byte in flips(damaged):
            at = frame.position + byte
            file.seek(at)
            file.write(bytes([damaged.intact[at] ^ mask]))
            answer = damaged.check()
            file.seek(at)
            file.write(damaged.intact[at : at + 1])
            about_flip(damaged, frame, byte, mask, answer)


def about_flip(
    damaged: Damaged, frame: Frame, byte: int, mask: int, answer: SegmentCheck | KafkatsError
) -> None:
    what = (frame, byte, hex(mask), answer)
    found = kinds(answer, damaged.log)
    if isinstance(answer, KafkatsError):
        return
    if byte < 8:  # the offset, which no checksum covers: wrong, or just another offset
        assert found <= OFFSET_DAMAGE, what
        assert bool(found) or not misplaced(damaged, frame, byte, mask), what
    elif frame.magic == 2 and 12 <= byte < 16:  # the leader epoch, neither covered nor read
        assert found == set(), what
    else:
        assert found & LOG_DAMAGE, what
        assert answer.facts.valid_bytes == frame.position, what
        positions = [f.position for f in answer.findings if f.kind in LOG_DAMAGE]
        assert all(frame.position <= position <= frame.end for position in positions), what


def misplaced(damaged: Damaged, frame: Frame, byte: int, mask: int) -> bool:
    """Whether the flipped offset cannot be: out of the segment's range, or out of order with its neighbours."""
    header = bytearray(damaged.intact[frame.position : frame.end])
    header[byte] ^= mask
    first, last = reach(bytes(header), frame.magic)
    at = damaged.frames.index(frame)
    if first < damaged.segment.base_offset or last > damaged.segment.base_offset + 2**31 - 1:
        return True
    before = [
        reach(damaged.intact[f.position :], f.magic)[1] for f in damaged.frames[max(at - 1, 0) : at]
    ]
    after = [
        reach(damaged.intact[f.position :], f.magic)[0] for f in damaged.frames[at + 1 : at + 2]
    ]
    return any(first <= offset for offset in before) or any(offset <= last for offset in after)


def reach(batch: bytes, magic: int) -> tuple[int, int]:
    """First and last offset as the header has them; a wrapper's header has only the last."""
    offset = struct.unpack_from(">q", batch)[0]
    return offset, offset + (struct.unpack_from(">i", batch, 23)[0] if magic == 2 else 0)


@pytest.mark.parametrize("zeros", [1, 11, 12, 17, 18, 100, 4096, 1 << 20])
def test_zero_tail(damaged: Damaged, zeros: int) -> None:
    with damaged.log.open("ab") as file:
        file.truncate(len(damaged.intact) + zeros)
    answer = damaged.check()
    assert isinstance(answer, SegmentCheck)
    assert answer.facts.valid_bytes == len(damaged.intact)
    assert kinds(answer, damaged.log) == {"zero-tail"}, answer.findings
    assert all(
        f.position >= len(damaged.intact) for f in answer.findings if f.file == damaged.log.name
    )


@pytest.mark.parametrize(
    "tail", [b"\xff", b"\xff" * 100, b"text\n" * 30, b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\2" * 40]
)
def test_rubbish_after_the_last_batch(damaged: Damaged, tail: bytes) -> None:
    with damaged.log.open("ab") as file:
        file.write(tail)
    answer = damaged.check()
    assert isinstance(answer, SegmentCheck)
    assert answer.facts.valid_bytes == len(damaged.intact)
    assert kinds(answer, damaged.log) & LOG_DAMAGE, answer.findings


def test_every_byte_of_a_compressed_body_flipped(golden: Unpacked, tmp_path: Path) -> None:
    """Past the header a checksum covers everything: one codec's first batch, every byte."""
    damaged = Damaged(kinds_of_log(golden)["v2-lz4"], tmp_path)
    first = damaged.frames[0]
    with damaged.log.open("r+b", buffering=0) as file:
        for at in range(first.position + HEADER[2], first.end):
            file.seek(at)
            file.write(bytes([damaged.intact[at] ^ 0x10]))
            answer = damaged.check()
            file.seek(at)
            file.write(damaged.intact[at : at + 1])
            assert "bad-crc" in kinds(answer, damaged.log), at


@pytest.mark.parametrize("rule", ["last-offset", "first-offset"])
def test_rubbish_under_a_right_checksum(damaged: Damaged, rule: str) -> None:
    """Bytes after the header changed and the checksum made to match: only decoding (--deep) can tell, and it may not fail.

    Whatever comes out is ours; a batch that does not decode is named with its position.
    """
    damaged.rule = RULES[rule]
    seed = random.Random(damaged.segment.log.name + rule)
    named = 0
    for _ in range(40):
        frame = seed.choice(damaged.frames)
        log = bytearray(damaged.intact)
        for _ in range(seed.choice((1, 1, 3))):
            log[seed.randrange(frame.position + HEADER[frame.magic] - 4, frame.end)] = seed.choice((
                0,
                1,
                0x7F,
                0x80,
                0xFF,
                0x5A,
            ))
        reseal(log, frame)
        damaged.log.write_bytes(log)
        answer = damaged.check(deep=True)
        if isinstance(answer, KafkatsError):
            assert rule == "first-offset" and answer.position == frame.position, answer
            named += 1
            continue
        found = [f for f in answer.findings if f.file == damaged.log.name]
        assert {f.kind for f in found} <= {
            "undecodable",
            "wrong-maximum",
            "bad-header",
            *OFFSET_DAMAGE,
        }, found
        starts = {frame.position for frame in damaged.frames}
        assert all(f.position in starts or f.reason.startswith("at byte ") for f in found), found
        named += any(f.kind == "undecodable" and f.position == frame.position for f in found)
    assert named


def reseal(log: bytearray, frame: Frame) -> None:
    """Write the checksum that the batch's bytes now have."""
    if frame.magic == 2:
        struct.pack_into(
            ">I", log, frame.position + 17, crc32c(bytes(log[frame.position + 21 : frame.end]))
        )
    else:
        struct.pack_into(
            ">I", log, frame.position + 12, zlib.crc32(log[frame.position + 16 : frame.end])
        )
