"""Retention: a row for every rule of the generations, what holds for any partition, and what real brokers deleted."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.retained import golden_answer, golden_question, rule_of, run_at
from kafkats.generations import RETENTION_RULES, RetentionRule
from kafkats.retention.reasons import Code, sentence
from kafkats.retention.rules import Limits, Segment, Verdict, decide, expires_at
from tests.golden import Case, Unpacked, cases

NOW = 1_000_000
ALL = tuple(RETENTION_RULES)
MODERN = ("3.0", "0.11")
BOUND = MODERN
UNBOUND = ("0.10.1", "0.8", "kip33")
RECORD_TIME = ("3.0", "0.11", "0.10.1", "kip33")


def partition(*rows: tuple[int, int] | tuple[int, int, int]) -> list[Segment]:
    """Segments of ten offsets from (bytes, largest timestamp, mtime); the mtime is the timestamp where none is given."""
    return [
        Segment(10 * n, 10 * n + 10, size, timestamp, *(mtime or (timestamp,)))
        for n, (size, timestamp, *mtime) in enumerate(rows)
    ]


def deleted(
    segments: list[Segment], rule: str, now_ms: int = NOW, **limits: int | None
) -> list[int]:
    chosen = Limits(**({"high_watermark": 10_000} | limits))
    return [
        v.base_offset
        for v in decide(segments, chosen, RETENTION_RULES[rule], now_ms=now_ms).verdicts
        if v.deletes
    ]


class Row(NamedTuple):
    """One sentence of what brokers do: in every generation of `rules` these base offsets go."""

    says: str
    segments: list[Segment]
    limits: dict[str, int | None]
    goes: list[int]
    rules: tuple[str, ...] = ALL


OLD, YOUNG, FUTURE = NOW - 1000, NOW - 10, NOW + 10**12
TABLE = (
    # by start offset
    Row("below the log start offset", partition((5, OLD), (5, OLD), (5, OLD)), {"log_start_offset": 20}, [0, 10], MODERN),
    Row("at a next base offset equal to it", partition((5, 1), (5, 1)), {"log_start_offset": 10}, [0], MODERN),
    Row("one below the next base offset nothing", partition((5, 1), (5, 1)), {"log_start_offset": 9}, [], MODERN),
    Row("the last has no next and stays", partition((5, 1), (5, 1)), {"log_start_offset": 20}, [0], MODERN),
    Row("generations that have no such pass", partition((5, 1), (5, 1)), {"log_start_offset": 20}, [], UNBOUND),
    # by size
    Row("what leaves the limit exactly goes", partition((5, 1), (5, 1), (5, 1)), {"retention_bytes": 10}, [0]),
    Row("what leaves one byte less stays", partition((5, 1), (5, 1), (5, 1)), {"retention_bytes": 11}, []),
    Row("all as large as the limit", partition((5, 1), (5, 1)), {"retention_bytes": 10}, []),
    Row("smaller than the limit", partition((5, 1), (5, 1)), {"retention_bytes": 11}, []),
    Row("empty segments in front leave the limit", partition((0, 1), (0, 1), (5, 1)), {"retention_bytes": 5}, [0, 10]),
    Row("but not where less is there", partition((0, 1), (0, 1), (5, 1)), {"retention_bytes": 6}, []),
    Row("it stops at the first too large", partition((9, 1), (1, 1), (9, 1)), {"retention_bytes": 12}, []),
    Row("0 bytes: everything, also the active one", partition((5, 1), (5, 1)), {"retention_bytes": 0}, [0, 10]),
    Row("0 bytes, but not the empty active one", partition((5, 1), (0, 1)), {"retention_bytes": 0}, [0]),
    Row("-1 bytes are no limit", partition((5, 1), (5, 1)), {"retention_bytes": -1}, []),
    # by time
    Row("one ms older than the limit", partition((5, NOW - 101), (5, YOUNG)), {"retention_ms": 100}, [0]),
    Row("as old as the limit stays", partition((5, NOW - 100), (5, YOUNG)), {"retention_ms": 100}, []),
    Row("an unexpired one protects all behind it", partition((5, OLD), (5, YOUNG), (5, OLD)), {"retention_ms": 100}, [0]),
    Row("a future one protects all behind it", partition((5, OLD), (5, FUTURE), (5, OLD)), {"retention_ms": 100}, [0]),
    Row("the active one too", partition((5, OLD), (5, OLD)), {"retention_ms": 100}, [0, 10]),
    Row("an empty active one never", partition((5, OLD), (0, -1, OLD)), {"retention_ms": 100}, [0]),
    Row("0 ms is a limit", partition((5, NOW - 1), (5, NOW)), {"retention_ms": 0}, [0]),
    Row("-1 ms are no limit", partition((5, OLD), (5, OLD)), {"retention_ms": -1}, []),
    Row("2^63-1 is never reached", partition((5, 1), (5, 1)), {"retention_ms": 2**63 - 1}, []),
    Row("time 0 is a time", partition((5, 0, NOW), (5, YOUNG, NOW)), {"retention_ms": 100}, [0], RECORD_TIME),
    Row("no timestamp: the file's", partition((5, -1, OLD), (5, -1, NOW)), {"retention_ms": 100}, [0]),
    Row("a negative one is none", partition((5, -5000, NOW), (5, OLD)), {"retention_ms": 100}, []),
    Row("the record's before the file's", partition((5, OLD, NOW), (5, YOUNG, OLD)), {"retention_ms": 100}, [0], RECORD_TIME),
    Row("and the file's before that", partition((5, FUTURE, OLD), (5, OLD, NOW)), {"retention_ms": 100}, [0], ("0.8",)),
    Row("nothing by the time of a wrong index",
        [Segment(0, 10, 5, OLD, OLD, trusted=False), *partition((5, OLD), (5, OLD))[1:]], {"retention_ms": 100}, []),
    Row("but by size", [Segment(0, 10, 5, 1, 1, trusted=False), *partition((5, 1), (5, 1))[1:]], {"retention_bytes": 5}, [0]),
    # high watermark
    Row("up to the high watermark", partition((5, OLD), (5, OLD), (5, OLD)), {"retention_ms": 1, "high_watermark": 20}, [0, 10], BOUND),
    Row("not a segment that it lies in", partition((5, OLD), (5, OLD), (5, OLD)), {"retention_ms": 1, "high_watermark": 19}, [0], BOUND),
    Row("the active one only when it is at the end", partition((5, OLD), (5, OLD)), {"retention_bytes": 0, "high_watermark": 19}, [0], BOUND),
    Row("start offset too", partition((5, OLD), (5, OLD), (5, OLD)), {"retention_ms": 1, "log_start_offset": 5, "high_watermark": 10}, [0], BOUND),
    Row("it is at least the start offset", partition((5, OLD), (5, OLD), (5, OLD)), {"retention_ms": 1, "log_start_offset": 20, "high_watermark": 10}, [0, 10], BOUND),
    Row("also when none is known", partition((5, 1), (5, 1), (5, 1)), {"log_start_offset": 10, "high_watermark": None}, [0], BOUND),
    Row("none known, nothing goes", partition((5, OLD), (5, OLD)), {"retention_ms": 1, "high_watermark": None}, [], BOUND),
    Row("before 0.11 nobody asked", partition((5, OLD), (5, OLD)), {"retention_ms": 1, "high_watermark": 0}, [0, 10], UNBOUND),
    # order of the passes
    Row("size first lets time go on", partition((5, FUTURE, NOW), (5, OLD), (5, OLD)), {"retention_ms": 100, "retention_bytes": 10}, [0, 10, 20], ("3.0",)),
    Row("time first stops, size follows", partition((5, FUTURE, NOW), (5, OLD), (5, OLD)), {"retention_ms": 100, "retention_bytes": 10}, [0], ("0.11", "0.10.1", "0.8")),
    Row("size counts what time has left", partition((5, OLD), (5, YOUNG), (5, YOUNG)), {"retention_ms": 100, "retention_bytes": 6}, [0]),
    Row("start offset first lets size and time go on", partition((5, FUTURE), (5, OLD), (5, YOUNG)), {"retention_ms": 100, "log_start_offset": 10}, [0, 10], ("3.0",)),
    Row("start offset last lets them not", partition((5, FUTURE), (5, OLD), (5, YOUNG)), {"retention_ms": 100, "log_start_offset": 10}, [0], ("0.11",)),
    Row("an empty partition", [], {"retention_ms": 0}, []),
)  # fmt: skip


@pytest.mark.parametrize(
    ("row", "rule"),
    [pytest.param(row, rule, id=f"{rule}: {row.says}") for row in TABLE for rule in row.rules],
)
def test_table(row: Row, rule: str) -> None:
    assert deleted(row.segments, rule, **row.limits) == row.goes


def only(segments: list[Segment], limits: Limits, at: int, rule: str = "3.0") -> Verdict:
    return decide(segments, limits, RETENTION_RULES[rule], now_ms=NOW).verdicts[at]


def test_everything_goes_makes_an_empty_segment_at_the_log_end() -> None:
    decision = decide(
        partition((5, 1), (5, 1)), Limits(100, -1, 3, 20), RETENTION_RULES["3.0"], now_ms=NOW
    )
    assert (decision.rolls, decision.log_start_offset) == (True, 20)


def test_the_log_start_offset_never_falls() -> None:
    segments = partition((5, OLD), (5, YOUNG), (5, YOUNG))
    moved = decide(segments, Limits(100, -1, 3, 30), RETENTION_RULES["3.0"], now_ms=NOW)
    kept = decide(segments, Limits(-1, -1, 13, 30), RETENTION_RULES["0.10.1"], now_ms=NOW)
    assert (moved.rolls, moved.log_start_offset) == (False, 10)
    assert kept.log_start_offset == 13


def test_reasons_and_evidence() -> None:
    segments = partition((5, 7), (5, -1, OLD), (5, YOUNG), (5, OLD), (5, OLD))
    limits = Limits(100, 20, 10, 50)
    verdicts = decide(segments, limits, RETENTION_RULES["3.0"], now_ms=NOW).verdicts
    assert [v.by for v in verdicts] == ["start-offset", "time", "", "", ""]
    assert [v.evidence for v in verdicts] == [
        "offset",
        "mtime",
        "timestamp",
        "timestamp",
        "timestamp",
    ]
    assert [v.deletable_from_ms for v in verdicts] == [
        NOW,
        OLD + 101,
        YOUNG + 101,
        YOUNG + 101,
        YOUNG + 101,
    ]
    assert [v.blocked_by for v in verdicts] == [None, None, None, 20, 20]
    assert [v.reason.code for v in verdicts] == [
        Code.BELOW_START,
        Code.OLD_BY_MTIME,
        Code.NOT_EXPIRED,
        Code.PINNED,
        Code.PINNED,
    ]
    assert sentence(verdicts[1].reason) == "1 s old by mtime, retention.ms is 100"
    assert sentence(verdicts[2].reason) == "expires in 91 ms"
    assert sentence(verdicts[3].reason) == "expired, but kept by the segment at 20 before it"


def test_reasons_of_what_stays() -> None:
    one = partition((5, OLD), (5, OLD))
    untrusted = [one[0]._replace(trusted=False), one[1]]

    def why(segments: list[Segment], limits: Limits) -> str:
        return sentence(only(segments, limits, 0).reason)

    assert why(one, Limits(high_watermark=20)) == "no limit by time"
    assert why(one, Limits(100)) == "no high watermark is known"
    assert why(one, Limits(100, high_watermark=5)) == "reaches beyond the high watermark 5"
    assert why(untrusted, Limits(100, high_watermark=20)).startswith("its time index is wrong")
    assert only(untrusted, Limits(100, high_watermark=20), 1).blocked_by == 0
    assert why(one, Limits(2**63 - 1, high_watermark=20)).startswith("never expires")
    assert why(partition((0, OLD)), Limits(1, high_watermark=20)) == "an empty last segment stays"
    for verdict in (only(one, Limits(100), 0), only(untrusted, Limits(100, high_watermark=20), 1)):
        assert verdict.deletable_from_ms is None


def test_time_before_size_leaves_the_rest_to_the_next_run() -> None:
    segments, limits = partition((5, FUTURE), (5, OLD), (5, OLD)), Limits(100, 10, 0, 30)
    verdicts = decide(segments, limits, RETENTION_RULES["0.11"], now_ms=NOW).verdicts
    assert [v.by for v in verdicts] == ["size", "", ""]
    assert [v.deletable_from_ms for v in verdicts[1:]] == [OLD + 101, OLD + 101]
    assert verdicts[1].reason.code is Code.NEXT_RUN and verdicts[2].blocked_by is None
    again = decide(segments[1:], limits, RETENTION_RULES["0.11"], now_ms=NOW)
    assert all(v.by == "time" for v in again.verdicts)


TIMES = st.one_of(
    st.sampled_from([-1, -(2**63), 0, NOW, 2**63 - 1]), st.integers(NOW - 300, NOW + 300)
)
LIMITS = st.builds(
    Limits,
    st.one_of(st.sampled_from([-1, 0, 2**63 - 1]), st.integers(0, 300)),
    st.one_of(st.just(-1), st.integers(0, 40)),
    st.integers(0, 90),
    st.one_of(st.none(), st.integers(0, 90)),
)


@st.composite
def partitions(draw: st.DrawFn) -> list[Segment]:
    spans = draw(st.lists(st.integers(1, 15), max_size=7))
    ends = list(accumulate(spans, initial=draw(st.integers(0, 20))))
    size = st.integers(0, 9)
    mtimes = st.integers(NOW - 300, NOW + 300)
    return [
        Segment(begin, end, draw(size), draw(TIMES), draw(mtimes), draw(st.integers(0, 9)) > 0)
        for begin, end in pairwise(ends)
    ]


RULES = st.sampled_from(list(RETENTION_RULES.values()))


@given(partitions(), LIMITS, RULES)
def test_what_goes_is_a_prefix_and_is_allowed_to(
    segments: list[Segment], limits: Limits, rule: RetentionRule
) -> None:
    decision = decide(segments, limits, rule, now_ms=NOW)
    gone = [v for v in decision.verdicts if v.deletes]
    assert [v.base_offset for v in decision.verdicts] == [s.base_offset for s in segments]
    assert list(decision.verdicts[: len(gone)]) == gone
    assert all(v.by in rule.passes and v.reason and v.evidence for v in gone)
    assert all(v.by == "" and v.reason for v in decision.verdicts[len(gone) :])
    assert decision.rolls == (bool(segments) and len(gone) == len(segments))
    assert decision.log_start_offset >= limits.log_start_offset
    if gone:
        last = segments[len(gone) - 1]
        assert not rule.high_watermark or last.end_offset <= max(
            limits.high_watermark or 0, limits.log_start_offset
        )
        assert decision.log_start_offset >= last.end_offset
        assert not (decision.rolls and last.bytes == 0)


@given(partitions(), LIMITS, RULES, st.integers(0, 1000))
def test_later_never_less(
    segments: list[Segment], limits: Limits, rule: RetentionRule, wait: int
) -> None:
    def count(now_ms: int) -> int:
        return sum(v.deletes for v in decide(segments, limits, rule, now_ms=now_ms).verdicts)

    assert count(NOW) <= count(NOW + wait)


def run(
    segments: list[Segment], limits: Limits, rule: RetentionRule, now_ms: int
) -> tuple[list[Segment], Limits]:
    """The partition after the run."""
    decision = decide(segments, limits, rule, now_ms=now_ms)
    left = [s for s, v in zip(segments, decision.verdicts, strict=True) if not v.deletes]
    if decision.rolls:
        end = segments[-1].end_offset
        left = [Segment(end, end, 0, -1, now_ms)]
    return left, limits._replace(log_start_offset=decision.log_start_offset)


@given(partitions(), LIMITS, RULES)
def test_a_second_run_finds_nothing(
    segments: list[Segment], limits: Limits, rule: RetentionRule
) -> None:
    """Where time comes before size, it is the third: size may have freed what time comes back for."""
    left, then = run(segments, limits, rule, NOW)
    if rule.passes[0] == "time":
        left, then = run(left, then, rule, NOW)
    again = decide(left, then, rule, now_ms=NOW)
    assert not any(v.deletes for v in again.verdicts)
    assert again.log_start_offset == then.log_start_offset


@settings(max_examples=200)
@given(partitions(), LIMITS, RULES)
def test_an_empty_segment_at_the_log_end_lets_no_record_be_deleted(
    segments: list[Segment], limits: Limits, rule: RetentionRule
) -> None:
    """A recovery adds one. Brokers delete an expired last segment anyway: they roll first.

    Only a last segment whose records are all below the log start offset goes now, and did not.
    """
    if not segments or not segments[-1].bytes:
        return
    end = segments[-1].end_offset
    empty = Segment(end, end, 0, -1, NOW)
    without, with_empty = (
        [v.base_offset for v in decide(some, limits, rule, now_ms=NOW).verdicts if v.deletes]
        for some in (segments, [*segments, empty])
    )
    if limits.log_start_offset < end:
        assert with_empty == without
    else:
        assert with_empty[: len(without)] == without


@given(partitions(), LIMITS, RULES)
def test_deletable_from_is_kept(
    segments: list[Segment], limits: Limits, rule: RetentionRule
) -> None:
    """What is left goes at that time and not a millisecond before; what has none never goes by time."""
    left, then = run(segments, limits, rule, NOW)
    before = {v.base_offset: v for v in decide(segments, limits, rule, now_ms=NOW).verdicts}

    def goes(base: int, now_ms: int) -> bool:
        return next(
            v.deletes
            for v in decide(left, then, rule, now_ms=now_ms).verdicts
            if v.base_offset == base
        )

    for segment in left:
        if segment.base_offset not in before:
            continue
        since = before[segment.base_offset].deletable_from_ms
        if since is None:
            assert not goes(segment.base_offset, 2**63 - 1) or limits.retention_bytes >= 0
        else:
            assert goes(segment.base_offset, max(since, NOW))
            assert since <= NOW or not goes(segment.base_offset, since - 1)


@given(partitions(), LIMITS, RULES)
def test_a_pin_is_named_only_by_what_is_expired(
    segments: list[Segment], limits: Limits, rule: RetentionRule
) -> None:
    verdicts = decide(segments, limits, rule, now_ms=NOW).verdicts
    kept = {v.base_offset for v in verdicts if not v.deletes}
    for segment, verdict in zip(segments, verdicts, strict=True):
        if verdict.blocked_by is not None:
            expires = expires_at(segment, limits, rule)
            assert expires is not None and expires <= NOW
            assert verdict.blocked_by in kept and verdict.blocked_by < segment.base_offset


GOLDEN = [(one, partition) for one in cases("retention") for partition in one.info["retention"]]


@pytest.mark.parametrize(("one", "partition"), GOLDEN, ids=lambda value: str(value))
def test_what_real_brokers_deleted(one: Case, partition: str, golden: Unpacked) -> None:
    segments, limits = golden_question(one, partition, golden)[1:]
    decision = decide(segments, limits, RETENTION_RULES[rule_of(one)], now_ms=run_at(one))
    left = [v.base_offset for v in decision.verdicts if not v.deletes]
    told = golden_answer(one, partition)
    assert [s.base_offset for s in segments] == one.info["retention"][partition]["segments_before"]
    assert (left or [segments[-1].end_offset]) == told["remaining"]
    assert decision.rolls == (not left)
    assert decision.log_start_offset == told["log_start_offset"]


def test_real_brokers_showed_every_pass_and_both_orders() -> None:
    """What the pairs must contain for the comparison to mean something."""
    topic = "order-of-passes-0"
    orders = {
        rule_of(one): one.info["retention"][topic]["segments_after"]
        for one, p in GOLDEN
        if p == topic
    }
    assert len(orders["0.11"]) == 3 and len(orders["3.0"]) == 1
    assert {rule_of(one) for one, _ in GOLDEN} == {"0.8", "0.10.1", "0.11", "3.0"}
    assert len(GOLDEN) > 70
