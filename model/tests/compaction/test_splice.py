"""Message sets that the cleaner of KIP-31's text merges, as `kafkats replay` leaves them; rows of model/docs/seeds/kip31.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.formats import dispatch
from model.tests.builders.replays import BEGIN, Replay, Step, broker, create, inner_offsets, step


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Replay:
    return Replay(capsys, tmp_path)


def sent(*pairs: tuple[str, str], at: int = BEGIN, codec: str = "gzip") -> Step:
    """A message set of magic 1."""
    records = [{"timestamp": at, "key": key, "value": value} for key, value in pairs]
    return step("produce", version=2, codec=codec, records=records, at=at)


def created(**config: str | int) -> Step:
    made = create(**config)
    made["config"] |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    return made


def cleaned(*sets: Step) -> tuple[Step, ...]:
    return (*sets, step("roll"), step("compact"))


SETS = (
    sent(("a", "1"), ("b", "1"), ("c", "1")),
    sent(("a", "2"), ("d", "1")),
    sent(("e", "1"), ("d", "2"), at=BEGIN + 5),
)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_message_sets_become_one_with_holes(codec: str, replay: Replay) -> None:
    """K31-14: only the relative offsets change."""
    *_, row = replay(broker(), created(), *cleaned(*({**one, "codec": codec} for one in SETS)))
    assert (row["outcome"], row["first_offset"], row["last_offset"]) == ("1 segment into 1", 0, 6)
    data = replay.file().read_bytes()
    (merged,) = dispatch.batches(data)
    assert merged.last_offset == 6
    assert inner_offsets(data) == [0, 1, 2, 4, 5], "relative to offset 1; a, d and their holes"
    found = dispatch.records(data, merged)
    assert [(r.offset, r.key, r.value, r.timestamp - BEGIN) for r in found] == [
        (1, b"b", b"1", 0), (2, b"c", b"1", 0), (3, b"a", b"2", 0), (5, b"e", b"1", 5), (6, b"d", b"2", 5),
    ]  # fmt: skip


def test_no_release_merges(replay: Replay) -> None:
    replay(broker(kafka="0.10.2"), created(), *cleaned(*SETS))
    data = replay.file().read_bytes()
    assert [batch.last_offset for batch in dispatch.batches(data)] == [2, 3, 6]


def test_a_compacted_set_has_the_time_of_its_last_message(replay: Replay) -> None:
    """K31-46, the old text: the broker stamps each set, and a compacted set has the last stamp."""
    later = {**sent(("f", "1")), "at": BEGIN + 90}
    made = created(message_timestamp_type="LogAppendTime")
    replay(broker(), made, *cleaned(*SETS, later))
    data = replay.file().read_bytes()
    (merged,) = dispatch.batches(data)
    assert merged.max_timestamp == BEGIN + 90
    assert {r.timestamp for r in dispatch.records(data, merged)} == {BEGIN + 90}


def test_sets_of_other_codecs_and_plain_messages_stay_apart(replay: Replay) -> None:
    sets = (
        sent(("a", "1")),
        sent(("b", "1"), codec="lz4"),
        sent(("c", "1"), codec="none"),
        sent(("d", "1"), codec="lz4"),
        sent(("e", "1"), codec="lz4"),
    )
    replay(broker(), created(), *cleaned(*sets))
    data = replay.file().read_bytes()
    assert [(b.codec, b.last_offset) for b in dispatch.batches(data)] == [
        (1, 0),
        (3, 1),
        (0, 2),
        (3, 4),
    ]


def test_a_merged_set_has_a_limit(replay: Replay) -> None:
    """So that a fetch can take it: max.message.bytes, before compression."""
    big = "v" * 300_000
    sets = [sent((f"k{n}", big), at=BEGIN) for n in range(7)]
    replay(broker(), created(), *cleaned(*sets))
    batches = list(dispatch.batches(replay.file().read_bytes()))
    assert [batch.last_offset for batch in batches] == [2, 5, 6]
