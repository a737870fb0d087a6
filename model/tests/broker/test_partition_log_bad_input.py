"""Sets that no client or leader should send: an error of ours with its position, and nothing appended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.appended import NOW, draw
from kafkats.errors import CorruptBatch
from kafkats_model.broker.generation import generation
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.errors import Rejected


def state(log: PartitionLog) -> tuple[bytes, int, int]:
    return log.active.path(".log").read_bytes(), log.log_end_offset, log.active.size


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.sampled_from(("0.10.2", "2.8.2", "4.3.1")),
    st.booleans(),
    st.data(),
)
def test_bad_sets(seed: int, kafka: str, leads: bool, data: st.DataObject) -> None:
    """Sound and wrong sets, with any byte changed and cut anywhere. 0.10 has no magic 2."""
    rules = generation(kafka)
    asked = draw(Random(seed), rules.leader.magics)
    sent = bytearray(asked.data)
    if data.draw(st.booleans()):
        sent[data.draw(st.integers(0, len(sent) - 1))] ^= data.draw(st.integers(1, 255))
    if data.draw(st.booleans()):
        del sent[data.draw(st.integers(0, len(sent))) :]
    with TemporaryDirectory() as folder:
        topic = replace(asked.topic, rolling=asked.topic.rolling._replace(compacted=False))
        log = create(Path(folder, "t-0"), topic, rules, NOW)
        before = state(log)
        try:
            if leads:
                end = log.append_as_leader(bytes(sent), now_ms=NOW, leader_epoch=0).last_offset
            else:
                made = log.append_as_follower(bytes(sent), now_ms=NOW)
                end = made.last_offset if made else -1
        except (CorruptBatch, Rejected) as e:
            assert e.position is not None
            assert state(log) == before
        else:
            assert log.log_end_offset == end + 1
