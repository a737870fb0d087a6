"""What brokers really sent to old consumers, from the golden directories."""

from __future__ import annotations

import re
import subprocess
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkats.compression import Codec, decompress
from kafkats.errors import NotConvertible
from kafkats.formats import dispatch, message_set, v0, v2
from kafkats_model.formats.fetch import fetch
from tests.golden import Case, Segment, Unpacked, cases

FETCHED = [
    one
    for one in cases("matrix")
    if any(a["size"] for a in one.info.get("fetch", {}).get("answers", {}).values())
]
"""0.11 answered with an error: it could not leave record headers out."""


def own(segments: list[Segment]) -> dict[str, list[Segment]]:
    """Partition -> its segments, without the broker's own topics."""
    kept = [s for s in segments if not s.partition.name.startswith("__")]
    return {name: list(found) for name, found in groupby(kept, key=lambda s: s.partition.name)}


class Answer(NamedTuple):
    """What a broker sent to one Fetch request of an old version."""

    partition: str
    asked: int
    magic: int
    data: bytes


def answers(one: Case, to: Path) -> list[Answer]:
    subprocess.run(["tar", "-xJf", str(one.folder / "fetch.tar.xz"), "-C", str(to)], check=True)
    found = []
    for path in sorted(to.glob("*.bin")):
        name = re.fullmatch(r"(.+)\.from(\d+)\.magic(\d)\.bin", path.name)
        assert name is not None
        found.append(Answer(name[1], int(name[2]), int(name[3]), path.read_bytes()))
    return found


def opened(log: bytes) -> list[object]:
    """The frames, compressed ones as their header's facts and what is inside: compressors differ, content may not."""
    found: list[object] = []
    for b in dispatch.batches(log):
        frame = log[b.position : b.end]
        if b.codec == Codec.NONE:
            found.append(frame)
        elif b.magic == v2.MAGIC:
            found.append((frame[:8], frame[21:61], decompress(b.codec, frame[61:])))
        else:
            inner, _ = message_set.wrapped(log, b, broken_lz4=b.magic == v0.MAGIC)
            found.append((b.magic, b.last_offset, b.attributes, b.max_timestamp, bytes(inner)))
    return found


@pytest.mark.parametrize("one", FETCHED, ids=repr)
def test_old_consumers_were_sent_the_same(one: Case, golden: Unpacked, tmp_path: Path) -> None:
    partitions = own(golden.segments_in(one, "data"))
    compared = 0
    for answer in answers(one, tmp_path):
        segment = [s for s in partitions[answer.partition] if s.base_offset <= answer.asked][-1]
        log = segment.log.read_bytes()
        start = next(b.position for b in dispatch.batches(log) if b.last_offset >= answer.asked)
        if answer.partition.startswith("zstd"):
            assert answer.data == b""
            with pytest.raises(NotConvertible, match="zstd"):
                fetch(log[start:], answer.magic, first_offset=answer.asked)
            continue
        ours = fetch(log[start:], answer.magic, first_offset=answer.asked)
        # An answer has the size of the bytes on disk: it may end earlier, and what is left of it is filled up with zeros.
        sent = opened(answer.data)
        assert opened(ours)[: len(sent)] == sent, answer[:3]
        if answer.partition.startswith("none"):
            end = max(b.end for b in dispatch.batches(answer.data))
            assert ours.startswith(answer.data[:end])
        compared += len(sent)
    assert compared > 100
