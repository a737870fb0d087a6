"""Our rebuild against the index files that real brokers rebuilt when they started again after kill -9. No Java needed.

A broker recovers each segment from the one that holds the partition's recovery point on (facts of `before`), and closes
it with the next clean stop (`after`).
"""

from __future__ import annotations

import pytest

from kafkats.generations import RULES
from kafkats.logdir.root import recovered_segments
from kafkats.segment.reader import open_segment
from tests.builders.directories import scan_root
from tests.builders.logs import build
from tests.golden import Case, Segment, Unpacked, cases

NOT_REBUILT = {
    # 0.9.0.1 opens a segment before it looks whether its index is there, and the opening creates an empty one.
    "0.9.0.1": ("no-index-old-0", "no-indexes-0"),
}
KEPT_BY_SWAP = ("swap-log-only-0",)
"""From 3.9 on the index beside a renamed .log.swap is trusted as it is, a full-size file of zeros."""
LEAST = {"0.8.2.2": 36, "0.9.0.1": 38}
"""Compared files: one per recovered segment before 0.10, two later, as counted once; the others 86 or more."""


def recovered(golden: Unpacked, one: Case) -> list[Segment]:
    """The segments of `after` that the restart recovered, as far as they still hold what was recovered."""
    before, after = golden(one, "before"), golden(one, "after")
    root = scan_root(before)
    start = {p.path.name: recovered_segments(root, p) for p in root.partitions}
    found = []
    for segment in golden.segments_in(one, "after"):
        name = segment.partition.name
        if segment.partition.parent != after or name.startswith("__") or name in KEPT_BY_SWAP:
            continue
        if name in NOT_REBUILT.get(one.kafka, ()):
            continue
        bases = {s.base_offset for s in start.get(name, ())}
        if segment.base_offset in bases:
            found.append(segment)
    return found


@pytest.mark.parametrize("one", cases("crash"), ids=str)
def test_our_rebuild_is_what_the_restarted_broker_left(one: Case, golden: Unpacked) -> None:
    rule = RULES["first-offset" if one.first_offset_rule() else "last-offset"]
    compared = 0
    for segment in recovered(golden, one):
        with open_segment(segment.log) as log:
            built = build(
                log,
                segment.base_offset,
                rule=rule,
                index_interval_bytes=segment.interval,
                segment_index_bytes=segment.index_bytes,
            )
        assert built.facts.valid_bytes == segment.log.stat().st_size, segment
        for kind, ours in ((".index", built.offset_index), (".timeindex", built.time_index)):
            theirs = segment.log.with_suffix(kind)
            if theirs.exists():  # 0.8 and 0.9 have no time index
                assert ours.hex() == theirs.read_bytes().hex(), (segment, kind)
                compared += 1
    assert compared >= LEAST.get(one.kafka, 86)


@pytest.mark.parametrize("one", cases("crash"), ids=str)
def test_another_interval_gives_other_bytes(one: Case, golden: Unpacked) -> None:
    """The comparison above can fail: a tenth of the entries is not what these brokers wrote."""
    different = 0
    for segment in recovered(golden, one):
        with open_segment(segment.log) as log:
            built = build(log, segment.base_offset, index_interval_bytes=10 * segment.interval)
        different += built.offset_index != segment.log.with_suffix(".index").read_bytes()
    assert different
