"""What is decided in columns, for many partitions at once, is what retention.decide says of each of them."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.generations import RETENTION_RULES, RetentionRule
from kafkats.retention.columns import Limits, Segments, decide, rows_of, running_max
from kafkats.retention.reasons import CODES, sentence, sentences
from kafkats.retention.rules import Limits as Plain
from kafkats.retention.rules import Segment
from kafkats.retention.rules import decide as decide_plainly
from tests.retention.test_rules import LIMITS, NOW, RULES, TABLE, partitions

Partition = tuple[list[Segment], Plain]


def in_columns(
    given: list[Partition], rule: RetentionRule, now_ms: int
) -> list[tuple[object, ...]]:
    """A row per segment: its Verdict, with the reason's code and its sentence."""
    rows = [segment for segments, _ in given for segment in segments]
    sizes = [len(segments) for segments, _ in given]
    starts = np.array([0, *accumulate(sizes)][:-1], np.int64)
    columns = Segments(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))
    limits = [
        limit._replace(high_watermark=-1 if limit.high_watermark is None else limit.high_watermark)
        for _, limit in given
    ]
    found = decide(
        rows_of(starts, len(rows)),
        columns._replace(trusted=columns.trusted.astype(bool)),
        Limits(*(np.array(column, np.int64) for column in zip(*limits, strict=True))),
        rule,
        now_ms=now_ms,
    )
    columns_of = (
        found.deletes.tolist(),
        found.by.to_pylist(),
        [CODES[code] for code in found.reason.code],
        sentences(found.reason).to_pylist(),
        *(column.to_pylist() for column in found[3:]),
    )
    return list(zip([row.base_offset for row in rows], *columns_of, strict=True))


def plainly(given: list[Partition], rule: RetentionRule, now_ms: int) -> list[tuple[object, ...]]:
    return [
        (*v[:3], v.reason.code, sentence(v.reason), *v[4:])
        for segments, limits in given
        for v in decide_plainly(segments, limits, rule, now_ms=now_ms).verdicts
    ]


@settings(deadline=None, max_examples=500)
@given(
    st.lists(st.tuples(partitions().filter(bool), LIMITS), min_size=1, max_size=4),
    RULES,
    st.sampled_from([NOW, 0, 2**62]),
)
def test_the_same_verdicts(given: list[Partition], rule: RetentionRule, now_ms: int) -> None:
    assert in_columns(given, rule, now_ms) == plainly(given, rule, now_ms)


@pytest.mark.parametrize("rule", RETENTION_RULES.values(), ids=RETENTION_RULES)
def test_every_row_of_the_table(rule: RetentionRule) -> None:
    given = [
        (row.segments, Plain(**({"high_watermark": 10_000} | row.limits)))
        for row in TABLE
        if row.segments
    ]
    assert in_columns(given, rule, NOW) == plainly(given, rule, NOW)


def test_the_largest_so_far_begins_anew_with_each_group() -> None:
    values, groups = np.array([5, 3, 9, -(2**63), 2**63 - 1, 1]), np.array([0, 0, 0, 2, 3, 3])
    assert running_max(values, groups).tolist() == [5, 5, 9, -(2**63), 2**63 - 1, 2**63 - 1]
