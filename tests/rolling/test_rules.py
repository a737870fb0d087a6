"""Rolling: a row for every test that brokers make before an append, whole streams, and what real brokers wrote."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.rolled import golden_simulation, rule_of
from kafkats.generations import RETENTION_RULES, ROLL_RULES
from kafkats.retention.rules import Limits
from kafkats.rolling.replay import (
    Rolled,
    after_retention,
    draw_jitter,
    new_base_offset,
    replay,
    simulate,
)
from kafkats.rolling.rules import Active, Append, Batch, Settings, due, should_roll
from tests.golden import Case, Unpacked, cases

ALL = tuple(ROLL_RULES)
BY_MESSAGE = ("4.1", "0.10.1")
RELATIVE = ("4.1", "0.10.1", "largest")
NOW = 10_000_000
KEPT = 2**31 - 1


def one(
    timestamp: int = NOW, size: int = 70, first: int = 100, last: int = 100, now_ms: int = NOW
) -> Append:
    return Append((Batch(first, last, size, timestamp),), now_ms)


class Row(NamedTuple):
    says: str
    active: Active
    append: Append
    settings: Settings
    rolls: str
    rules: tuple[str, ...] = ALL


WRITTEN = Active(0, 100, NOW, NOW, NOW)
QUIET = Settings()
TABLE = (
    # 1: bytes
    Row("as large as segment.bytes with it", WRITTEN, one(size=70), QUIET._replace(segment_bytes=170), ""),
    Row("one byte larger", WRITTEN, one(size=71), QUIET._replace(segment_bytes=170), "size"),
    Row("larger than segment.bytes alone", WRITTEN._replace(bytes=0), one(size=171), QUIET._replace(segment_bytes=170), "size"),
    Row("as large alone", WRITTEN._replace(bytes=0), one(size=170), QUIET._replace(segment_bytes=170), ""),
    Row("2^31-1 bytes do not overflow", WRITTEN._replace(bytes=KEPT - 70), one(size=70), QUIET._replace(segment_bytes=KEPT), ""),
    # 2: time of messages
    Row("segment.ms after the first", WRITTEN, one(NOW + 1000), QUIET._replace(segment_ms=1000), "", BY_MESSAGE),
    Row("a ms later", WRITTEN, one(NOW + 1001), QUIET._replace(segment_ms=1000), "time", BY_MESSAGE),
    Row("less its jitter", WRITTEN._replace(jitter_ms=400), one(NOW + 601), QUIET._replace(segment_ms=1000), "time", BY_MESSAGE),
    Row("not at the jitter", WRITTEN._replace(jitter_ms=400), one(NOW + 600), QUIET._replace(segment_ms=1000), "", BY_MESSAGE),
    Row("an empty one never by time", WRITTEN._replace(bytes=0), one(NOW + 10**9, now_ms=NOW + 10**9), QUIET._replace(segment_ms=1), ""),
    Row("old timestamps never, whatever the clock", WRITTEN, one(5, now_ms=2 * NOW), QUIET._replace(segment_ms=1000), "", BY_MESSAGE),
    Row("no timestamp in the append: never", WRITTEN, one(-1, now_ms=2 * NOW), QUIET._replace(segment_ms=1000), "", BY_MESSAGE),
    Row("one from the future at once", WRITTEN, one(2**63 - 1), QUIET, "time", BY_MESSAGE),
    Row("the first at time 0", WRITTEN._replace(first_timestamp=0), one(1001, now_ms=0), QUIET._replace(segment_ms=1000), "time", BY_MESSAGE),
    Row("the first from the future holds", WRITTEN._replace(first_timestamp=2**62), one(now_ms=2 * NOW), QUIET._replace(segment_ms=1), "", BY_MESSAGE),
    Row("none in the first: since it was made", WRITTEN._replace(first_timestamp=-1, largest_timestamp=-1), one(5, now_ms=NOW + 1001), QUIET._replace(segment_ms=1000), "time"),
    Row("none in the first, and in time", WRITTEN._replace(first_timestamp=-1, largest_timestamp=-1), one(2**60, now_ms=NOW + 1000), QUIET._replace(segment_ms=1000), ""),
    Row("-1 in the first although later ones have", WRITTEN._replace(first_timestamp=-1), one(2**60, now_ms=NOW + 1000), QUIET._replace(segment_ms=1000), "", BY_MESSAGE),
    Row("0.8: by the clock only", WRITTEN, one(5, now_ms=NOW + 1001), QUIET._replace(segment_ms=1000), "time", ("0.8",)),
    Row("0.8: not by messages", WRITTEN, one(2**60, now_ms=NOW + 1000), QUIET._replace(segment_ms=1000), "", ("0.8",)),
    Row("largest: the clock since the largest", WRITTEN._replace(largest_timestamp=NOW + 500), one(5, now_ms=NOW + 1501), QUIET._replace(segment_ms=1000), "time", ("largest",)),
    Row("largest: not since the first", WRITTEN._replace(largest_timestamp=NOW + 500), one(2**60, now_ms=NOW + 1500), QUIET._replace(segment_ms=1000), "", ("largest",)),
    Row("compacted: max.compaction.lag.ms", WRITTEN, one(NOW + 301, now_ms=NOW + 301), QUIET._replace(compacted=True, max_compaction_lag_ms=300), "time"),
    Row("compacted: not below it", WRITTEN, one(NOW + 300, now_ms=NOW + 300), QUIET._replace(compacted=True, max_compaction_lag_ms=300), ""),
    Row("compacted: segment.ms when that is less", WRITTEN, one(NOW + 301, now_ms=NOW + 301), QUIET._replace(segment_ms=300, compacted=True, max_compaction_lag_ms=900), "time"),
    Row("not compacted: not asked", WRITTEN, one(NOW + 301, now_ms=NOW + 301), QUIET._replace(max_compaction_lag_ms=300), ""),
    # 3: full indexes
    Row("the offset index has room for one", WRITTEN._replace(offset_entries=7), one(), QUIET._replace(segment_index_bytes=64), ""),
    Row("the offset index is full", WRITTEN._replace(offset_entries=8), one(), QUIET._replace(segment_index_bytes=64), "offset-index"),
    Row("a part of an entry is none", WRITTEN._replace(offset_entries=8), one(), QUIET._replace(segment_index_bytes=71), "offset-index"),
    Row("the time index has room for one", WRITTEN._replace(time_entries=4), one(), QUIET._replace(segment_index_bytes=72), ""),
    Row("the time index is full but for its last", WRITTEN._replace(time_entries=5), one(), QUIET._replace(segment_index_bytes=72), "time-index", RELATIVE),
    Row("there was none to be full", WRITTEN._replace(time_entries=5), one(), QUIET._replace(segment_index_bytes=72), "", ("0.8",)),
    # 4: offsets
    Row("as far above the base as an entry can say", WRITTEN, one(last=KEPT), QUIET, ""),
    Row("one farther", WRITTEN, one(last=KEPT + 1), QUIET, "offsets", RELATIVE),
    Row("nobody asked", WRITTEN, one(last=KEPT + 1), QUIET, "", ("0.8",)),
    # in order
    Row("size is said before time", WRITTEN, one(2**60, now_ms=2**60), QUIET._replace(segment_bytes=100, segment_ms=1), "size"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("row", "rule"),
    [pytest.param(row, rule, id=f"{rule}: {row.says}") for row in TABLE for rule in row.rules],
)
def test_table(row: Row, rule: str) -> None:
    assert should_roll(row.active, row.append, row.settings, ROLL_RULES[rule]) == row.rolls


def bases(segments: list[Rolled]) -> list[int]:
    return [segment.base_offset for segment in segments]


def stream(*timestamps: int, size: int = 100, now_ms: int = NOW) -> list[Append]:
    return [one(t, size, n, n, now_ms) for n, t in enumerate(timestamps)]


def test_first_batch_and_first_append_differ_where_an_append_has_several() -> None:
    """A fetch of two batches: 4.1 counts from the first batch, before it was from the largest of the append."""
    several = Append((Batch(0, 0, 70, NOW), Batch(1, 1, 70, NOW + 5000)), NOW)
    appends = [several, one(NOW + 1500, first=2, last=2)]
    settings = Settings(segment_ms=1000)
    assert bases(simulate(appends, settings, ROLL_RULES["4.1"])) == [0, 2]
    assert bases(simulate(appends, settings, ROLL_RULES["0.10.1"])) == [0]


def test_each_batch_or_each_append_gets_an_entry() -> None:
    fetch = [
        Append(tuple(Batch(4 * n + i, 4 * n + i, 100, 4 * n + i) for i in range(4)), NOW)
        for n in range(3)
    ]
    settings = Settings(index_interval_bytes=99, segment_ms=10**6)
    (newest,) = simulate(fetch, settings, ROLL_RULES["4.1"])
    (older,) = simulate(fetch, settings, ROLL_RULES["0.10.1"])
    assert (newest.offset_entries, newest.time_entries, newest.batches) == (11, 11, 12)
    assert (older.offset_entries, older.time_entries, older.batches) == (2, 2, 12)


def test_a_marker_with_the_brokers_clock_rolls_among_old_records() -> None:
    appends = [*stream(5, 6), one(NOW, 78, 2, 2), one(7, 100, 3, 3), one(NOW + 1, 78, 4, 4)]
    assert bases(simulate(appends, Settings(segment_ms=1000), ROLL_RULES["4.1"])) == [0, 2]


def test_equal_or_falling_timestamps_fill_only_the_offset_index() -> None:
    (made,) = simulate(stream(9, 9, 8, 7, 9), Settings(index_interval_bytes=0), ROLL_RULES["4.1"])
    assert (made.offset_entries, made.time_entries) == (4, 1)


def test_new_base_offset() -> None:
    whole, wrapper = one(first=150, last=160), one(first=-1, last=KEPT + 200)
    for rule in RELATIVE:
        assert new_base_offset(whole, 100, ROLL_RULES[rule]) == 150
        assert new_base_offset(whole, 155, ROLL_RULES[rule]) == 155
        assert new_base_offset(wrapper, 100, ROLL_RULES[rule]) == 200
        assert new_base_offset(wrapper, 300, ROLL_RULES[rule]) == 300
    assert new_base_offset(whole, 100, ROLL_RULES["0.8"]) == 100


def test_an_empty_segment_is_made_anew_or_left_behind() -> None:
    settings = Settings(segment_bytes=50)
    made = simulate([one(first=0, last=0, size=90)], settings, ROLL_RULES["4.1"])
    assert [(s.base_offset, s.bytes) for s in made] == [(0, 90)]
    far = simulate([one(first=5 * 10**9, last=5 * 10**9)], Settings(), ROLL_RULES["4.1"])
    assert [(s.base_offset, s.bytes, s.reason) for s in far] == [
        (0, 0, "offsets"),
        (5 * 10**9, 70, ""),
    ]


def test_what_is_told_of_each_segment() -> None:
    appends = [one(NOW + n, 70, n, n, NOW + 10 * n) for n in range(5)]
    made = simulate(
        appends,
        Settings(segment_bytes=150),
        ROLL_RULES["4.1"],
        jitter=iter([1, 2, 3]),
    )
    assert made[0] == Rolled(0, 2, 140, 2, NOW, NOW + 1, NOW, NOW + 10, 0, 0, 1, "size")
    assert made[1] == Rolled(2, 4, 140, 2, NOW + 2, NOW + 3, NOW + 20, NOW + 30, 0, 0, 2, "size")
    assert made[2] == Rolled(4, 5, 70, 1, NOW + 4, NOW + 4, NOW + 40, NOW + 40, 0, 0, 3, "")
    assert simulate([], Settings(), ROLL_RULES["4.1"]) == []


def test_jitter_is_seeded_and_bounded() -> None:
    settings = Settings(segment_ms=1000, segment_jitter_ms=400)
    drawn = list(islice(draw_jitter(settings, 7), 2000))
    assert (
        drawn
        == list(islice(draw_jitter(settings, 7), 2000))
        != list(islice(draw_jitter(settings, 8), 2000))
    )
    assert (min(drawn), max(drawn)) == (0, 399)
    assert max(islice(draw_jitter(Settings(segment_ms=10, segment_jitter_ms=400), 7), 500)) == 9
    assert set(islice(draw_jitter(Settings(), 7), 5)) == {0}


ACTIVE = Active(0, 100, NOW - 500, NOW - 200, NOW - 900)


def test_due() -> None:
    settings = Settings(segment_ms=500)
    found = {rule: due(ACTIVE, settings, ROLL_RULES[rule], now_ms=NOW) for rule in ALL}
    assert {rule: (d.rolls, d.evidence, d.due_from_ms) for rule, d in found.items()} == {
        "4.1": (False, "timestamp", NOW + 1),
        "0.10.1": (False, "timestamp", NOW + 1),
        "0.8": (True, "created", NOW - 399),
        "largest": (False, "timestamp", NOW + 301),
    }
    later = due(ACTIVE, settings, ROLL_RULES["4.1"], now_ms=NOW + 1)
    assert (later.rolls, later.reason) == (True, "time")
    assert later.explanation == "501 ms since its first batch's timestamp, allowed are 500"


@pytest.mark.parametrize(
    ("jitter", "begin", "said"),
    [
        (0, NOW + 101, "by time in 101 ms"),
        (1, NOW + 101, "by time in 101 ms"),
        (51, NOW + 51, "by time in 51 ms with the most jitter, in 101 ms without"),
        (400, NOW - 298, "by time now with the most jitter, in 101 ms without"),
        (2**62, NOW - 498, "by time now with the most jitter, in 101 ms without"),
    ],
)
def test_jitter_makes_due_a_range(jitter: int, begin: int, said: str) -> None:
    settings, rule = Settings(segment_ms=600, segment_jitter_ms=jitter), ROLL_RULES["4.1"]
    found = due(ACTIVE, settings, rule, now_ms=NOW)
    assert (found.rolls, found.due_from_ms, found.due_until_ms, found.explanation) == (
        False,
        begin,
        NOW + 101,
        said,
    )
    drawn = draw_jitter(settings, 3)
    known = [
        due(ACTIVE._replace(jitter_ms=next(drawn)), settings, rule, now_ms=NOW).due_until_ms
        for _ in range(50)
    ]
    assert all(one is not None and begin <= one <= NOW + 101 for one in known)
    late = due(
        ACTIVE, Settings(segment_ms=2**63 - 1, segment_jitter_ms=2**63 - 1), rule, now_ms=NOW
    )
    assert (late.due_from_ms is None, late.due_until_ms) == (False, None)
    assert late.explanation.endswith(" with the most jitter, never without")


def test_due_for_other_reasons_and_never() -> None:
    rule = ROLL_RULES["4.1"]
    full = due(ACTIVE, Settings(segment_bytes=100), rule, now_ms=NOW)
    assert (full.reason, full.explanation) == ("size", "100 bytes, segment.bytes is 100")
    assert due(
        ACTIVE._replace(offset_entries=8), Settings(segment_index_bytes=64), rule, now_ms=NOW
    ).rolls
    assert (
        due(
            ACTIVE._replace(time_entries=5), Settings(segment_index_bytes=72), rule, now_ms=NOW
        ).reason
        == "time-index"
    )
    never = due(ACTIVE, Settings(segment_ms=2**63 - 1), rule, now_ms=NOW)
    assert (never.rolls, never.due_from_ms, never.explanation) == (False, None, "never by time")
    assert not due(ACTIVE._replace(bytes=0), Settings(segment_ms=1), rule, now_ms=NOW).rolls
    untimed = due(ACTIVE._replace(first_timestamp=-1), Settings(segment_ms=899), rule, now_ms=NOW)
    assert (untimed.reason, untimed.evidence) == ("time", "created")


TIMESTAMPS = st.one_of(st.sampled_from([-1, 0, 2**63 - 1]), st.integers(NOW - 2000, NOW + 2000))
SETTINGS = st.builds(
    Settings,
    st.integers(1, 2000),
    st.integers(50, 1000),
    st.integers(0, 500),
    st.integers(24, 100),
    st.integers(0, 300),
    st.booleans(),
    st.integers(1, 3000),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Append]:
    found, end, clock = [], 0, NOW
    for _ in range(draw(st.integers(1, 25))):
        clock += draw(st.integers(0, 700))
        batches = []
        for _ in range(draw(st.integers(1, 3))):
            first = end + draw(st.sampled_from([0, 0, 0, 3]))
            end = first + draw(st.integers(1, 3))
            batches.append(Batch(first, end - 1, draw(st.integers(14, 300)), draw(TIMESTAMPS)))
        found.append(Append(tuple(batches), clock))
    return found


@pytest.mark.slow(1)
@given(streams(), SETTINGS, st.sampled_from(list(ROLL_RULES.values())), st.integers(0, 9))
def test_nothing_is_lost_and_no_limit_is_broken(
    appends: list[Append], settings: Settings, rule, seed: int
) -> None:
    made = simulate(appends, settings, rule, jitter=draw_jitter(settings, seed))
    assert sum(s.bytes for s in made) == sum(a.bytes for a in appends)
    assert sum(s.batches for s in made) == sum(len(a.batches) for a in appends)
    assert [s.end_offset for s in made[:-1]] == bases(made)[1:] and bases(made) == sorted(
        set(bases(made))
    )
    assert made[-1].end_offset == appends[-1].last_offset + 1
    assert [bool(s.reason) for s in made] == [True] * (len(made) - 1) + [False]
    assert all(s.bytes <= settings.segment_bytes or s.batches <= 3 for s in made)


@pytest.mark.slow(2)
@given(streams(), SETTINGS, st.sampled_from(list(ROLL_RULES.values())))
def test_what_is_due_is_what_the_next_append_does(
    appends: list[Append], settings: Settings, rule
) -> None:
    last = simulate(appends, settings, rule)[-1]
    names = (
        "base_offset",
        "bytes",
        "first_timestamp",
        "largest_timestamp",
        "created_ms",
        "offset_entries",
        "time_entries",
    )
    active = Active(**{name: getattr(last, name) for name in names})
    now_ms = appends[-1].now_ms
    told = due(active, settings, rule, now_ms=now_ms)
    more = simulate(
        [*appends, one(now_ms, 1, last.end_offset, last.end_offset, now_ms)], settings, rule
    )
    assert told.rolls == (more[-1].base_offset == last.end_offset)
    if told.due_from_ms is not None and told.due_until_ms is not None:
        roomy = settings._replace(segment_bytes=10**9, segment_index_bytes=10**6)
        assert due(active, roomy, rule, now_ms=told.due_until_ms).reason == "time"
        most = active._replace(jitter_ms=told.due_until_ms - told.due_from_ms)
        assert due(most, roomy, rule, now_ms=told.due_from_ms).reason == "time"
        assert due(most, roomy, rule, now_ms=told.due_from_ms - 1).reason == ""


def test_replay_takes_the_clock_from_timestamps_within_what_the_files_allow() -> None:
    first = [Batch(0, 0, 70, 1000), Batch(1, 1, 70, 900), Batch(2, 2, 70, 10**15)]
    second = [Batch(3, 3, 70, -1), Batch(4, 4, 70, 4000)]
    appends = list(replay([(first, 2000), (second, 3000)]))
    assert [a.now_ms for a in appends] == [1000, 1000, 2000, 3000, 3000]
    assert [a.batches[0] for a in appends] == [*first, *second]


def test_after_retention_of_edited_settings() -> None:
    """Ten minutes of retention, and a segment that nobody closes: the first record stays until the last one goes."""
    minute = 60_000
    appends = [one(n * minute, 70, n, n, n * minute) for n in range(60)]
    now_ms, limits = 60 * minute, Limits(10 * minute, -1, 0, 60)
    rule, retention = ROLL_RULES["4.1"], RETENTION_RULES["3.0"]
    whole = after_retention(
        simulate(appends, Settings(), rule), limits, retention, rule, now_ms=now_ms
    )
    assert (len(whole.segments), whole.open_files) == (1, 3)
    assert whole.kept_ms == (59 * minute + 10 * minute + 1,)
    made = simulate(appends, Settings(segment_ms=5 * minute), rule)
    cut = after_retention(made, limits, retention, rule, now_ms=now_ms)
    assert [s.base_offset for s in made] == list(range(0, 60, 6))
    assert [s.base_offset for s in cut.segments] == [48, 54] and cut.open_files == 6
    assert set(cut.kept_ms[:-1]) == {15 * minute + 1}
    assert (
        after_retention(made, limits, retention, ROLL_RULES["0.8"], now_ms=now_ms).open_files == 4
    )


def test_after_retention_when_everything_goes_and_without_timestamps() -> None:
    rule = ROLL_RULES["4.1"]
    made = simulate(stream(-1, 5), Settings(segment_bytes=150), rule)
    gone = after_retention(made, Limits(1, -1, 0, 2), RETENTION_RULES["3.0"], rule, now_ms=2 * NOW)
    assert (gone.segments, gone.open_files) == ((), 3)
    assert gone.kept_ms == (None, NOW + 1 + 1 - 5)


# What real brokers wrote

ROLLED = [
    (case, partition)
    for case in cases("rolling")
    for partition in case.info["segment_base_offsets"]
]


@pytest.mark.parametrize(("case", "partition"), ROLLED, ids=lambda value: str(value))
def test_where_real_brokers_rolled(case: Case, partition: str, golden: Unpacked) -> None:
    made = golden_simulation(case, golden(case, "data") / partition)
    assert bases(made) == case.info["segment_base_offsets"][partition]
    index = (
        "time-index" if rule_of(case) != "0.8" else "offset-index"
    )  # an entry is half as long again
    expected = {"by-bytes": "size", "by-index": index, "by-timeindex": index}
    assert {s.reason for s in made[:-1]} <= {expected.get(partition.removesuffix("-0"), "time")}


@pytest.mark.parametrize("case", cases("transactions"), ids=str)
def test_where_markers_made_real_brokers_roll(case: Case, golden: Unpacked) -> None:
    rolled = set()
    for folder in sorted(golden(case, "data").iterdir()):
        if folder.is_dir() and not folder.name.startswith("__"):
            made = golden_simulation(case, folder)
            assert bases(made) == [int(log.stem) for log in sorted(folder.glob("*.log"))]
            rolled |= {s.reason for s in made}
    assert rolled == {"size", "time", ""}
