"""KIP-33's text as `kafkats replay` plays it: each test names the document's value, and reads the files with `kafkats dump`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model.tests.builders.played import (
    DAY,
    DENSE,
    HOUR,
    Played,
    Row,
    T,
    begin,
    old,
    restart,
    send,
    step,
)


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Played:
    return Played(tmp_path, capsys)


def test_an_entry_has_the_largest_timestamp_so_far_and_the_next_offset(play: Played) -> None:
    """An entry is added with an offset index entry, if the maximum has risen; the last one at the end closes."""
    play(*begin(**DENSE), send(10), send(30), send(20), send(40), send(50), step("roll"))
    # 20 does not raise the maximum: no time entry with the third append, although an offset entry
    assert play.times() == [(30, 2), (40, 4), (50, 5)]
    assert [r["offset"] for r in play.dump(0, "index") if r["kind"] == "offset-entry"] == [
        1,
        2,
        3,
        4,
    ]
    assert play.path().read_bytes()[:12] == (T + 30).to_bytes(8, "big") + (2).to_bytes(4, "big")
    assert play.path().stat().st_size == 3 * 12


def test_a_new_segment_has_an_empty_time_index(play: Played) -> None:
    play(*begin(**DENSE), send(10), step("roll"))
    assert play.path(1).exists() and play.path(1).stat().st_size == 0
    assert play.path(1).name == "00000000000000000001.timeindex"


def test_the_interval_bounds_the_density(play: Played) -> None:
    sends = [send(n) for n in range(1, 201)]
    play(
        *begin(**{"index.interval.bytes": 400}), *sends, step("create", partition="u-0", config=DENSE),
        *({**one, "partition": "u-0"} for one in sends),
    )  # fmt: skip
    sparse, dense = play.times(), play.times(name="u-0")
    size = play.path(0, "log").stat().st_size
    assert len(dense) == 199 and size // 500 < len(sparse) <= size // 400 + 1 < len(dense)


@pytest.mark.parametrize("times", [(50, 10, 90, 20, 80, 95, 30, 97), (10, 20, 30, 40, 50)])
def test_all_later_messages_lie_behind_the_entry(times: tuple[int, ...], play: Played) -> None:
    """(T, offset): in this segment any message whose timestamp is greater than T comes after offset."""
    play(*begin(**DENSE), *(send(time) for time in times))
    entries = play.times()
    assert len(entries) >= 3
    for timestamp, offset in entries:
        assert all(n >= offset for n, time in enumerate(times) if time > timestamp)


@pytest.mark.parametrize("end", ["roll", "stop"])
def test_the_closing_entry(end: str, play: Played) -> None:
    """(largest timestamp -> base offset of the next segment), although the interval was never reached."""
    play(*begin(), send(30, 90), send(20), *([step("roll")] if end == "roll" else []))
    assert play.times() == [(90, 3)]


def test_a_rejected_message_has_no_entry(play: Played) -> None:
    limit = {"message.timestamp.difference.max.ms": 1000, **DENSE}
    rows = play(*begin(**limit), send(10), send(2 * DAY), send(20))
    assert rows[3]["outcome"] == "rejected"
    assert rows[3]["error"].startswith("TimestampExceededThreshold")
    assert play.times() == [(20, 2)]


def test_magic_0_has_no_entries_and_counts_by_the_file(play: Played) -> None:
    """The largest timestamp begins at -1, and stays: retention takes the time of the last write.

    Also for a producer that sends timestamps: format 0 has none.
    """
    config = {"message.format.version": "0.9.0", "retention.ms": DAY, **DENSE}
    rows = play(
        *begin(**config), old(), old(at=HOUR), step("roll"), old(at=2 * HOUR), send(90),
        step("retain", at=T + DAY + HOUR), step("retain", at=T + DAY + HOUR + 1),
    )  # fmt: skip
    assert [row["outcome"] for row in rows if row["do"] == "retain"] == [
        "0 segments deleted",
        "1 segment deleted",
    ]
    assert play.times(2) == [] and play.path(2, "index").stat().st_size == 8


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_a_closed_segment_without_timestamps_has_no_entry(version: str, play: Played) -> None:
    """Its largest timestamp is -1, which is no time: a segment of 1970 would be deleted."""
    config = {"message.format.version": version, "retention.ms": DAY, **DENSE}
    rows = play(*begin(**config), old(), old(), step("roll"), old(), step("retain"))
    assert play.path(0).stat().st_size == 0 < play.path(0, "index").stat().st_size
    assert rows[-1]["outcome"] == "0 segments deleted"


def test_later_segments_may_have_smaller_timestamps(play: Played) -> None:
    play(*begin(**DENSE), send(50), send(90), step("roll"), send(20), send(30))
    assert play.times(0)[-1] == (90, 2) and play.times(2) == [(30, 4)]


# ---------------------------------------------------------------- start


def test_a_start_takes_the_largest_timestamp_from_the_last_entry(play: Played) -> None:
    play(*begin(**DENSE), send(40), send(50), send(90), restart(), send(60), send(70), send(95))
    assert play.times() == [(50, 2), (90, 3), (95, 6)], "60 and 70 are not above 90"


@pytest.mark.parametrize(("version", "deleted"), [("0.10.0", 1), ("0.9.0", 0)])
def test_timestamps_are_loaded_from_format_0_10_on(
    version: str, deleted: int, play: Played
) -> None:
    """The message is 8 days old, its file is new: below 0.10 the file counts."""
    rows = play(
        *begin(**{"retention.ms": 7 * DAY}), send(-8 * DAY), step("roll"), send(0),
        restart(config={"message.format.version": version}), step("retain"),
    )  # fmt: skip
    assert rows[-1]["outcome"] == f"{deleted} segment{'s' * (deleted != 1)} deleted"


def test_after_a_hard_failure_the_active_log_is_scanned_to_its_end(play: Played) -> None:
    play(*begin(), send(50), send(90), send(20), restart(clean=False), step("roll"), send(5))
    assert play.times() == [(90, 3)], "no entry was written before the failure"


def upgraded(play: Played, *steps: Row) -> list[Row]:
    """A broker of 0.9 with a closed and an active segment, which starts as one of KIP-33's text."""
    return play(
        *begin("0.9.0"), old(at=5), old(), step("roll"), old(at=HOUR),
        restart(kafka="kip", at=T + DAY, config={"message.format.version": "0.9.0"}), *steps,
    )  # fmt: skip


def test_the_first_start_writes_one_entry_per_inactive_segment(play: Played) -> None:
    """(mtime of the segment -> base offset of the next segment)."""
    upgraded(play)
    assert play.times(0) == [(5, 2)]


def test_the_first_start_leaves_the_active_segments_index_empty(play: Played) -> None:
    upgraded(play)
    assert play.path(2).exists() and play.times(2) == []


def test_an_empty_index_gets_an_entry_at_the_first_message(play: Played) -> None:
    """(mtime of the segment -> offset of its first message): the index existed, without entries."""
    config = {"message.format.version": "0.9.0"}
    play(
        *begin(**config),
        old(),
        step("roll"),
        old(at=7),
        step("roll"),
        old(at=9),
        restart(at=T + DAY),
    )
    assert play.times(1) == [(7, 1)] and play.times(2) == []


@pytest.mark.parametrize(("clean", "entries"), [(True, [(60, 3)]), (False, [(40, 2), (60, 3)])])
def test_a_start_rebuilds_only_after_a_hard_failure(
    clean: bool, entries: list[tuple[int, int]], play: Played
) -> None:
    """0.10.0 has timestamps, but no time index: the first start leaves it empty, and closing adds an entry."""
    sends = (send(time) for time in (20, 40, 60))
    play(*begin("0.10.0", **DENSE), *sends, restart(kafka="kip", clean=clean))
    assert play.times() == entries


@pytest.mark.parametrize("clean", [True, False])
def test_a_wrong_index_is_kept_by_a_clean_start(clean: bool, play: Played) -> None:
    """The entries of the log are (30, 2) and (40, 3); one of a negative offset goes only after a hard failure."""
    play(*begin(**DENSE), send(20), send(30), send(40))
    before = play.root.rename(play.folder / "before")
    wrong = (T + 35).to_bytes(8, "big") + b"\xff" * 4
    (before / "t-0" / play.path().name).write_bytes(wrong)
    if not clean:
        (before / ".kafka_cleanshutdown").unlink()
        (before / "recovery-point-offset-checkpoint").unlink()
    play.out = play.folder / "again"
    play.root = play.out / "broker-1"
    create = step("create", config=DENSE)
    play(begin()[0], create | {"from": str(before / "t-0")}, step("roll"))
    assert play.times() == ([(35, -1), (40, 3)] if clean else [(30, 2), (40, 3)])


def test_segments_of_only_the_old_format_go_by_their_file(play: Played) -> None:
    """After the migration: the entry of the first start has the time of the last write."""
    times = [5 + 7 * DAY, 6 + 7 * DAY]
    rows = play(
        *begin("0.9.0"), old(at=5), step("roll"), old(at=HOUR), restart(kafka="kip"),
        *(step("retain", at=T + time) for time in times),
    )  # fmt: skip
    assert [r["outcome"] for r in rows[-2:]] == ["0 segments deleted", "1 segment deleted"]


def test_one_message_with_a_timestamp_decides(play: Played) -> None:
    """A segment with both formats expires by the largest timestamp, not by its file."""
    rows = play(
        *begin("0.9.0", **{"retention.ms": 7 * DAY}), old(), restart(kafka="kip"),
        send(-3 * DAY, at=HOUR), step("roll"), send(4 * DAY),
        step("retain", at=T + 4 * DAY), step("retain", at=T + 4 * DAY + 1),
    )  # fmt: skip
    assert [r["outcome"] for r in rows[-2:]] == ["0 segments deleted", "1 segment deleted"]


# ---------------------------------------------------------------- truncation


def test_truncation_cuts_the_entries_of_cut_messages(play: Played) -> None:
    play(*begin(**DENSE), *(send(n * 10) for n in range(6)), step("truncate", offset=3))
    assert play.times() == [(10, 2), (20, 3)]


def test_truncation_reads_the_largest_timestamp_again(play: Played) -> None:
    """From the offset of the last time index entry to the log end."""
    play(
        *begin(**{"index.interval.bytes": 60}), *(send(time) for time in (10, 20, 30, 35, 90, 40, 50)),
        step("truncate", offset=4), step("roll"),
    )  # fmt: skip
    assert play.times() == [(30, 3), (35, 4)], "90 and its entry were cut, 35 lies behind the last"


# ---------------------------------------------------------------- retention and rolling


def test_retention_goes_by_the_time_index(play: Played) -> None:
    """A message of 8 days ago that was appended now expires, as its file would not."""
    rows = play(
        *begin(**{"retention.ms": 7 * DAY}), send(-8 * DAY), step("roll"),
        send(-8 * DAY), send(-6 * DAY), step("roll"), send(0), step("retain"),
    )  # fmt: skip
    assert rows[-1]["outcome"] == "1 segment deleted" and play.bases() == [1, 3]


@pytest.mark.parametrize("early", [0, 1])
def test_retention_stops_at_the_first_segment_that_is_not_expired(early: int, play: Played) -> None:
    """It begins at the oldest, and a segment expires when it is older than retention.ms, by 1 ms."""
    rows = play(
        *begin(**{"retention.ms": 7 * DAY}), send(-9 * DAY), step("roll"),
        send(-7 * DAY - early), step("roll"), send(-DAY), step("roll"),
        send(-9 * DAY), step("roll"), send(0), step("retain"),
    )  # fmt: skip
    outcome, kept = ("2 segments deleted", [2, 3, 4]) if early else ("1 segment deleted", [1, 2, 3, 4])  # fmt: skip
    assert rows[-1]["outcome"] == outcome and play.bases() == kept


@pytest.mark.parametrize(("after", "rolls"), [(HOUR, ""), (HOUR + 1, "yes")])
def test_a_message_rolls_by_its_own_time(after: int, rolls: str, play: Played) -> None:
    """Its timestamp is greater than that of the segment's first message + log.roll.ms; the clock does not count."""
    config = {"segment.ms": HOUR}
    rows = play(*begin(**config), send(500), send(900, at=2 * HOUR), send(500 + after))
    assert [row["rolled"] for row in rows[2:]] == ["", "", rolls]


@pytest.mark.parametrize(("at", "time", "rolls"), [(HOUR, DAY, ""), (HOUR + 1, 0, "yes")])
def test_without_a_first_timestamp_the_creation_counts(
    at: int, time: int, rolls: str, play: Played
) -> None:
    """And the clock, not the timestamp of the message that is appended."""
    rows = play(*begin(**{"segment.ms": HOUR}), old(), send(time, at=at))
    assert rows[-1]["rolled"] == rolls
    assert rows[2]["outcome"] == "converted", "-1 is filled in"


def test_rolling_goes_by_timestamps_once_there_is_one(play: Played) -> None:
    """A first message of 0.9: by the creation. The next segment begins with one of 0.10: by its time."""
    rows = play(
        *begin(**{"segment.ms": HOUR}), old(), send(-DAY, at=HOUR), send(-DAY, at=HOUR + 1),
        send(-DAY + HOUR, at=DAY), send(-DAY + HOUR + 1),
    )  # fmt: skip
    assert [row["rolled"] for row in rows[2:]] == ["", "", "yes", "", "yes"]


def test_largest_timestamp_minus_1(play: Played) -> None:
    """Without any timestamp retention goes by the last write, and rolling by the creation."""
    config = {"message.format.version": "0.9.0", "segment.ms": HOUR, "retention.ms": DAY}
    rows = play(
        *begin(**config), old(), old(at=HOUR), old(at=HOUR + 1),
        step("retain", at=T + HOUR + DAY), step("retain", at=T + HOUR + DAY + 1),
    )  # fmt: skip
    assert [row["rolled"] for row in rows[2:5]] == ["", "", "yes"]
    assert [row["outcome"] for row in rows[5:]] == ["0 segments deleted", "1 segment deleted"]


# ---------------------------------------------------------------- search


def listed(time: int, version: int = 1, **fields: Any) -> Row:
    return step("list-offsets", version=version, time=T + time, **fields)


SEGMENTS = [
    send(10), send(20), send(30), step("roll"),
    send(40), send(35), send(60), step("roll"),
    send(70), send(80),
]  # fmt: skip


@pytest.mark.parametrize(
    ("time", "offset"), [(5, 0), (20, 2), (25, 2), (30, 3), (39, 3), (60, 6), (75, 6), (80, -1)]
)
def test_search(time: int, offset: int, play: Played) -> None:
    """The first segment whose last entry is later; in it the closest entry that is not."""
    rows = play(*begin(**DENSE), *SEGMENTS, listed(time))
    assert rows[-1]["first_offset"] == offset


def test_a_search_misses_no_later_message(play: Played) -> None:
    """Messages after the time are consumed; some before it may be, too."""
    times = [10, 20, 30, 40, 35, 60, 70, 80]
    asked = range(0, 80, 5)
    rows = play(*begin(**DENSE), *SEGMENTS, *(listed(time) for time in asked))
    answers = [row["first_offset"] for row in rows[-len(asked) :]]
    earlier = 0
    for time, answer in zip(asked, answers, strict=True):
        assert all(n >= answer for n, one in enumerate(times) if one > time)
        earlier += sum(one <= time for one in times[answer:])
    assert earlier > 0


def test_messages_of_the_searched_time_may_lie_before_the_answer(play: Played) -> None:
    """The text: "any message before this offset has a timestamp < T". Its rule keeps to it but at T itself."""
    times = [10, 20, 30, 40, 35, 60, 70, 80]
    asked = range(0, 85, 5)
    rows = play(*begin(**DENSE), *SEGMENTS, *(listed(time) for time in asked))
    answers = [row["first_offset"] for row in rows[-len(asked) :]]
    assert answers.pop() == -1, "nothing is later than 80, which lies before no answer"
    passed = []
    for time, answer in zip(asked, answers, strict=False):
        assert all(one <= time for one in times[:answer])
        passed += [one for one in times[:answer] if one == time]
    assert passed == [20, 30, 40, 60], "the timestamps of entries, but the last one"


def test_version_0_answers_with_a_sequence(play: Played) -> None:
    """The first offset is the one to start with; those of earlier segments follow."""
    rows = play(
        *begin(**DENSE), *SEGMENTS, listed(75, 0, count=9), listed(45, 0, count=9),
        listed(75, 0, count=2), listed(75, 0),
    )  # fmt: skip
    assert [row["offsets"] for row in rows[-4:]] == ["6 3 0", "5 3 0", "6 3", "6"]


@pytest.mark.parametrize("kafka", ["0.9.0", "2.8.2"])
def test_version_0_of_shipped_brokers_goes_by_files(kafka: str, play: Played) -> None:
    rows = play(
        *begin(kafka), old(at=5), step("roll"), old(at=50), step("roll"), old(at=90),
        listed(60, 0, count=9), listed(2, 0, count=9), listed(90, 0, count=2),
    )  # fmt: skip
    assert [row["offsets"] for row in rows[-3:]] == ["1 0", "", "3 2"]


def test_a_search_without_timestamps_goes_by_the_last_write(play: Played) -> None:
    """As before: the index of a segment has one entry with its mtime."""
    rows = upgraded(play, listed(4), listed(5), listed(HOUR))
    assert [row["first_offset"] for row in rows[-3:]] == [0, 2, -1]
