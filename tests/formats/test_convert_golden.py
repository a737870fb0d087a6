"""The golden directories in every magic: the same records as before, the same log end, and what brokers really sent."""

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
from kafkats.formats.convert import Target, convert_segment, fetch
from kafkats.formats.losses import add_losses
from kafkats.formats.model import NO_TIMESTAMP, Record, TimestampType
from tests.golden import Case, Segment, Unpacked, cases

CONVERTED = cases("upgrade", "matrix", "compaction", "transactions")
FETCHED = [
    one
    for one in cases("matrix")
    if any(a["size"] for a in one.info.get("fetch", {}).get("answers", {}).values())
]
"""0.11 answered with an error: it could not leave record headers out."""
MAGICS = (0, 1, 2)


def own(segments: list[Segment]) -> dict[str, list[Segment]]:
    """Partition -> its segments, without the broker's own topics."""
    kept = [s for s in segments if not s.partition.name.startswith("__")]
    return {name: list(found) for name, found in groupby(kept, key=lambda s: s.partition.name)}


def in_magic(record: Record, magic: int) -> Record:
    """What a log of `magic` can say of a record; NONE counts as CREATE_TIME."""
    if magic == v0.MAGIC:
        return record._replace(
            timestamp=NO_TIMESTAMP, timestamp_type=TimestampType.CREATE_TIME, headers=()
        )
    kind = max(record.timestamp_type, TimestampType.CREATE_TIME)
    return record._replace(timestamp_type=kind, headers=record.headers if magic == v2.MAGIC else ())


def log_end(log: bytes) -> int | None:
    ends = [batch.last_offset + 1 for batch in dispatch.batches(log)]
    return ends[-1] if ends else None


@pytest.mark.examples(by="kafka")
@pytest.mark.parametrize("one", CONVERTED, ids=repr)
def test_every_partition_in_every_magic(one: Case, golden: Unpacked) -> None:
    seen = 0
    for segments in own(golden.segments_in(one, one.states[-1])).values():
        for segment in segments:
            log = segment.log.read_bytes()
            before = [(b, dispatch.records(log, b)) for b in dispatch.batches(log)]
            zstd = any(b.codec == Codec.ZSTD for b, _ in before)
            for magic in MAGICS:
                if zstd and magic < v2.MAGIC:
                    with pytest.raises(NotConvertible, match="zstd"):
                        convert_segment(log, segment.base_offset, Target(magic))
                target = Target(magic, Codec.GZIP if zstd else None)
                last = segment is segments[-1]
                new = convert_segment(log, segment.base_offset, target, log_end=last)
                after = [(b, dispatch.records(new.data, b)) for b in dispatch.batches(new.data)]
                kept = last and any(b.magic > magic for b, _ in after)
                assert {b.magic for b, _ in after[: -1 if kept else None]} <= {magic}
                left = [
                    r
                    for b, records in before
                    for r in records
                    if magic == v2.MAGIC or not b.control
                ]
                if kept and before[-1][0].control:
                    left += before[-1][1]
                told = [in_magic(r, magic) for r in left]
                assert [in_magic(r, magic) for _, records in after for r in records] == told, (
                    segment,
                    magic,
                )
                assert not last or log_end(new.data) == log_end(log)
                assert magic < v2.MAGIC or new.losses == {}
                seen += len(told)
    assert seen > 0


@pytest.mark.parametrize("one", cases("transactions"), ids=repr)
def test_what_is_lost_of_transactions(one: Case, golden: Unpacked) -> None:
    """Markers and aborted transactions as Kafka's own dump counts them."""
    dump = one.text("dump-log.txt.xz")
    assert "endTxnMarker: ABORT" in dump
    for name, segments in own(golden.segments_in(one, one.states[-1])).items():
        target = Target(1, Codec.GZIP)
        lost = add_losses(
            convert_segment(s.log.read_bytes(), s.base_offset, target).losses for s in segments
        )
        told = "".join(part for part in dump.split("### ") if re.match(rf"{name}/\d+\.log\n", part))
        assert lost.get("control", 0) == told.count("endTxnMarker: "), name
        assert lost.get("aborted-visible", 0) == told.count("endTxnMarker: ABORT"), name


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
