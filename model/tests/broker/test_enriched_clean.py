"""Compaction and cleaning in the dialect `enriched`, by the step `retain` of `kafkats replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.formats.model import Codec, Record, TimestampType
from kafkats_model.broker import files
from kafkats_model.broker.enriched_clean import clean, compact
from kafkats_model.broker.enriched_log import EnrichedLog, create
from kafkats_model.broker.enriched_log import start as restarted
from kafkats_model.broker.enriched_steps import topic
from kafkats_model.broker.generation import generation
from kafkats_model.formats import enriched
from model.tests.builders.enriched import (
    BEGIN_MS,
    INDEX,
    Dump,
    Play,
    Played,
    dump,
    of_kind,
    offsets,
    play,
    produce,
    start,
    step,
)

__all__ = ["dump", "play"]

COMPACTED = {"cleanup.policy": "compact"}
HOUR = {"retention.ms": 3_600_000}


def at(minute: int) -> str:
    return f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z"


def just_after(minute: int) -> str:
    return at(minute).replace("Z", ".001Z")


class TestCompaction:
    def test_consecutive_wrappers_become_one(self, play: Play, dump: Dump) -> None:
        """It lies at the first offset that stays; the relative offsets have holes."""
        done = play(
            *start(config=COMPACTED),
            produce("ab"),
            produce("cad"),
            produce("bd"),
            step("retain"),
            step("fetch", version=1, offset=0),
        )
        assert done.rows[-2]["outcome"] == "3 batches into 1, 3 records deleted"
        assert done.rows[-1]["offsets"] == "2 3 5 6"
        (batch,) = of_kind(dump(done.log()), "batch")
        assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (2, 6, 4)
        assert batch["tags"]["honored"]

    def test_holes_inside(self, play: Play, dump: Dump) -> None:
        done = play(*start(config=COMPACTED), produce("abc"), produce("bd"), step("retain"))
        assert offsets(dump(done.log())) == [0, 2, 3, 4]
        (batch,) = of_kind(dump(done.log()), "batch")
        assert (batch["base_offset"], batch["tags"]["messages"]) == (0, 4)

    def test_only_offsets_change_where_all_stays(self, play: Play, dump: Dump) -> None:
        done = play(*start(config=COMPACTED), produce("ab"), produce("cd"), step("retain"))
        assert done.rows[-1]["outcome"] == "2 batches into 1, 0 records deleted"
        rows = of_kind(dump(done.log()), "record")
        assert [(r["offset"], r["key"], r["value"]) for r in rows] == [
            (0, "a", "va0"),
            (1, "b", "vb1"),
            (2, "c", "vc0"),
            (3, "d", "vd1"),
        ]
        assert {row["timestamp"] for row in rows} == {BEGIN_MS}

    def test_of_a_mirrored_wrapper_the_messages_are_counted(self, play: Play, dump: Dump) -> None:
        records = [
            Record(offset, -1, TimestampType.CREATE_TIME, b"k%d" % offset, b"")
            for offset in (0, 5, 9)
        ]
        mirrored = enriched.encode_batch(records, codec=Codec.GZIP, honored=False).hex()
        done = play(
            *start(config=COMPACTED),
            step("produce", version=1, set=mirrored),
            produce("b"),
            step("retain"),
        )
        assert offsets(dump(done.log())) == [0, 1, 2, 3]
        (batch,) = of_kind(dump(done.log()), "batch")
        assert batch["tags"]["honored"]

    def test_what_does_not_merge(self, play: Play, dump: Dump) -> None:
        """Another codec, an uncompressed message, a control message, another segment."""
        sets = [
            produce("ab"),
            produce("cd", "lz4"),
            produce("e", "none"),
            produce("t", "none", control="commit-transaction"),
            produce("fg", "lz4"),
        ]
        done = play(
            *start(config=COMPACTED), *sets, step("roll"), produce("hi", "lz4"), step("retain")
        )
        assert [batch["type"] for batch in of_kind(dump(done.log()), "batch")] == [
            "gzip",
            "lz4",
            "normal",
            "commit-transaction",
            "lz4",
        ]

    def test_a_key_is_needed(self, play: Play) -> None:
        """A wrapper says so without being opened."""
        done = play(*start(config=COMPACTED), produce(".."), produce(".", "none"), produce("a"))
        assert [row["outcome"] for row in done.rows[2:]] == ["rejected", "rejected", "in place"]
        assert "without a key" in done.rows[2]["error"]

    def test_a_topic_is_compacted_or_cleaned(self, play: Play, dump: Dump) -> None:
        """The one pass: what is old stays in a compacted topic, what has a newer value elsewhere."""
        sets = [produce("ab", at=at(0)), produce("ab", at=at(300))]
        kept = play(*start(config=COMPACTED | HOUR), *sets, step("retain"))
        assert offsets(dump(kept.log())) == [2, 3]

    def test_the_step_compact_is_the_same_pass(self, play: Play, dump: Dump) -> None:
        done = play(*start(config=COMPACTED), produce("ab"), produce("b"), step("compact"))
        assert done.rows[-1]["outcome"] == "2 batches into 1, 1 record deleted"
        assert offsets(dump(done.log())) == [0, 2]

    def test_no_offset_is_given_twice(self, play: Play, dump: Dump) -> None:
        """The last records have no key, from before the topic was compacted: all of them go."""
        restart = {"do": "restart", "broker": "1"}
        done = play(
            *start(),
            produce(".."),
            restart | {"config": COMPACTED},
            step("compact"),
            restart,
            produce("a"),
            step("fetch", version=1, offset=2),
        )
        assert done.rows[4]["outcome"] == "1 batch into 0, 2 records deleted"
        assert (done.rows[-2]["first_offset"], done.rows[-1]["offsets"]) == (2, "2")
        assert offsets(dump(done.log(file=f"{2:020}.log"))) == [2]

    def test_some_of_the_last_records_are_removed(self, play: Play, dump: Dump) -> None:
        restart = {"do": "restart", "broker": "1"}
        done = play(
            *start(),
            produce("ab."),
            restart | {"config": COMPACTED},
            step("compact"),
            restart | {"clean": False},
            produce("c"),
        )
        assert done.rows[-1]["first_offset"] == 3
        assert offsets(dump(done.log())) == [0, 1]

    def test_retention_deletes_segments_that_compaction_has_emptied(self, play: Play) -> None:
        restart = {"do": "restart", "broker": "1"}
        done = play(
            *start(),
            produce(".."),
            restart | {"config": COMPACTED},
            step("compact"),
            restart | {"config": {"cleanup.policy": "delete"} | HOUR},
            produce("a", at=at(1)),
            step("retain", at=at(200)),
        )
        assert done.rows[-1]["outcome"] == "2 segments deleted"
        assert done.rows[-1]["first_offset"] == 3

    def test_nothing_above_the_high_watermark_is_removed(self, tmp_path: Path) -> None:
        rules = generation("enriched")
        log = create(tmp_path / "t-0", topic({}, rules), rules, 0)
        records = [Record(0, 0, TimestampType.CREATE_TIME, None, b"v")]
        for _ in range(2):
            log.append_as_leader(enriched.encode_batch(records), now_ms=0)
        log.topic, log.high_watermark = topic(COMPACTED, rules), 1
        assert compact(log, 99).records == 1
        _, batches = log.batches(0)
        assert [batch.base_offset for batch in batches] == [1]

    def test_the_other_policy(self, play: Play) -> None:
        sets = [produce("ab", at=at(0)), produce("ab", at=at(1)), step("retain", at=at(2))]
        done = play(*start(config={"cleanup.policy": "delete"} | HOUR), *sets)
        assert done.rows[-1]["outcome"] == "0 segments deleted"


class TestCleaning:
    def played(self, play: Play, minutes: range, *more: dict[str, Any]) -> Played:
        config = HOUR | {"index.interval.bytes": 100}
        sets = [produce("ab", at=at(minute)) for minute in minutes]
        return play(*start(config=config), *sets, *more)

    def test_old_segments_go_and_the_head_of_the_next_is_cut(self, play: Play, dump: Dump) -> None:
        sets: list[dict[str, Any]] = []
        for minute in range(0, 60, 10):
            sets.append(produce("ab", at=at(minute)))
            sets += [step("roll")] if minute % 20 else []
        done = play(
            *start(config=HOUR | {"index.interval.bytes": 100}),
            *sets,
            *(step("retain", at=time) for time in (at(70), just_after(70), at(80), just_after(80))),
            step("fetch", version=1, offset=6),
        )
        # What is exactly an hour old stays: the segment that ends at 00:10, then the set of 00:20.
        size = done.rows[2]["bytes"]
        assert [(row["outcome"], row["first_offset"]) for row in done.rows[-5:-1]] == [
            (f"0 segments deleted, {size} bytes cut from the head of the next", 2),
            ("1 segment deleted", 4),
            ("0 segments deleted", 4),
            (f"0 segments deleted, {size} bytes cut from the head of the next", 6),
        ]
        assert done.rows[-1]["offsets"] == "6 7"
        files = sorted(path.name for path in done.log().parent.glob("*.log"))
        assert [int(name[:20]) for name in files] == [6, 8, 12]

    def test_the_active_segment_is_no_exception(self, play: Play, dump: Dump) -> None:
        """Cleaning does not wait until the log rolls (KAFKA-979)."""
        later = (step("retain", at=at(minute)) for minute in (75, 200))
        rows = self.played(play, range(0, 50, 10), *later).rows
        assert (rows[-2]["first_offset"], rows[-2]["log_end_offset"]) == (4, 10)
        assert (rows[-1]["outcome"], rows[-1]["first_offset"]) == ("1 segment deleted", 10)
        assert not any(row.get("rolled") for row in rows)

    def test_everything_is_old(self, play: Play) -> None:
        more = (step("retain", at=at(200)), produce("c"))
        rows = self.played(play, range(0, 20, 10), *more).rows
        assert (rows[-2]["outcome"], rows[-2]["first_offset"]) == ("1 segment deleted", 4)
        assert rows[-1]["first_offset"] == 4

    def test_times_survive_a_move(self, play: Play) -> None:
        """A follower that copies later deletes the same: times are in the messages (KAFKA-881)."""
        config = HOUR | {"index.interval.bytes": 100}
        done = play(
            *start(config=config),
            *start("2", config=config),
            *(produce("ab", at=at(minute)) for minute in range(0, 50, 10)),
            step("replicate", "2", leader="1", at=at(74)),
            step("retain", at=at(75)),
            step("retain", "2"),
        )
        one, two = done.rows[-2:]
        assert (one["outcome"], one["first_offset"]) == (two["outcome"], two["first_offset"])
        assert one["first_offset"] == 4

    def test_the_head_ends_where_the_index_leads(
        self, play: Play, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log is read from the last entry before the horizon, of 00:30, and not from its begin."""
        read: list[tuple[int, int]] = []
        batches = EnrichedLog.batches

        def noted(log: EnrichedLog, base: int, position: int = 0) -> Any:
            read.append((base, position))
            return batches(log, base, position)

        config = HOUR | {"index.interval.bytes": 0}
        sets = [produce("ab", at=at(minute)) for minute in range(0, 60, 10)]
        monkeypatch.setattr(EnrichedLog, "batches", noted)
        done = play(*start(config=config), *sets, step("retain", at=at(100)))
        size = done.rows[2]["bytes"]
        assert (done.rows[-1]["first_offset"], read) == (8, [(0, 5 * size), (0, 3 * size)])

    def test_the_index_of_what_stays(self, play: Play, dump: Dump) -> None:
        done = self.played(play, range(0, 50, 10), step("retain", at=at(75)))
        entries = dump(done.log(file=INDEX.replace("0" * 20, f"{4:020}")))
        assert [(e["offset"], e["timestamp"]) for e in entries] == [
            (7, BEGIN_MS + 30 * 60_000),
            (9, BEGIN_MS + 40 * 60_000),
        ]

    def test_no_head_is_cut_above_the_high_watermark(self, play: Play) -> None:
        """The index alone would lead behind what a replica still has to fetch."""
        config = HOUR | {"index.interval.bytes": 0}
        done = play(
            *start(config=config),
            *start("2", config=config),
            produce("a"),
            step("replicate", "2", leader="1"),
            *(produce("a") for _ in range(3)),
            step("retain", at=at(200)),
            step("list-offsets", version=1, time=BEGIN_MS),
            step("replicate", "2", leader="1"),
            step("list-offsets", version=1, time=BEGIN_MS),
        )
        retained, unseen, copied, seen = done.rows[-4:]
        assert (retained["first_offset"], copied["first_offset"]) == (1, 1)
        assert (unseen["first_offset"], seen["first_offset"]) == (-1, 1)

    def test_no_limit(self, play: Play) -> None:
        done = play(
            *start(config={"retention.ms": -1}), produce("ab"), step("retain", at=at(50_000 // 60))
        )
        assert done.rows[-1]["outcome"] == "0 segments deleted"


@pytest.mark.parametrize("config", [COMPACTED, HOUR])
def test_a_pass_never_meets_a_torn_tail(config: dict[str, Any], tmp_path: Path) -> None:
    """Only the last segment can have one, after a kill, and the start cuts it."""
    rules = generation("enriched")
    torn = 0
    for lost in range(150):
        log = create(tmp_path / str(lost), topic(config, rules), rules, 0)
        for codec in (Codec.NONE, Codec.GZIP):
            records = [Record(n, 0, TimestampType.CREATE_TIME, b"k", b"v") for n in range(2)]
            log.append_as_leader(enriched.encode_batch(records, codec=codec), now_ms=0)
        path = log.path(0)
        size = path.stat().st_size
        files.cut(path, max(size - lost, 0), 0)
        whole = sum(batch.size for batch in log.batches(0)[1])
        torn += whole < max(size - lost, 0)
        log = restarted(log, log.topic, 0)
        assert path.stat().st_size == whole
        log.high_watermark = end = log.log_end_offset
        (compact if log.topic.compacted else clean)(log, 1)
        assert all(
            sum(b.size for b in found) == len(data)
            for data, found in map(log.batches, log.segments())
        )
        assert log.log_end_offset == end
    assert torn > 100


KEYS = st.text("abcd", min_size=1, max_size=4)


@settings(deadline=None, max_examples=40)
@given(
    sets=st.lists(st.tuples(KEYS, st.sampled_from(["gzip", "lz4", "none"])), min_size=1, max_size=8)
)
def test_compaction_keeps_the_last_of_each_key(
    sets: list[tuple[str, str]], tmp_path_factory: Any
) -> None:
    rules = generation("enriched")
    folder = tmp_path_factory.mktemp("compact") / "t-0"
    log = create(folder, topic(COMPACTED, rules), rules, 0)
    latest: dict[bytes, tuple[int, bytes]] = {}
    for number, (keys, codec) in enumerate(sets):
        records = [
            Record(n, 0, TimestampType.CREATE_TIME, key.encode(), b"%d %d" % (number, n))
            for n, key in enumerate(keys)
        ]
        for record in records:
            assert record.key is not None
            assert record.value is not None
            latest[record.key] = (log.log_end_offset + record.offset, record.value)
        log.append_as_leader(
            enriched.encode_batch(records, codec=Codec[codec.upper()]), now_ms=number
        )
    end = log.high_watermark = log.log_end_offset
    compact(log, 99)
    data, batches = log.batches(0)
    kept = [record for batch in batches for record in enriched.decode_records(data, batch)]
    assert {r.key: (r.offset, r.value) for r in kept} == latest
    assert [r.offset for r in kept] == sorted(offset for offset, _ in latest.values())
    assert log.log_end_offset == end
    assert compact(log, 99).records == 0
