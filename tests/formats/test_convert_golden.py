"""The golden directories in every magic: the same records as before, the same log end."""

from __future__ import annotations

import re
from itertools import groupby

import pytest

from kafkats.compression import Codec
from kafkats.errors import NotConvertible
from kafkats.formats import dispatch, v0, v2
from kafkats.formats.build import Target
from kafkats.formats.convert import add_losses, convert_segment
from kafkats.formats.model import NO_TIMESTAMP, Record, TimestampType
from tests.golden import Case, Segment, Unpacked, cases

CONVERTED = cases("upgrade", "matrix", "compaction", "transactions")
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
